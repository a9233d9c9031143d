"""The one runner: jobs on hosts are started, watched, bounded and ended; nothing of them is left behind.

Ranks, prepare steps, git and probes all go through ``run_jobs``, so that limits, marks and clean-up hold for all.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from trainmark.execution.classify import Exit, classify, last_step, rank_outcomes, signal_name
from trainmark.node import Host, Job, Look, held, rank_codes, read_tail
from trainmark.words.names import LOG, TELEMETRY
from trainmark.words.outcome import NodeOutcome, Outcome, OutcomeRecord
from trainmark.words.plan import Command, Plan
from trainmark.words.suite import Limits

GRACE_S = 10.0
"""How long the other nodes may go on after one has failed: their ranks lose their peers, and say so by themselves."""

_POLL_S = 0.05
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Pulse:
    """A sign of life of a running run: seconds since its start, and the last step it spoke of."""

    elapsed_s: float
    step: int | None


@dataclass(frozen=True, slots=True)
class JobOnHost:
    """A job and the host that it runs on."""

    host: Host
    job: Job


@dataclass(frozen=True, slots=True)
class Ended:
    """How one of several jobs ended; ``place`` is its place among them. ``code`` is None when it never started."""

    place: int
    code: int | None
    oom_kills: int = 0


@dataclass(frozen=True, slots=True)
class Carried:
    """How jobs ended, in the order in which they did.

    ``stopped`` is the limit that ended them, or why one could not be started; None when they ended by themselves.
    ``strays`` is the number of processes that they left behind and that were ended.
    """

    ended: tuple[Ended, ...]
    stopped: tuple[Outcome, str] | None
    strays: int
    duration_s: float


def run_jobs(
    jobs: Sequence[JobOnHost], limits: Limits, watch: Callable[[Pulse], None] = lambda _pulse: None
) -> Carried:
    """Run jobs together, and return how they ended.

    ``watch`` is called about twice a second. When one fails, the others get some seconds to say what they saw of it.
    Whatever happens, a ``KeyboardInterrupt`` included, no process of theirs is alive when this returns or raises.
    Raises ``TrainmarkError`` when a log cannot be opened.
    """
    running: dict[int, int] = {}
    began = time.monotonic()
    order: list[int] = []
    stopped: tuple[Outcome, str] | None = None
    strays = 0
    ended: dict[int, Ended] = {}
    try:
        # Held: an interrupt between the fork and our knowing of it would leave a process that nobody ends.
        with held():
            for place, one in enumerate(jobs):
                try:
                    running[place] = one.host.start(one.job)
                except (OSError, ValueError) as error:
                    reason = getattr(error, "strerror", None) or error
                    stopped = Outcome.FAILED, f"the command cannot be started: {reason}"
                    break
        if stopped is None:
            stopped = _wait(jobs, running, limits, began, watch, order)
    finally:
        with held():
            for place, pid in running.items():
                strays += jobs[place].host.kill(jobs[place].job.mark, pid)
            for place, pid in running.items():
                end = jobs[place].host.reap(pid)
                ended[place] = Ended(place, end.code, end.oom_kills)
    late = [place for place in range(len(jobs)) if place not in order]
    return Carried(
        tuple(ended.get(place, Ended(place, None)) for place in (*order, *late)),
        stopped,
        strays if stopped is None else 0,
        time.monotonic() - began,
    )


def _wait(
    jobs: Sequence[JobOnHost],
    running: Mapping[int, int],
    limits: Limits,
    began: float,
    watch: Callable[[Pulse], None],
    order: list[int],
) -> tuple[Outcome, str] | None:
    """Wait for the jobs; return why they must be ended, or None when they ended by themselves.

    ``order`` is filled with those that ended. As long as a log or another sign of one of them grows, none is stalled.
    """
    written, grown, next_look = 0, began, began
    failed_at: float | None = None
    while True:
        waiting = [place for place in running if place not in order]
        # The first wait takes the time, the others only look.
        for number, place in enumerate(waiting):
            code = jobs[place].host.wait(running[place], _POLL_S if number == 0 else 0)
            if code is not None:
                order.append(place)
                failed_at = time.monotonic() if code and failed_at is None else failed_at
        waiting = [place for place in running if place not in order]
        if not waiting:
            return None
        now = time.monotonic()
        if failed_at is not None and now - failed_at > GRACE_S:
            return None
        if now < next_look:
            continue
        next_look = now + _LOOK_S
        looks = [jobs[place].host.look(running[place]) for place in running]
        if (now_written := sum(look.written for look in looks)) != written:
            written, grown = now_written, now
        step = next((step for look in looks if (step := last_step(look.tail)) is not None), None)
        watch(Pulse(now - began, step))
        if (over := _beyond(limits, now - began, now - grown, step, looks)) is not None:
            return over


def _beyond(
    limits: Limits, elapsed_s: float, silent_s: float, step: int | None, looks: Sequence[Look]
) -> tuple[Outcome, str] | None:
    """Return the limit that jobs have passed, or None."""
    at = f" at step {step}" if step is not None else ""
    if elapsed_s > limits.timeout_s:
        return Outcome.TIMEOUT, f"it took longer than {limits.timeout_s:g} s{at} (limits.timeout_s)"
    if silent_s > limits.stall_timeout_s:
        silent = f"it printed nothing for {limits.stall_timeout_s:g} s"
        return Outcome.TIMEOUT, f"{silent}{at} (limits.stall_timeout_s)"
    used = max((look.private_bytes for look in looks), default=0)
    if limits.memory is not None and used > limits.memory:
        return Outcome.OOM, f"it used {used} bytes of memory{at}, more than {limits.memory} (limits.memory)"
    return None


@dataclass(frozen=True, slots=True)
class Said:
    """What a short command said: its exit code (None when it could not be started or a limit ended it), and output."""

    code: int | None
    out: bytes
    err: bytes
    stopped: tuple[Outcome, str] | None = None


def ask(host: Host, command: Command, limits: Limits, mark: str) -> Said:
    """Run a command that prints its answer, such as one of git's; it may be silent, and not take longer than a run."""
    patient = limits.model_copy(update={"stall_timeout_s": float("inf")})
    with TemporaryDirectory(prefix="trainmark-") as name:
        folder = Path(name)
        job = Job((command,), folder, folder / "out", mark, limits.memory, errors=folder / "err")
        carried = run_jobs([JobOnHost(host, job)], patient)
        (ended,) = carried.ended
        code = ended.code if carried.stopped is None else None
        return Said(code, _content(job.log), _content(folder / "err"), carried.stopped)


