"""Run a plan: one job per node, the fetch of the nodes' files, and the run's outcome."""

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, takewhile
from pathlib import Path

from trainmark.execution.classify import ENDED_BY_TRAINMARK, NodeExit, classify, rank_outcomes, signal_name
from trainmark.node import (
    ClockOffset,
    Heartbeat,
    Host,
    HostError,
    HostOSError,
    Job,
    JobOnHost,
    JobResult,
    JobsResult,
    StepPace,
    Watch,
    ignore_heartbeat,
    last_step,
    map_hosts,
    rank_codes,
    read_tail,
    run_jobs,
)
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.measurement import About, Suspicion
from trainmark.schema.names import ARRIVALS, LOG, RUNS, TELEMETRY, name_on
from trainmark.schema.outcome import NodeOutcome, Outcome, OutcomeRecord
from trainmark.schema.plan import Plan
from trainmark.schema.suite import Limits
from trainmark.workload.card import OWN_FORMAT

_MOST_LEVELS = 3
"""The largest number of a case's folder levels above a run, which short runs have."""


def is_shared(host: Host, there: Path, here: Path) -> bool:
    """Return whether a folder on a host and one on this machine are the same, whatever their paths."""
    token = f".trainmark-{secrets.token_hex(8)}"
    (here / token).touch()
    try:
        return host.has(there / token)
    finally:
        (here / token).unlink()


def fetch_all(places: Mapping[int, Host], plan: Plan, directory: Path) -> str | None:
    """Fetch the files of the nodes in ``places``, one after the other; return why one failed, or None.

    Hosts with a shared disk that this machine does not have use one folder: the first fetch gets all files.
    """
    lost, brought = None, False
    for node, host in places.items():
        try:
            if not brought or host.has(plan.nodes[node].directory):
                _fetch(host, plan, directory, node)
                brought = True
        except (HostError, HostOSError) as error:
            lost = lost or f"the files of {host.name} could not be fetched: {error}"
    return lost


def _fetch(host: Host, plan: Plan, directory: Path, node: int) -> None:
    """Move a node's files into the run's folder; files that another node also has stay in ``nodeN``.

    The working tree of the program's source is not fetched: it is not part of the run and is removed with the folder.
    """
    there = plan.nodes[node].directory
    if is_shared(host, there, directory):
        return
    own = directory / f"node{node}"
    trees = {made.source.tree.name for made in plan.preparations if made.source and made.node == node}
    host.get(there, own, without=trees)
    host.remove(there)
    # Only the case's folders, which no other run uses now; the folders above them are shared with other runs.
    above = islice(takewhile(lambda folder: folder.name != RUNS, there.parents), _MOST_LEVELS)
    host.remove_empty(list(above))
    for path in sorted(own.iterdir()):
        if not (directory / path.name).exists():
            path.rename(directory / path.name)
    with suppress(OSError):
        own.rmdir()


def run_plan(
    plan: Plan,
    directory: Path,
    limits: Limits,
    hosts: Sequence[Host],
    watch: Watch = ignore_heartbeat,
    steps: int | None = None,
) -> OutcomeRecord:
    """Run a plan in the run's folder ``directory``, and return the run's record.

    ``steps`` is the program's number of steps, if it reports them: the record of a run that is ended early then has the
    expected time of the whole run.

    Each node's log (``train.log``; of node 1 ``train.node1.log``) has its unmodified output; its telemetry is next to
    it. ``watch`` is called about twice a second. In all cases, a ``KeyboardInterrupt`` included, no process of the run
    is alive when this returns or raises. Raises ``TrainmarkError`` if a log cannot be opened.
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
    places = _places(plan, known)
    pace = StepPace()

    def paced(pulse: Heartbeat) -> tuple[Outcome, str] | None:
        pace.add(pulse)
        return watch(pulse)

    ending = _run_at(places, plan, directory, limits, paced)
    ended = record.model_copy(update=_recorded_end(plan, directory, places, ending))
    return (
        ended if ending.carried.stopped is None or steps is None else _with_expected_time(ended, pace, steps)
    )


def _with_expected_time(record: OutcomeRecord, pace: StepPace, steps: int) -> OutcomeRecord:
    """Return the record of a run that was ended early, with the expected time of the whole run."""
    run_s, step_s = pace.run_s(steps), pace.step_s
    if run_s is None or step_s is None:
        return record
    reason = record.reason
    if record.outcome is Outcome.TIMEOUT:
        reason = f"{reason}; at {step_s:.3g} s a step, its {steps} steps would have taken about {run_s:.0f} s"
    return record.model_copy(update={"reason": reason, "expected_s": run_s, "expected_step_s": step_s})


@dataclass(frozen=True, slots=True)
class _Ending:
    """The end of a run's jobs, the nodes' clocks before and after, and why a node's files are missing (or None)."""

    started_at: datetime
    carried: JobsResult
    clocks: Mapping[int, Mapping[str, float]]
    lost: str | None


