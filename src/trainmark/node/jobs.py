"""Hosts and the jobs on them: start, watch, limit and end jobs in parallel, and leave no process behind.

``Host`` is the interface of a host: its processes, its files and its facts. Ranks, prepare steps, git and probes all go
through ``run_jobs``, so limits, marks and clean-up apply to all. The pace of a run follows from its heartbeats.
"""

import os
import secrets
import signal
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Protocol, TypeVar

import psutil

from trainmark.errors import TrainmarkError
from trainmark.node.processes import MARK, deferred_signals
from trainmark.node.stacks import Stack, describe_missing_ranks
from trainmark.printable import last_line
from trainmark.schema.hosts import LOCALHOST, Traffic
from trainmark.schema.manifest import FrameworkVersions, Node
from trainmark.schema.outcome import MEMORY_LIMIT, TIME_LIMIT, Outcome
from trainmark.schema.plan import Command, NodeResources
from trainmark.schema.suite import Limits

Paths = tuple[tuple[Path, Path], ...]
"""Pairs (local path, host path) of files and folders whose paths differ on a host."""


@dataclass(frozen=True, slots=True)
class Job:
    """A tree of processes to start on one host; all paths are the host's.

    Several ``commands`` are ranks that are started and ended as a group. Every process inherits ``mark``, by which
    it is found when it must be ended. A job without commands represents the processes that another host's mpirun
    starts on this host with that mark: it is watched and ended, but not waited for. Output goes to ``log``, after
    ``heading``; standard error goes to ``errors`` if given. ``memory`` limits the private bytes. ``signs`` are
    further files whose growth shows progress. The host writes telemetry to ``telemetry`` if given, and to
    ``arrivals`` when the bytes of the log arrived. ``ranks`` is the
    number of ranks of the whole run on all hosts; with several, each can be made to dump its stack.
    """

    commands: tuple[Command, ...]
    directory: Path
    log: Path
    mark: str
    memory: int | None = None
    signs: tuple[Path, ...] = ()
    errors: Path | None = None
    heading: bytes = b""
    telemetry: Path | None = None
    arrivals: Path | None = None
    ranks: int = 1

    @property
    def working_directory(self) -> Path:
        """The folder in which its commands start; a node's commands have the same."""
        return (self.commands[0].directory if self.commands else None) or self.directory


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The state of a running job: bytes written, last reported step, private memory, and of how many steps it is."""

    written: int
    step: int | None
    private_bytes: int
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job: its exit code (negative for a signal) and the number of kernel OOM kills meanwhile.

    ``daemons`` describes the ended processes that it left in sessions of their own, with a cleared environment.
    """

    code: int
    oom_kills: int
    daemons: tuple[str, ...] = ()


def remote_path(paths: Paths, here: Path) -> Path:
    """Return the host's path for a local path, mapped by the longest matching prefix in ``paths``."""
    fitting = [pair for pair in paths if here.is_relative_to(pair[0])]
    if not fitting:
        return here
    ours, theirs = max(fitting, key=lambda pair: len(pair[0].parts))
    return theirs / here.relative_to(ours)


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """A host's clock offset from ours (positive if ahead) and its error bound, in seconds."""

    offset_s: float
    error_s: float


def with_mapping(paths: Paths, here: Path, there: Path) -> Paths:
    """Return the paths with the mapping of ``here`` replaced."""
    return (*(pair for pair in paths if pair[0] != here), (here, there))


class HostError(TrainmarkError):
    """An error that a host returned for a request."""


class HostOSError(OSError):
    """An ``OSError`` that was raised on a host."""


class HostGoneError(HostError):
    """The host cannot be reached or the connection was lost; its agent ends the jobs."""


def display_name(host: "Host") -> str:
    """Return a host's name for use in a sentence."""
    return "this machine" if host.name == LOCALHOST else host.name