def carry_out(
    plan: Plan,
    directory: Path,
    limits: Limits,
    hosts: Sequence[Host],
    watch: Callable[[Pulse], None] = lambda _pulse: None,
) -> OutcomeRecord:
    """Run a plan whose run's folder here is ``directory``, and return what became of it.

    Each node's log (``train.log``, of node 1 ``train.node1.log``) holds what it printed, untouched; its telemetry
    lies beside it. ``watch`` is called about twice a second. Whatever happens, a ``KeyboardInterrupt`` included, no
    process of the run is alive when this returns or raises. Raises ``TrainmarkError`` when a log cannot be opened.
    """
    record = OutcomeRecord(
        case_id=plan.case.id,
        repeat=plan.repeat,
        outcome=Outcome.UNSUPPORTED,
        commands=tuple(command.text() for command in plan.commands),
    )
    known = {host.name: host for host in hosts}
    missing = plan.cannot_run or _missing_host(plan, known)
    if missing is not None:
        return record.model_copy(update={"reason": missing})
    nodes = sorted({command.node for command in plan.commands})
    jobs = [JobOnHost(known[plan.nodes[node].host], _job(plan, node, directory, limits)) for node in nodes]
    started_at = datetime.now(UTC)
    carried = run_jobs(jobs, limits, watch)
    for node, one in zip(nodes, jobs, strict=True):
        _bring(one, directory, node)
    ends = {nodes[end.place]: end for end in carried.ended}
    exits = [
        Exit(end.code, end.oom_kills, directory / name_on(LOG, node), node)
        for node, end in ends.items()
        if end.code is not None
    ]
    per_node, codes = plan.case.devices_per_node, rank_codes(directory)
    outcome, reason = carried.stopped or classify(exits, plan.events, plan.case.world_size)
    cause = (
        next((ended.node for ended in exits if ended.code != 0), None) if carried.stopped is None else None
    )
    said = {
        "outcome": outcome,
        "reason": reason,
        "nodes": tuple(
            NodeOutcome(
                node=node,
                host=plan.nodes[node].host,
                exit_code=ends[node].code,
                signal=signal_name(ends[node].code),
                oom_kills=ends[node].oom_kills,
                reason=reason if node == cause else None,
            )
            for node in nodes
        ),
    }
    if not exits:
        return record.model_copy(update=said)
    return record.model_copy(
        update=said
        | {
            "exit_code": ends[nodes[0]].code,
            "started_at": started_at,
            "ended_at": datetime.now(UTC),
            "duration_s": carried.duration_s,
            "last_step": last_step(read_tail(directory / LOG)),
            "strays": carried.strays,
            "ranks": rank_outcomes(exits, plan.events, codes, per_node),
        }
    )


def name_on(file: str, node: int) -> str:
    """Return what a file of a run is called for a node: ``train.log``, and for node 1 ``train.node1.log``."""
    stem, dot, end = file.partition(".")
    return f"{stem}.node{node}{dot}{end}" if node else file


def _missing_host(plan: Plan, known: Mapping[str, Host]) -> str | None:
    """Return the host that a plan has commands for and that is not there, in a sentence; None when all are."""
    for command in plan.commands:
        host = plan.nodes[command.node].host if command.node < len(plan.nodes) else None
        if host is None or host not in known:
            who = f"node {command.node}" if host is None else f"node {command.node} ({host})"
            return f"the plan has commands for {who}, and the hosts are {', '.join(known)} only"
    return None


def _job(plan: Plan, node: int, directory: Path, limits: Limits) -> Job:
    there = plan.nodes[node].directory
    mark = str(directory.resolve())
    return Job(
        commands=tuple(command for command in plan.commands if command.node == node),
        directory=there,
        log=there / name_on(LOG, node),
        # All nodes' marks lie in the run's folder, by which the next call finds them.
        mark=f"{mark}/node{node}" if len(plan.nodes) > 1 else mark,
        memory=limits.memory,
        signs=(there / plan.events.name,),
        telemetry=there / name_on(TELEMETRY, node),
    )


def _bring(one: JobOnHost, directory: Path, node: int) -> None:
    """Bring a node's files into the run's folder; what would take the place of another node's keeps to ``nodeN``."""
    if one.job.directory.resolve() == directory.resolve():
        return
    own = directory / f"node{node}"
    one.host.get(one.job.directory, own)
    for path in sorted(own.iterdir()):
        if not (directory / path.name).exists():
            path.rename(directory / path.name)
    with suppress(OSError):
        own.rmdir()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