def _run_at(places: Mapping[int, Host], plan: Plan, directory: Path, limits: Limits, watch: Watch) -> _Ending:
    """Run the jobs of a plan, and fetch their files."""
    jobs = _jobs(plan, directory, limits, places)
    started_at = datetime.now(UTC)
    before = map_hosts(jobs, _clock)
    try:
        carried = run_jobs(jobs, limits, watch)
    except KeyboardInterrupt:
        # Fetch the run's files, so that none stay on the hosts; a second interrupt skips this.
        with suppress(OSError):
            fetch_all(places, plan, directory)
        raise
    # The ranks of a run that was ended are not compared, and a lost host would only cost a timeout.
    after = [None] * len(jobs) if carried.stopped else map_hosts(jobs, _clock)
    clocks = dict(zip(places, map(_clocks, before, after), strict=True))
    return _Ending(started_at, carried, clocks, fetch_all(places, plan, directory))


def _recorded_end(
    plan: Plan, directory: Path, places: Mapping[int, Host], ending: _Ending
) -> dict[str, object]:
    """Return the fields of a run's record that describe its end."""
    carried = ending.carried
    ends = {tuple(places)[end.index]: end for end in carried.ended}
    exits = _exits(ends, directory)
    outcome, reason = _judge(carried, ending.lost, exits, plan)
    cause = None if carried.stopped else next((ended.node for ended in exits if ended.code != 0), None)
    reported: dict[str, object] = {
        "outcome": outcome,
        "reason": reason,
        "doubts": (*_not_watched(plan, places), *_left_daemons(ends)),
        "hosts": tuple(node.host for node in plan.nodes),
        "nodes": tuple(
            NodeOutcome(
                node=node,
                host=places[node].name,
                exit_code=end.code,
                signal=signal_name(end.code),
                oom_kills=end.oom_kills,
                strays=end.strays,
                reason=reason if node == cause else ENDED_BY_TRAINMARK if end.by_us else None,
                **ending.clocks[node],
            )
            for node, end in sorted(ends.items())
        ),
    }
    if not exits:
        return reported
    per_node, codes = plan.case.devices_per_node, rank_codes(directory)
    return reported | {
        "exit_code": ends[next(iter(places))].code,
        "started_at": ending.started_at,
        "ended_at": datetime.now(UTC),
        "duration_s": carried.duration_s,
        "last_step": last_step(read_tail(directory / LOG)),
        "strays": sum(end.strays for end in carried.ended),
        "ranks": rank_outcomes(exits, plan.events, codes, per_node, carried.dumped),
    }


def _places(plan: Plan, known: Mapping[str, Host]) -> dict[int, Host]:
    """Return the hosts of the supervised nodes: those with commands, then those on which mpirun starts ranks."""
    launched = sorted({command.node for command in plan.commands})
    others = [at for at, node in enumerate(plan.nodes) if at not in launched and node.host in known]
    return {node: known[plan.nodes[node].host] for node in (*launched, *others)}


def _jobs(plan: Plan, directory: Path, limits: Limits, places: Mapping[int, Host]) -> list[JobOnHost]:
    # All marks begin with the run's folder, by which the next call finds them. The random end is for lost agents: each
    # ends only the processes that it started, not those of a later attempt in the same folder.
    marks = {command.node: f"{directory.resolve()}/{secrets.token_hex(4)}" for command in plan.commands}
    # Ranks that mpirun starts on other nodes carry the first node's mark; their files belong to the run.
    of_mpirun = marks[next(iter(places))]
    return [
        JobOnHost(host, _job(plan, node, limits, marks.get(node, of_mpirun))) for node, host in places.items()
    ]