class Host(Protocol):
    """One machine on which ranks, prepare steps, git and probes run; jobs are identified by their process id."""

    @property
    def name(self) -> str:
        """The host's name in plans and outcomes."""

    @property
    def address(self) -> str:
        """The address at which other hosts reach it."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels from the hosts file."""

    @property
    def folder(self) -> Path | None:
        """The folder of runs on the host; None if ``paths`` map the local one."""

    @property
    def paths(self) -> Paths:
        """Files and folders whose paths on the host differ from the local ones."""

    @property
    def interface(self) -> str | None:
        """The network interface for traffic between ranks; None if the ranks choose it themselves."""

    @property
    def traffic(self) -> Traffic:
        """The settings for traffic between its ranks and those of other hosts."""

    def unreachable(self) -> str | None:
        """Return why the host cannot be reached, or None; reconnects after a lost connection.

        All methods below raise ``HostGoneError`` when the connection is lost.
        """

    def machine(self) -> NodeResources:
        """Return the resources that placement needs."""

    def facts(
        self, framework: FrameworkVersions | None, environment_lock: str | None, git_dir: Path | None
    ) -> Node:
        """Return the host's current facts for a manifest."""

    def reserve(self, by: str) -> str | None:
        """Reserve the host for measurements by ``by``; return the current holder if it is reserved, else None."""

    def clock(self) -> ClockOffset | None:
        """Return its clock's offset from ours; None if both share a clock."""

    def has_free_ports(self, first: int, count: int) -> bool:
        """Return whether ``count`` ports from ``first`` on are free."""

    def which(self, command: str) -> str | None:
        """Return the path of a command on the host's search path, or None."""

    def has(self, path: Path) -> bool:
        """Return whether a file or folder exists on the host."""

    def read(self, path: Path) -> bytes | None:
        """Return the content of a file on the host, or None if it is missing."""

    def digests(self, path: Path) -> Mapping[str, str]:
        """Return the digests of a file, or of all files below a folder, by their relative paths."""

    def put(self, path: Path, content: bytes) -> None:
        """Write a file on the host atomically, creating its folder; raise ``OSError`` on failure."""

    def get(self, folder: Path, into: Path, without: Collection[str] = ()) -> None:
        """Copy the content of a folder on the host into a local one, without the entries named ``without``."""

    def put_folder(self, path: Path, content: IO[bytes]) -> None:
        """Unpack an archive as a new folder on the host, unless it exists; raise ``OSError`` on failure."""

    def map_path(self, here: Path, there: Path) -> None:
        """Map the local path ``here`` to the host's path ``there``."""

    def remove(self, path: Path, without: Collection[str] = ()) -> None:
        """Remove a file or folder on the host if it exists; with ``without``, only a folder's other entries.

        Raises ``OSError`` on failure.
        """

    def remove_empty(self, folders: Sequence[Path]) -> None:
        """Remove those of the folders, in this order, that are empty; does nothing without a connection."""

    def locked(self, path: Path) -> AbstractContextManager[None]:
        """Hold a lock file on the host against other trainmark processes; raise ``OSError`` on failure."""

    def scratch(self) -> AbstractContextManager[Path]:
        """Yield an empty temporary folder on the host, which is removed at the end."""

    def start(self, job: Job) -> int:
        """Start a job and return its number; raise ``OSError`` or ``ValueError`` if it cannot be started."""

    def wait(self, pid: int, timeout_s: float) -> int | None:
        """Wait up to ``timeout_s`` for a job; return its exit code, or None if it still runs."""

    def job_status(self, pid: int) -> JobStatus:
        """Return the state of a running job."""

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to the processes of a job's session."""

    def stopped(self, mark: str, pid: int) -> tuple[int, ...]:
        """Return the ranks of a job that are stopped, as by SIGSTOP."""

    def stop_ranks(self, mark: str, pid: int) -> None:
        """Stop the ranks of a job so that ``stacks`` finds them where they are."""

    def stacks(self, mark: str, pid: int) -> Mapping[int, Stack]:
        """Abort the ranks of a job that dump their stack, and return the stacks; () if a rank wrote none."""

    def kill(self, mark: str, pid: int | None = None) -> int:
        """End every process with the mark, and a job's whole process tree; return the number of ended processes."""

    def reap(self, pid: int) -> JobEnd:
        """Return how a job ended, and release it."""


MAX_WORKERS = 64

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
GRACE_S = 10.0
"""Seconds that other nodes may continue after one failed, so that their ranks can report the lost peer."""
NOT_FOUND = 127
"""The exit code for a missing command, as in a shell."""
_POLL_S = 0.05
_CHECK_S = 0.5


