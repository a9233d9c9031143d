"""Run a plan: one job per node, the fetch of the nodes' files, and the run's outcome.

``Preparer`` makes the program ready before it (source, image, the card's prepare steps) and cleans up after it.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, takewhile
from pathlib import Path

from trainmark.errors import TrainmarkError
from trainmark.execution.classify import ENDED_BY_TRAINMARK, NodeExit, classify, rank_outcomes, signal_name
from trainmark.execution.directory import name_on
from trainmark.execution.sources import Git, SourceError, check_out, discard, fetch, is_cached
from trainmark.files import to_json, write_run_file
from trainmark.node import (
    NOT_FOUND,
    ClockOffset,
    CommandRunner,
    Heartbeat,
    Host,
    HostError,
    HostOSError,
    Job,
    JobOnHost,
    JobResult,
    JobsResult,
    LocalHost,
    StepPace,
    Watch,
    child_mark,
    deferred_signals,
    ignore_heartbeat,
    last_step,
    map_hosts,
    rank_codes,
    read_tail,
    run_jobs,
)
from trainmark.placement import removal_command
from trainmark.printable import last_line
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.measurement import About, Suspicion
from trainmark.schema.names import ARRIVALS, LOG, RUNS, TELEMETRY
from trainmark.schema.outcome import NodeOutcome, Outcome, OutcomeRecord
from trainmark.schema.plan import Command, Plan, Preparation, PrepareStep
from trainmark.schema.suite import Limits
from trainmark.workload.card import OWN_FORMAT

_MOST_LEVELS = 3
"""The largest number of a case's folder levels above a run, which short runs have."""
SOURCE = "source.json"
"""The file in a run's folder with the program's repository, commit and tree."""
_DONE = "done.json"
"""The file with the finished steps, in the steps' folder. It is missing while a step runs and after one that failed."""
_LOCK = ".lock"
_LINK = """\
if [ "$(readlink "$1")" = "$2" ]; then exit 0; fi
if [ -e "$1" ] || [ -L "$1" ]; then
    echo "exists, but the card declares a stand-in for it: remove the file, or the stand-in from the card" >&2
    exit 1
fi
mkdir -p "$(dirname "$1")" && ln -s "$2" "$1"
"""
_UNLINK = 'if [ "$(readlink "$1")" = "$2" ]; then rm "$1"; fi'
_REMOVAL_S = 60.0
"""The time limit for ending a container, in seconds."""


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


def start_ahead(plan: Plan, directory: Path, limits: Limits, host: LocalHost, log: Path) -> None:
    """Start the process of a coming run of a built-in worker on this machine; it waits for ``run_plan``.

    Until then its output is in the file ``log``. Raises ``OSError`` if it cannot be started.
    """
    (mark,) = _marks(plan, directory).values()
    # An interrupt between the fork and the assignment of the process would leave an unknown one.
    with deferred_signals():
        host.start_ahead(_job(plan, 0, limits, mark), log)


def _with_expected_time(record: OutcomeRecord, pace: StepPace, steps: int) -> OutcomeRecord:
    """Return the record of a run that was ended early, with the expected time of the whole run."""
    run_s, step_s = pace.run_s(steps), pace.step_s
    if run_s is None or step_s is None:
        return record
    reason = record.reason
    if record.outcome is Outcome.TIMEOUT:
        reason = (
            f"{reason}; at {step_s:.3g} s per step, its {steps} steps would have taken about {run_s:.0f} s"
        )
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
    marks = _marks(plan, directory)
    # Ranks that mpirun starts on other nodes carry the first node's mark; their files belong to the run.
    of_mpirun = marks[next(iter(places))]
    return [
        JobOnHost(host, _job(plan, node, limits, marks.get(node, of_mpirun))) for node, host in places.items()
    ]


def _marks(plan: Plan, directory: Path) -> dict[int, str]:
    """Return the mark of each node's commands.

    All marks begin with the run's folder, by which the next call finds them. The random end is for lost agents: each
    ends only the processes that it started, not those of a later attempt in the same folder.
    """
    return {command.node: f"{directory.resolve()}/{secrets.token_hex(4)}" for command in plan.commands}


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