def _missing_host(plan: Plan, known: Mapping[str, Host]) -> str | None:
    """Return a sentence about a host that the plan needs but that is missing; None if there is none."""
    for command in plan.commands:
        host = plan.nodes[command.node].host if command.node < len(plan.nodes) else None
        if host is None or host not in known:
            who = f"node {command.node}" if host is None else f"node {command.node} ({host})"
            return f"the plan has commands for {who}, but the only hosts are {', '.join(known)}"
    return None


def _job(plan: Plan, node: int, limits: Limits, mark: str) -> Job:
    there = plan.nodes[node].directory
    return Job(
        commands=tuple(command for command in plan.commands if command.node == node),
        directory=there,
        log=there / name_on(LOG, node),
        mark=mark,
        memory=limits.memory,
        signs=(there / plan.events.name,),
        telemetry=there / name_on(TELEMETRY, node),
        arrivals=None if plan.log_format == OWN_FORMAT else there / name_on(ARRIVALS, node),
        ranks=plan.case.world_size,
    )


def _exits(ends: Mapping[int, JobResult], directory: Path) -> list[NodeExit]:
    """Return the ends of the nodes' commands, in order; OOM kills among mpirun's remote ranks count for every node."""
    kills = sum(end.oom_kills for end in ends.values() if end.code is None)
    return [
        NodeExit(end.code, end.oom_kills + kills, directory / name_on(LOG, node), node)
        for node, end in ends.items()
        if end.code is not None
    ]


def _judge(
    carried: JobsResult, lost: str | None, exits: Sequence[NodeExit], plan: Plan
) -> tuple[Outcome, str | None]:
    if lost is not None and carried.stopped is None:
        # A rank's files are missing: an incomplete run cannot be judged.
        return Outcome.FAILED, lost
    outcome, reason = carried.stopped or classify(exits, plan.events, plan.case.world_size)
    return outcome, _with_host(reason, plan)


def _not_watched(plan: Plan, nodes: Collection[int]) -> tuple[Suspicion, ...]:
    """Return a doubt about nodes on which mpirun started ranks but which have no agent."""
    others = [node.host for number, node in enumerate(plan.nodes) if number not in nodes]
    if not others:
        return ()
    where = f"mpirun started the ranks on {', '.join(others)}"
    sentence = f"{where}, which have no agent: no telemetry, no clock"
    return (Suspicion(code="nodes-not-watched", sentence=sentence, about=About.MACHINE),)


def _left_daemons(ends: Mapping[int, JobResult]) -> tuple[Suspicion, ...]:
    """Return a doubt that names the daemons that the program left behind."""
    daemons = [daemon for end in ends.values() for daemon in end.daemons]
    if not daemons:
        return ()
    sentence = (
        f"the program left {', '.join(daemons)} behind, with a session of its own and a cleared environment; "
        "it was ended after the run"
    )
    return (Suspicion(code="daemon-left", sentence=sentence, about=About.MACHINE),)


def _with_host(reason: str | None, plan: Plan) -> str | None:
    """Return the reason with the host of its rank or node inserted; this machine is not named."""
    if reason is None or {node.host for node in plan.nodes} == {LOCALHOST}:
        return reason
    if len(plan.nodes) == 1:
        return f"{reason} (on {plan.nodes[0].host})"
    found = re.match(r"(?:out of memory on )?rank (\d+)\b|the program on node (\d+)\b", reason)
    if found is None:
        return reason
    node = int(found[1]) // plan.case.devices_per_node if found[1] else int(found[2])
    if node >= len(plan.nodes):
        return reason
    return f"{found[0]} on {plan.nodes[node].host}{reason[found.end() :]}".replace(
        f"node {node} on {plan.nodes[node].host}", f"{plan.nodes[node].host} (node {node})"
    )


def _clock(one: JobOnHost) -> ClockOffset | None:
    # A lost host is reported by the steps that follow.
    with suppress(HostError):
        return one.host.clock()
    return None


def _clocks(before: ClockOffset | None, after: ClockOffset | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for when, clock in (("", before), ("_after", after)):
        if clock is not None:
            found |= {f"clock_offset{when}_s": clock.offset_s, f"clock_error{when}_s": clock.error_s}
    return found