def map_hosts(items: Iterable[_Item], call: Callable[[_Item], _Result]) -> list[_Result]:
    """Return the results of ``call`` for each item, in order; the first error is raised after all calls ended."""
    several = list(items)
    if len(several) < 2:
        return [call(one) for one in several]
    with ThreadPoolExecutor(min(len(several), MAX_WORKERS)) as pool:
        return list(pool.map(call, several))


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A running run's heartbeat: seconds since its start, the last reported step, and the program's number of steps.

    ``steps`` is None for a program that does not print how many.
    """

    elapsed_s: float
    step: int | None
    steps: int | None = None


Watch = Callable[[Heartbeat], tuple[Outcome, str] | None]
"""Called about twice a second while jobs run; returns the outcome and the reason that end them, or None.

With the outcome ``ok`` the jobs are ended on purpose: by SIGINT, and only if that does not end them by force.
"""


def ignore_heartbeat(_pulse: Heartbeat) -> None:
    """Ignore a heartbeat: the default watch, which never ends a run."""


@dataclass(frozen=True, slots=True)
class JobOnHost:
    """A job and the host that it runs on."""

    host: Host
    job: Job


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of one of several jobs; ``index`` is its position among them.

    ``code`` is None if it never started, and for a job that another host's mpirun starts. ``by_us`` is True if
    trainmark ended it.

    ``strays`` is the number of processes that it left behind when it exited, and that were then ended; ``daemons``
    describes those of them that had sessions of their own and a cleared environment.
    """

    index: int
    code: int | None
    oom_kills: int = 0
    strays: int = 0
    by_us: bool = False
    daemons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobsResult:
    """The results of jobs, in the order in which they ended.

    ``stopped`` is the limit that ended them, or why one could not be started; None if they exited on their own.
    ``dumped`` are the ranks that were aborted to dump their stacks.
    """

    ended: tuple[JobResult, ...]
    stopped: tuple[Outcome, str] | None
    duration_s: float
    dumped: frozenset[int] = frozenset()


def run_jobs(jobs: Sequence[JobOnHost], limits: Limits, watch: Watch = ignore_heartbeat) -> JobsResult:
    """Run jobs in parallel, and return how they ended.

    ``watch`` is called about twice a second, and ends the jobs by returning an outcome.
    When one fails, the others get some seconds to report what they observed.
    In every case, even after a ``KeyboardInterrupt``, none of their processes is alive when this returns or raises.
    Raises ``TrainmarkError`` when a log cannot be opened.
    """
    running_jobs, began = _RunningJobs(jobs), time.monotonic()
    stopped: tuple[Outcome, str] | None = None
    try:
        # An interrupt between the fork and the assignment of the pid would leave an unknown process running.
        with deferred_signals():
            stopped = running_jobs.start()
        if stopped is None:
            stopped = running_jobs.wait(limits, began, watch)
    finally:
        with deferred_signals():
            ended, stopped = running_jobs.end(stopped)
    return JobsResult(ended, stopped, time.monotonic() - began, frozenset(running_jobs.dumped))


def _not_started(job: Job, error: OSError | ValueError, where: str) -> str:
    """Return why a job could not be started; ``where`` names its host, empty for the only one."""
    reason = getattr(error, "strerror", None) or error
    path = str(getattr(error, "filename", None) or "")
    if path.endswith(str(job.working_directory)):
        advice = "; the program must be at the same path on all hosts" if where else ""
        return f"the working directory {job.working_directory} cannot be entered{where}: {reason}{advice}"
    return f"the command cannot be started{where}: {reason}"