class PreparationError(TrainmarkError):
    """A prerequisite of a run cannot be provided; ``outcome`` is the run's outcome."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


class Preparer:
    """Prepares runs; a failure is cached and raised again, without another attempt, for the next run that needs it.

    Its commands have the limits and the mark of their run and are ended in the same way. ``watch`` is called while they
    run and can end them by raising.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        hosts: Sequence[Host],
        limits: Limits,
        watch: Callable[[Heartbeat], None] = ignore_heartbeat,
    ) -> None:
        self._say, self._watch = say, watch
        self._hosts = {host.name: host for host in hosts}
        self._limits = limits
        self._failed: dict[str, PreparationError] = {}

    def reporting_to(self, say: Callable[[str], None], watch: Callable[[Heartbeat], None]) -> "Preparer":
        """Return a copy with another listener and watch; the cache of failures is shared."""
        other = copy(self)
        other._say, other._watch = say, watch
        return other

    def make_ready(self, plan: Plan, directory: Path) -> None:
        """Provide everything that the plan's run needs on its nodes, or raise ``PreparationError``."""
        # A killed trainmark leaves the container of its last run behind, with the same name.
        self._end_containers(plan, directory)
        for node in plan.nodes if plan.cannot_run is None else ():
            # On a host with its own disk, the files of that run are left too.
            host = self._hosts.get(node.host)
            if host is not None and not is_shared(host, node.directory, directory):
                host.remove(node.directory)
        for preparation in plan.preparations:
            runner = self._runner(plan, preparation.node, directory)
            self._have_commit(preparation, runner)
            self._have_tasks(preparation, runner)
            if preparation.source is not None:
                with _reported():
                    tree = check_out(preparation.source, preparation.subfolder, Git(runner))
                origin = to_json(_origin(preparation, tree))
                write_run_file(directory / name_on(SOURCE, preparation.node), origin)
            for link, target in preparation.links:
                _link(runner, link, target)

    def clear(self, plan: Plan, directory: Path) -> None:
        """End the containers of a run that has ended in any way, and remove its working trees."""
        self._end_containers(plan, directory)
        for preparation in plan.preparations:
            for link, target in preparation.links:
                _unlink(self._runner(plan, preparation.node, directory), link, target)
            if preparation.source is not None:
                discard(preparation.source, Git(self._runner(plan, preparation.node, directory)))

    def _runner(self, plan: Plan, node: int, directory: Path) -> CommandRunner:
        host, mark = self._hosts[plan.nodes[node].host], str(directory.resolve())
        return CommandRunner(host, self._limits, mark, self._watch)

    def _end_containers(self, plan: Plan, directory: Path) -> None:
        for command in plan.commands:
            if plan.cannot_run is None:
                _end_container(self._runner(plan, command.node, directory), command)

    def _have_commit(self, preparation: Preparation, runner: CommandRunner) -> None:
        source, git = preparation.source, Git(runner)
        if source is not None:
            with self._once(f"{runner.host.name} {source.url} {source.commit}"):
                if not is_cached(source, git):
                    self._say(f"fetching {source.url} at {source.commit}")
                fetch(source, git)

    def _have_tasks(self, preparation: Preparation, runner: CommandRunner) -> None:
        if not preparation.tasks:
            return
        try:
            with runner.host.locked(preparation.folder / _LOCK):
                self._do_tasks(preparation, runner)
        except OSError as error:
            raise PreparationError(
                Outcome.FAILED, f"{preparation.folder}: cannot be written: {error.strerror}"
            ) from None

    def _do_tasks(self, preparation: Preparation, runner: CommandRunner) -> None:
        host, folder = runner.host, preparation.folder
        done = _read_done(host, folder)
        if done is None:
            # A step failed or was ended and may have damaged other files: all steps start again in an empty folder.
            host.remove(folder, without=(_LOCK,))
            done = set()
        left = [
            (number, task)
            for number, task in enumerate(preparation.tasks, 1)
            if not _is_done(task, done, runner)
        ]
        if not left:
            return
        for path, content in preparation.files.items():
            host.put(path, content.encode())
        workshop, git = preparation.workshop, Git(runner)
        if workshop is not None:
            # A killed trainmark may have left an unverified tree.
            discard(workshop, git)
        announced = None
        try:
            for number, task in left:
                with self._once(f"{host.name} {folder} {_digest(task)}"):
                    if workshop is not None and not host.has(workshop.tree):
                        check_out(workshop, preparation.subfolder, git)
                    # The commands that install a card's packages have one description.
                    if task.description != announced:
                        announced = task.description
                        self._say(f"preparing {folder.name}: {task.description}")
                    if task.present is None:
                        host.remove(folder / _DONE)
                    _do(task, folder, folder / f"prepare-{number}.log", runner)
                done.add(_digest(task))
                host.put(folder / _DONE, to_json(sorted(done)).encode())
        finally:
            if workshop is not None:
                discard(workshop, git)

    @contextmanager
    def _once(self, what: str) -> Iterator[None]:
        if what in self._failed:
            raise self._failed[what]
        try:
            with _reported():
                yield
        except PreparationError as error:
            self._failed[what] = error
            raise


