"""Job runner: start, watch, limit and end jobs on hosts in parallel, and leave no process behind.

Ranks, prepare steps, git and probes all go through ``run_jobs``, so limits, marks and clean-up apply to all.
"""

import os
import secrets
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import psutil

from trainmark.node.host import Host, HostError, Job, JobEnd, JobStatus, display_name
from trainmark.node.processes import MARK, deferred_signals
from trainmark.node.stacks import Stack, describe_missing_ranks
from trainmark.printable import last_line
from trainmark.schema.outcome import MEMORY_LIMIT, TIME_LIMIT, Outcome
from trainmark.schema.plan import Command
from trainmark.schema.suite import Limits

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
    """A running run's heartbeat: seconds since its start and the last reported step."""

    elapsed_s: float
    step: int | None


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
            step = next((status.step for status in statuses if status.step is not None), None)
            if (ended := watch(Heartbeat(now - began, step))) is not None:
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