class _RunningJobs:
    """Jobs that run in parallel: which were started, and in what order they exited.

    ``dumped`` are the ranks that were aborted to dump their stacks.
    """

    def __init__(self, jobs: Sequence[JobOnHost]) -> None:
        self._jobs = jobs
        self._running: dict[int, int] = {}
        self._order: list[int] = []
        self.dumped: set[int] = set()

    def start(self) -> tuple[Outcome, str] | None:
        """Start all jobs; return why one could not be started (the rest is then not started), or None."""
        # Jobs without commands first: processes that another host's mpirun starts are watched from the beginning.
        for index, one in sorted(enumerate(self._jobs), key=lambda numbered: bool(numbered[1].job.commands)):
            try:
                self._running[index] = one.host.start(one.job)
            except HostError as error:
                return Outcome.FAILED, str(error)
            except (OSError, ValueError) as error:
                where = "" if len(self._jobs) == 1 else f" on {display_name(one.host)}"
                return Outcome.FAILED, _not_started(one.job, error, where)
        return None

    def wait(self, limits: Limits, began: float, watch: Watch) -> tuple[Outcome, str] | None:
        """Wait for the jobs; return why they must be ended, or None when they have exited.

        The jobs are not stalled as long as a log or another sign of one of them grows.
        """
        jobs, running, order = self._jobs, self._running, self._order
        written, grown, next_check = 0, began, began
        failed_at: float | None = None
        while True:
            waiting = [index for index in running if index not in order]
            # Only the first wait blocks, the others poll.
            for number, index in enumerate(waiting):
                try:
                    code = jobs[index].host.wait(running[index], _POLL_S if number == 0 else 0)
                except HostError as error:
                    return Outcome.FAILED, str(error)
                if code is not None:
                    order.append(index)
                    failed_at = time.monotonic() if code and failed_at is None else failed_at
            if all(index in order or not jobs[index].job.commands for index in running):
                return None
            now = time.monotonic()
            if failed_at is not None and now - failed_at > GRACE_S:
                return None
            if now < next_check:
                continue
            next_check = now + _CHECK_S
            statuses = [jobs[index].host.job_status(running[index]) for index in running]
            if (now_written := sum(status.written for status in statuses)) != written:
                written, grown = now_written, now
            reported = next((status for status in statuses if status.step is not None), statuses[0])
            step = reported.step
            if (ended := watch(Heartbeat(now - began, step, reported.steps))) is not None:
                if ended[0] is Outcome.OK:
                    self._interrupt()
                return ended
            if (exceeded := _exceeded_limit(limits, now - began, now - grown, step, statuses)) is not None:
                timed_out = exceeded[0] is Outcome.TIMEOUT
                return exceeded[0], exceeded[1] + (
                    self._stopped_ranks() or (timed_out and self._rank_locations()) or ""
                )

    def end(
        self, stopped: tuple[Outcome, str] | None
    ) -> tuple[tuple[JobResult, ...], tuple[Outcome, str] | None]:
        """End the jobs that still run; return how each ended, and what stopped them or why that is unknown."""
        ended = {index: JobResult(index, None) for index in range(len(self._jobs))}
        for index, (killed, end) in zip(self._running, map_hosts(self._running, self._end_one), strict=True):
            if isinstance(end, HostError):
                unknown = f"{self._jobs[index].host.name}: it is unknown how its job ended ({end})"
                stopped = stopped or (Outcome.FAILED, unknown)
                continue
            # Processes that still run because a peer failed or a limit was exceeded are no strays.
            left = killed if stopped is None and index in self._order else 0
            code = end.code if self._jobs[index].job.commands else None
            by_us = code is not None and index not in self._order
            ended[index] = JobResult(index, code, end.oom_kills, left, by_us, end.daemons if left else ())
        ended_by_us = [index for index in ended if index not in self._order]
        return tuple(ended[index] for index in (*self._order, *ended_by_us)), stopped

    def _interrupt(self) -> None:
        """Send SIGINT to all jobs, and give them some seconds to end as after Ctrl-C."""
        for index, pid in self._running.items():
            with suppress(HostError):
                self._jobs[index].host.signal(pid, signal.SIGINT)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            for index in [index for index in self._running if index not in self._order]:
                with suppress(HostError):
                    if self._jobs[index].host.wait(self._running[index], _POLL_S) is not None:
                        self._order.append(index)
            if all(index in self._order or not self._jobs[index].job.commands for index in self._running):
                return

    def _end_one(self, index: int) -> tuple[int, JobEnd | HostError]:
        """Return the number of ended processes, and how the job ended or why that is unknown."""
        host, pid = self._jobs[index].host, self._running[index]
        try:
            return host.kill(self._jobs[index].job.mark, pid), host.reap(pid)
        except HostError as error:
            return 0, error

    def _stopped_ranks(self) -> str:
        """Return the stopped ranks (as by SIGSTOP) as the end of a sentence, or an empty string."""
        found = []
        for index, pid in self._running.items():
            host = self._jobs[index].host
            with suppress(HostError):
                found += [
                    f"rank {rank} on {host.name} is stopped"
                    for rank in host.stopped(self._jobs[index].job.mark, pid)
                ]
        return f"; {', '.join(found)}" if found else ""

    def _rank_locations(self) -> str:
        """Return, as the end of a sentence, where the ranks hang and which ones the others wait for.

        The ranks are aborted to dump their stacks.
        """
        map_hosts(self._running, self._stop_ranks)
        # The first node, which has rank 0, comes last: the other ranks would notice at once that it is gone.
        first, *others = self._running
        stacks_by_job = {
            **dict(zip(others, map_hosts(others, self._stacks), strict=True)),
            first: self._stacks(first),
        }
        hosts = {
            rank: display_name(self._jobs[index].host)
            for index, found in stacks_by_job.items()
            for rank in found
        }
        self.dumped.update(hosts)
        known = {rank: stack for found in stacks_by_job.values() for rank, stack in found.items() if stack}
        return describe_missing_ranks(dict(sorted(known.items())), hosts)

    def _stop_ranks(self, index: int) -> None:
        with suppress(HostError, OSError, psutil.Error):
            self._jobs[index].host.stop_ranks(self._jobs[index].job.mark, self._running[index])

    def _stacks(self, index: int) -> Mapping[int, Stack]:
        with suppress(HostError, OSError, psutil.Error):
            return self._jobs[index].host.stacks(self._jobs[index].job.mark, self._running[index])
        return {}


