"""The one runner: jobs on hosts are started, watched, bounded and ended; nothing of them is left behind.

Ranks, prepare steps, git and probes all go through ``run_jobs``, so that limits, marks and clean-up hold for all.
"""

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from trainmark.node.host import Host, HostError, Job, JobEnd, JobStatus, display_name
from trainmark.node.parallel import map_hosts
from trainmark.node.processes import MARK, deferred_signals
from trainmark.node.stacks import Stack, describe_missing_ranks
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Command
from trainmark.schema.suite import Limits

GRACE_S = 10.0
"""How long the other nodes may go on after one has failed: their ranks lose their peers, and say so by themselves."""

NOT_FOUND = 127
"""The exit code of a command that is not there, as a shell has it."""

_POLL_S = 0.05
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life of a running run: seconds since its start, and the last step it spoke of."""

    elapsed_s: float
    step: int | None


Watch = Callable[[Heartbeat], tuple[Outcome, str] | None]
"""Called about twice a second while jobs run; returns the outcome and the reason that end them, or None."""


def ignore_heartbeat(_pulse: Heartbeat) -> None:
    """Let what runs go on."""


@dataclass(frozen=True, slots=True)
class JobOnHost:
    """A job and the host that it runs on."""

    host: Host
    job: Job


@dataclass(frozen=True, slots=True)
class JobResult:
    """How one of several jobs ended; ``place`` is its place among them.

    ``code`` is None when it never started, and of a job that another host's mpirun starts. ``by_us``: it did not end
    by itself.

    ``strays`` is the number of processes that it left behind when it ended by itself, and that were ended.
    """

    place: int
    code: int | None
    oom_kills: int = 0
    strays: int = 0
    by_us: bool = False


@dataclass(frozen=True, slots=True)
class JobsResult:
    """How jobs ended, in the order in which they did.

    ``stopped`` is the limit that ended them, or why one could not be started; None when they ended by themselves.
    ``dumped`` are the ranks that were ended by being asked where they are.
    """

    ended: tuple[JobResult, ...]
    stopped: tuple[Outcome, str] | None
    duration_s: float
    dumped: frozenset[int] = frozenset()


def run_jobs(jobs: Sequence[JobOnHost], limits: Limits, watch: Watch = ignore_heartbeat) -> JobsResult:
    """Run jobs together, and return how they ended.

    ``watch`` is called about twice a second, and ends the jobs by returning an outcome.
    When one fails, the others get some seconds to say what they saw of it.
    Whatever happens, a ``KeyboardInterrupt`` included, no process of theirs is alive when this returns or raises.
    Raises ``TrainmarkError`` when a log cannot be opened.
    """
    under_way, began = _UnderWay(jobs), time.monotonic()
    stopped: tuple[Outcome, str] | None = None
    try:
        # Held: an interrupt between the fork and our knowing of it would leave a process that nobody ends.
        with deferred_signals():
            stopped = under_way.start()
        if stopped is None:
            stopped = under_way.wait(limits, began, watch)
    finally:
        with deferred_signals():
            ended, stopped = under_way.end(stopped)
    return JobsResult(ended, stopped, time.monotonic() - began, frozenset(under_way.dumped))


class _UnderWay:
    """Jobs that go on together: which were started, and in what order they ended by themselves.

    ``dumped`` are the ranks that were ended to say where they are.
    """

    def __init__(self, jobs: Sequence[JobOnHost]) -> None:
        self._jobs = jobs
        self._running: dict[int, int] = {}
        self._order: list[int] = []
        self.dumped: set[int] = set()

    def start(self) -> tuple[Outcome, str] | None:
        """Start all jobs; return why one could not be started, after which no other is, or None."""
        # What another host starts is watched from its first process on.
        for place, one in sorted(enumerate(self._jobs), key=lambda numbered: bool(numbered[1].job.commands)):
            try:
                self._running[place] = one.host.start(one.job)
            except HostError as error:
                return Outcome.FAILED, str(error)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                where = "" if len(self._jobs) == 1 else f" on {display_name(one.host)}"
                return Outcome.FAILED, f"the command cannot be started{where}: {reason}"
        return None

    def wait(self, limits: Limits, began: float, watch: Watch) -> tuple[Outcome, str] | None:
        """Wait for the jobs; return why they must be ended, or None when they ended by themselves.

        As long as a log or another sign of one of them grows, none is stalled.
        """
        jobs, running, order = self._jobs, self._running, self._order
        written, grown, next_look = 0, began, began
        failed_at: float | None = None
        while True:
            waiting = [place for place in running if place not in order]
            # The first wait takes the time, the others only look.
            for number, place in enumerate(waiting):
                try:
                    code = jobs[place].host.wait(running[place], _POLL_S if number == 0 else 0)
                except HostError as error:
                    return Outcome.FAILED, str(error)
                if code is not None:
                    order.append(place)
                    failed_at = time.monotonic() if code and failed_at is None else failed_at
            if all(place in order or not jobs[place].job.commands for place in running):
                return None
            now = time.monotonic()
            if failed_at is not None and now - failed_at > GRACE_S:
                return None
            if now < next_look:
                continue
            next_look = now + _LOOK_S
            looks = [jobs[place].host.job_status(running[place]) for place in running]
            if (now_written := sum(look.written for look in looks)) != written:
                written, grown = now_written, now
            step = next((look.step for look in looks if look.step is not None), None)
            if (ended := watch(Heartbeat(now - began, step))) is not None:
                return ended
            if (over := _beyond(limits, now - began, now - grown, step, looks)) is not None:
                late = over[0] is Outcome.TIMEOUT
                return over[0], over[1] + (self._stopped() or (late and self._where()) or "")

    def end(
        self, stopped: tuple[Outcome, str] | None
    ) -> tuple[tuple[JobResult, ...], tuple[Outcome, str] | None]:
        """End what is left of the jobs; return how each ended, and what stopped them or why that cannot be known."""
        ended = {place: JobResult(place, None) for place in range(len(self._jobs))}
        for place, (killed, end) in zip(self._running, map_hosts(self._running, self._end_one), strict=True):
            if end is None:
                unknown = f"{self._jobs[place].host.name}: nobody can say how it ended there"
                stopped = stopped or (Outcome.FAILED, unknown)
                continue
            # What still runs because its peers failed, or because a limit was passed, was not left behind.
            left = killed if stopped is None and place in self._order else 0
            code = end.code if self._jobs[place].job.commands else None
            by_us = code is not None and place not in self._order
            ended[place] = JobResult(place, code, end.oom_kills, left, by_us)
        late = [place for place in ended if place not in self._order]
        return tuple(ended[place] for place in (*self._order, *late)), stopped

    def _end_one(self, place: int) -> tuple[int, JobEnd | None]:
        """Return how many processes there were to end, and how the job did; None where nobody can be asked."""
        host, pid = self._jobs[place].host, self._running[place]
        try:
            return host.kill(self._jobs[place].job.mark, pid), host.reap(pid)
        except HostError:
            return 0, None

    def _stopped(self) -> str:
        """Return, as the end of a sentence, which ranks got nowhere because somebody has stopped them."""
        found = []
        for place, pid in self._running.items():
            host = self._jobs[place].host
            with suppress(HostError):
                found += [
                    f"rank {rank} on {host.name} is stopped"
                    for rank in host.stopped(self._jobs[place].job.mark, pid)
                ]
        return f"; {', '.join(found)}" if found else ""

    def _where(self) -> str:
        """Return, as the end of a sentence, where the ranks were that got nowhere, and which kept the others waiting.

        It ends them.
        """
        map_hosts(self._running, self._stop_ranks)
        # The first node last, and rank 0 there: others may notice first of all that whoever they met by has gone.
        first, *others = self._running
        told = {**dict(zip(others, map_hosts(others, self._stacks), strict=True)), first: self._stacks(first)}
        hosts = {
            rank: display_name(self._jobs[place].host) for place, found in told.items() for rank in found
        }
        self.dumped.update(hosts)
        known = {rank: stack for found in told.values() for rank, stack in found.items() if stack}
        return describe_missing_ranks(dict(sorted(known.items())), hosts)

    def _stop_ranks(self, place: int) -> None:
        with suppress(HostError, OSError, psutil.Error):
            self._jobs[place].host.stop_ranks(self._jobs[place].job.mark, self._running[place])

    def _stacks(self, place: int) -> Mapping[int, Stack]:
        with suppress(HostError, OSError, psutil.Error):
            return self._jobs[place].host.stacks(self._jobs[place].job.mark, self._running[place])
        return {}


def _beyond(
    limits: Limits, elapsed_s: float, silent_s: float, step: int | None, looks: Sequence[JobStatus]
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
class CommandOutput:
    """What a short command said: its exit code (None when it could not be started or a limit ended it), and output."""

    code: int | None
    out: bytes
    err: bytes
    stopped: tuple[Outcome, str] | None = None

    def error_line(self) -> str:
        """Return why it was ended, or the last line that it said, of errors first; nothing where it said none."""
        if self.stopped is not None:
            return "no answer in time" if self.stopped[0] is Outcome.TIMEOUT else self.stopped[1]
        lines = [
            line.strip()
            for said in (self.out, self.err)
            for line in said.decode(errors="replace").splitlines()
        ]
        return next(filter(None, reversed(lines)), "")


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Where short commands run that print their answer, such as git's: on which host and within which limits.

    Each carries a mark of its own below ``mark``: with the end of one no other ends. ``watch`` is called while one
    runs, as that of ``run_jobs``, and ends it by raising.
    """

    host: Host
    limits: Limits
    mark: str
    watch: Watch = ignore_heartbeat

    def run(self, command: Command) -> CommandOutput:
        """Run a command to its end; it may be silent, and not take longer than the limits say."""
        patient = self.limits.model_copy(update={"stall_timeout_s": float("inf")})
        with self.host.scratch() as folder:
            out, errors = folder / "out", folder / "errors"
            job = Job((command,), folder, out, child_mark(self.mark), self.limits.memory, errors=errors)
            carried = run_jobs([JobOnHost(self.host, job)], patient, self.watch)
            (ended,) = carried.ended
            code = ended.code if carried.stopped is None else None
            return CommandOutput(
                code, self.host.read(out) or b"", self.host.read(errors) or b"", carried.stopped
            )


def probe_runner(host: Host, timeout_s: float) -> CommandRunner:
    """Return what runs a host's probes: commands that belong to no run, or to the one whose mark this process has."""
    return CommandRunner(host, Limits(timeout_s=timeout_s), probe_mark())


def probe_mark() -> str:
    """Return the mark that lies above those of all probes of this process."""
    return os.environ.get(MARK, "trainmark")


def child_mark(mark: str) -> str:
    """Return a mark that nothing else carries, and that whoever ends all of ``mark`` finds."""
    return f"{mark}{os.sep}{secrets.token_hex(8)}"