def _end_container(runner: CommandRunner, command: Command) -> None:
    words = removal_command(command)
    if words is not None and runner.host.which(words[0]) is not None:
        limits = Limits(timeout_s=_REMOVAL_S)
        CommandRunner(runner.host, limits, runner.mark).run(Command(command.node, words, {}))


def _link(runner: CommandRunner, link: Path, target: Path) -> None:
    """Make a link for the run; raise ``PreparationError`` if there is something else in its place."""
    words = ("sh", "-c", _LINK, "sh", str(link), str(target))
    done = runner.run(Command(0, words, {}))
    if done.code != 0:
        raise PreparationError(Outcome.FAILED, f"{link}: {done.error_line()}")


def _unlink(runner: CommandRunner, link: Path, target: Path) -> None:
    runner.run(Command(0, ("sh", "-c", _UNLINK, "sh", str(link), str(target)), {}))


@contextmanager
def _reported() -> Iterator[None]:
    """Convert a ``SourceError`` to a ``PreparationError`` with the same outcome."""
    try:
        yield
    except SourceError as error:
        raise PreparationError(error.outcome, str(error)) from None


def check_expected_files(record: OutcomeRecord, plan: Plan) -> OutcomeRecord:
    """Return a run's record, as ``invalid`` if it ended normally without the files that its card expects."""
    missing = [path.name for path in plan.expects if not path.exists()]
    if record.outcome is not Outcome.OK or not missing:
        return record
    reason = f"the run ended normally, but without {', '.join(missing)}, which its card expects"
    return record.model_copy(update={"outcome": Outcome.INVALID, "reason": reason})


def _origin(preparation: Preparation, tree: str) -> dict[str, str]:
    assert preparation.source is not None
    url, commit = preparation.source.url, preparation.source.commit
    return {"url": url, "commit": commit, "tree": tree, "folder": preparation.subfolder}


def _digest(task: PrepareStep) -> str:
    return hashlib.sha256(task.command.text().encode()).hexdigest()


def _read_done(host: Host, folder: Path) -> set[str] | None:
    """Return the digests of the finished steps; None if the state of the folder is unknown."""
    try:
        return set(json.loads(host.read(folder / _DONE) or b""))
    except ValueError:
        return None


def _is_done(task: PrepareStep, done: set[str], runner: CommandRunner) -> bool:
    if task.present is not None:
        return runner.run(Command(task.command.node, task.present, {})).code == 0
    return _digest(task) in done and all(runner.host.has(path) for path in task.leaves)


def _do(task: PrepareStep, folder: Path, log: Path, runner: CommandRunner) -> None:
    """Run a task to its end; raise ``PreparationError`` if it fails or its files are missing."""
    heading = f"# {task.description}\n# {task.command.text()}\n".encode()
    job = Job((task.command,), folder, log, child_mark(runner.mark), runner.limits.memory, heading=heading)
    try:
        carried = run_jobs([JobOnHost(runner.host, job)], runner.limits, runner.watch)
    except BaseException:
        _end_container(runner, task.command)
        raise
    if carried.stopped is not None:
        _end_container(runner, task.command)
        outcome, reason = carried.stopped
        raise PreparationError(outcome, _failure(task, f"was ended: {reason}", log))
    code, reported = carried.ended[0].code, _last_line(runner.host.read(log) or b"")
    absent = f"cannot start {task.command.words[0]}: "
    if code == NOT_FOUND and reported.startswith(absent):
        why = f"cannot be started: {reported.removeprefix(absent)}"
        raise PreparationError(Outcome.FAILED, _failure(task, why, log))
    if code != 0:
        raise PreparationError(
            Outcome.FAILED, _failure(task, f"ended with exit code {code}: {reported}", log)
        )
    missing = [str(path) for path in task.leaves if not runner.host.has(path)]
    if missing:
        raise PreparationError(
            Outcome.FAILED, _failure(task, f"ended normally, but without {', '.join(missing)}", log)
        )


def _failure(task: PrepareStep, what: str, log: Path) -> str:
    return f"prepare step '{task.description}' {what} ({log})"


def _last_line(log: bytes) -> str:
    return last_line(log.decode(errors="replace")) or "it printed nothing"