def _exceeded_limit(
    limits: Limits, elapsed_s: float, silent_s: float, step: int | None, statuses: Sequence[JobStatus]
) -> tuple[Outcome, str] | None:
    """Return the limit that jobs have exceeded, or None."""
    at = f" at step {step}" if step is not None else ""
    if elapsed_s > limits.timeout_s:
        return Outcome.TIMEOUT, f"it took longer than {limits.timeout_s:g} s{at} ({TIME_LIMIT})"
    if silent_s > limits.stall_timeout_s:
        silent = f"it printed nothing for {limits.stall_timeout_s:g} s"
        return Outcome.TIMEOUT, f"{silent}{at} (limits.stall_timeout_s)"
    used = max((status.private_bytes for status in statuses), default=0)
    if limits.memory is not None and used > limits.memory:
        return Outcome.OOM, f"it used {used} bytes of memory{at}, more than {limits.memory} ({MEMORY_LIMIT})"
    return None


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """A short command's output and its exit code (None if it could not be started or a limit ended it)."""

    code: int | None
    out: bytes
    err: bytes
    stopped: tuple[Outcome, str] | None = None

    def error_line(self) -> str:
        """Return why it was ended, or its last line of standard error, else of output, else an empty string."""
        if self.stopped is not None:
            return "no answer in time" if self.stopped[0] is Outcome.TIMEOUT else self.stopped[1]
        return last_line(self.err.decode(errors="replace")) or last_line(self.out.decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Runs short commands that print a result, such as git's, on a host and within limits.

    Each command has a separate mark below ``mark``, so that ending one ends no other. ``watch`` is called while one
    runs, as by ``run_jobs``, and ends it by raising.
    """

    host: Host
    limits: Limits
    mark: str
    watch: Watch = ignore_heartbeat

    def run(self, command: Command) -> CommandOutput:
        """Run a command to its end within the time limit; it may be silent meanwhile."""
        patient = self.limits.model_copy(update={"stall_timeout_s": float("inf")})
        with self.host.scratch() as folder:
            out, errors = folder / "out", folder / "errors"
            job = Job((command,), folder, out, child_mark(self.mark), self.limits.memory, errors=errors)
            result = run_jobs([JobOnHost(self.host, job)], patient, self.watch)
            (ended,) = result.ended
            code = ended.code if result.stopped is None else None
            return CommandOutput(
                code, self.host.read(out) or b"", self.host.read(errors) or b"", result.stopped
            )


def probe_runner(host: Host, timeout_s: float) -> CommandRunner:
    """Return a runner for probes: commands that belong to no run, or to the run whose mark this process has."""
    return CommandRunner(host, Limits(timeout_s=timeout_s), probe_mark())


def probe_mark() -> str:
    """Return the parent mark of all probes of this process."""
    return os.environ.get(MARK, "trainmark")


def child_mark(mark: str) -> str:
    """Return a unique mark below ``mark``; ending ``mark`` ends its processes too."""
    return f"{mark}{os.sep}{secrets.token_hex(8)}"


LEAST_TIMED_S = 3.0
"""A pace is an estimate only after this many seconds between the first and the last reported step."""


@dataclass(slots=True)
class StepPace:
    """The pace of a running run, from the steps that it reports; compilation before the first report is no part."""

    first: Heartbeat | None = None
    last: Heartbeat | None = None

    def add(self, pulse: Heartbeat) -> None:
        """Add a heartbeat; one without a new step is ignored."""
        if pulse.step is None or (self.last is not None and pulse.step == self.last.step):
            return
        if self.first is None or self.last is None or (self.last.step or 0) > pulse.step:
            self.first = pulse
        self.last = pulse

    @property
    def step_s(self) -> float | None:
        """The seconds of one step; None until steps were reported for ``LEAST_TIMED_S``."""
        if self.first is None or self.last is None or self.first.step is None or self.last.step is None:
            return None
        elapsed_s = self.last.elapsed_s - self.first.elapsed_s
        if elapsed_s < LEAST_TIMED_S:
            return None
        return elapsed_s / (self.last.step - self.first.step)

    def run_s(self, steps: int) -> float | None:
        """Return the seconds that the whole run of ``steps`` steps takes at this pace; None while it is unknown."""
        step_s = self.step_s
        if step_s is None or self.last is None or self.last.step is None:
            return None
        return self.last.elapsed_s + max(0, steps - self.last.step) * step_s


RECENT_S = 10.0
"""The pace of the last records is that of this many seconds."""
STEADY_PARTS = 4
STEADY_WITHIN = 0.05
"""A run looks steady from a step on if the paces of this many parts since then are within this share of their mean."""


@dataclass(slots=True)
class RecentPace:
    """The pace of the last records of a running run, and the step from which it looks steady.

    It is for a reader who waits; the warm-up test judges the finished run.
    """

    _points: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=2000))

    def add(self, pulse: Heartbeat) -> None:
        """Add a heartbeat; one without a new step is ignored, and a step that goes back begins anew."""
        if pulse.step is None or (self._points and pulse.step == self._points[-1][1]):
            return
        if self._points and pulse.step < self._points[-1][1]:
            self._points.clear()
        self._points.append((pulse.elapsed_s, pulse.step))

    @property
    def steps_per_s(self) -> float | None:
        """The steps a second over the last ``RECENT_S`` seconds; None with fewer than two reported steps."""
        if len(self._points) < 2:
            return None
        last_s, last = self._points[-1]
        first_s, first = next(point for point in self._points if point[0] >= last_s - RECENT_S)
        if first == last:
            first_s, first = self._points[-2]
        return (last - first) / (last_s - first_s)

    def silence_s(self, now_s: float) -> float | None:
        """Return the seconds without a new step at ``now_s`` of the run, None if they are no more than usual.

        Usual are ``RECENT_S`` seconds, and three times the longest recent wait for a step.
        """
        if not self._points:
            return None
        last_s = self._points[-1][0]
        waits = [
            after - before for (before, _), (after, _) in pairwise(self._points) if after >= last_s - RECENT_S
        ]
        return now_s - last_s if now_s - last_s > max(RECENT_S, 3 * max(waits, default=0.0)) else None

    @property
    def steady_from(self) -> int | None:
        """The first reported step since which the pace looks steady; None if it does not, or too little is known."""
        points = list(self._points)
        for start in range(max(0, len(points) - 2 * STEADY_PARTS)):
            if _is_even(points[start:]):
                return points[start][1]
        return None


def _is_even(points: list[tuple[float, int]]) -> bool:
    """Return whether the paces of the parts of these reports are alike."""
    ends = [round(part * (len(points) - 1) / STEADY_PARTS) for part in range(STEADY_PARTS + 1)]
    cuts = [points[end] for end in ends]
    paces = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(cuts)]
    mean = sum(paces) / len(paces)
    return all(abs(pace / mean - 1) <= STEADY_WITHIN for pace in paces)
