"""The processes of a run: found by a mark in their environment and ended completely; deferral of signals.

A job's leader is our wrapper (``exec_wrapper.py``), which adopts orphans where the kernel allows it: every process that
a run's program leaves behind is a descendant of the leader, also with its own session and a cleared environment. The
mark finds the others, such as ranks that mpirun starts on another host.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType

import psutil

from trainmark.errors import TrainmarkError
from trainmark.printable import printable_line

MARK = "TRAINMARK_RUN"
"""The environment variable of every process of a run; its value is the run's folder or a path below it."""

GRACE_S = 5.0
"""Seconds that processes may take to exit after SIGTERM."""

KILL_S = 60.0
"""Seconds that the kernel may take to end a killed process; one that hangs in a driver can need several."""

_POLL_S = 0.05
_LONGEST = 80

EXEC_S = 5.0
"""Seconds that an execve may take on an overloaded machine."""

_EXEC_POLL_S = 0.001
_MAX_EMPTY_READS = 5
"""Consecutive reads with a command line and without variables after which a process counts as having none."""

_KTHREADD = 2
"""Process id of the parent of all kernel threads."""

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class EndedProcesses:
    """The ended processes of a run: their number, and descriptions of those that only their parentage shows.

    Such daemons have a session of their own and a cleared environment.
    """

    number: int
    daemons: tuple[str, ...]


def end_all(mark: str, leader: int | None = None, wrapper: int | None = None) -> EndedProcesses:
    """End every process of a run, first with SIGTERM, then with SIGKILL.

    They are the processes with the mark (or a mark below it), those in the session of ``leader`` or of our ``wrapper``,
    and their descendants. The wrapper itself ends after them; one that has not started its program yet is waited for,
    and what it starts is ended. Raises ``TrainmarkError`` if one cannot be ended.
    """
    session = leader if wrapper is None else wrapper

    def members() -> list[psutil.Process]:
        return [process for process in _members(mark, session) if process.pid != wrapper]

    known = members()
    daemons = tuple(_describe(process) for process in known if _is_daemon(process, mark, session))
    _send(known, "terminate")
    deadline = time.monotonic() + GRACE_S
    while any(_alive(process) for process in known) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    # A process may start another one before it ends, and the wrapper its program: repeat until none is left.
    wrapping = {psutil.Process(wrapper)} if wrapper is not None and psutil.pid_exists(wrapper) else set()
    began = time.monotonic()
    while left := {process for process in (*known, *members(), *wrapping) if _alive(process)}:
        passed_s = time.monotonic() - began
        if passed_s > KILL_S:
            pid = min(process.pid for process in left)
            raise TrainmarkError(f"process {pid} of {mark} cannot be ended; is a device or a disk stuck?")
        # The program may have stopped its whole group. With the wrapper, the kernel ends its children.
        _send(wrapping, "resume")
        _send(left if left == wrapping and passed_s > GRACE_S else left - wrapping, "kill")
        time.sleep(_POLL_S)
    return EndedProcesses(len(known), daemons)


def stopped_ranks(mark: str, wrapper: int) -> tuple[int, ...]:
    """Return the ranks of a job with a stopped process, as by SIGSTOP; a process without a rank counts as rank 0."""
    found = set()
    for process in _members(mark, wrapper):
        if process.pid == wrapper:
            continue
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            if process.status() == psutil.STATUS_STOPPED:
                variables = _environment(process)
                found.add(int(variables.get("RANK") or variables.get("OMPI_COMM_WORLD_RANK") or 0))
    return tuple(sorted(found))


def rank_processes(mark: str, wrapper: int) -> dict[int, psutil.Process]:
    """Return the first process of each rank of a job, by rank; its children inherit the rank's variables."""
    ranks: dict[int, int] = {}
    found: list[tuple[psutil.Process, int]] = []
    for process in _members(mark, wrapper):
        if process.pid == wrapper:
            continue
        with contextlib.suppress(psutil.Error, OSError, ValueError, KeyError):
            variables = _environment(process)
            ranks[process.pid] = int(variables.get("RANK") or variables["OMPI_COMM_WORLD_RANK"])
            found.append((process, process.ppid()))
    return {
        ranks[process.pid]: process
        for process, parent in found
        if process.pid in ranks and ranks.get(parent) != ranks[process.pid]
    }


def marked_pids(mark: str) -> tuple[int, ...]:
    """Return the processes with a mark and their descendants."""
    return tuple(process.pid for process in _members(mark, None))


def belongs_to_job(process: psutil.Process, mark: str, leader: int) -> bool:
    """Return whether a process belongs to a job, by its session or its mark."""
    with contextlib.suppress(psutil.Error, OSError):
        return _in_session(process.pid, leader) or _carries(process, mark)
    return False


def private_bytes(pid: int) -> int:
    """Return the private memory of a process's descendants: without file-backed and shared pages."""
    total = 0
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError):
                memory = process.memory_info()
                total += memory.rss - memory.shared
    return total


def kernel_oom_kills() -> int:
    """Return the number of the kernel's OOM kills since boot, 0 if unknown."""
    with contextlib.suppress(OSError), open("/proc/vmstat", encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def _members(mark: str, leader: int | None) -> list[psutil.Process]:
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.Error, OSError):
        # The job of a node on which another host's mpirun starts the ranks has a negative number.
        if leader is not None and leader > 0:
            found[leader] = psutil.Process(leader)
    for process in psutil.process_iter():
        # A process that ends while it is inspected is skipped.
        with contextlib.suppress(psutil.Error, OSError):
            if _in_session(process.pid, leader) or _carries(process, mark):
                found[process.pid] = process
    for process in list(found.values()):
        with contextlib.suppress(psutil.Error, OSError):
            found |= {child.pid: child for child in process.children(recursive=True)}
    return [process for pid, process in found.items() if pid != os.getpid() and _alive(process)]


def _is_daemon(process: psutil.Process, mark: str, leader: int | None) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        return not _in_session(process.pid, leader) and not _carries(process, mark)
    return False


def _describe(process: psutil.Process) -> str:
    """Return a process's command line, shortened, and its id."""
    words = ""
    with contextlib.suppress(psutil.Error, OSError):
        words = " ".join(process.cmdline()) or process.name()
    text = printable_line(words)
    return f"'{text if len(text) <= _LONGEST else f'{text[:_LONGEST]}…'}' (process {process.pid})"


def _carries(process: psutil.Process, mark: str) -> bool:
    value = _environment(process).get(MARK, "")
    return value == mark or value.startswith(f"{mark}{os.sep}")


def _environment(process: psutil.Process) -> dict[str, str]:
    """Return a process's variables; during an execve, those of the new program.

    In the middle of an execve a process has neither command line nor variables; on an overloaded machine that can
    take long. Kernel threads and zombies never have variables.
    """
    deadline, empty = time.monotonic() + EXEC_S, 0
    while not (variables := process.environ()):
        # The command line may have appeared after the variables were read.
        empty += bool(process.cmdline())
        never = process.ppid() in (0, _KTHREADD) or not _alive(process)
        if never or empty == _MAX_EMPTY_READS or time.monotonic() > deadline:
            break
        time.sleep(_EXEC_POLL_S)
    return variables


def _in_session(pid: int, leader: int | None) -> bool:
    return leader is not None and os.getsid(pid) == leader


def _alive(process: psutil.Process) -> bool:
    # Read the status, never wait: a wait would take the exit code away from the parent's own wait.
    try:
        return bool(
            process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        )
    except (psutil.Error, OSError):
        return False


def _send(processes: Iterable[psutil.Process], how: str) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            getattr(process, how)()


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer SIGINT, SIGTERM and SIGHUP until the context exits; the last one received then takes effect.

    A blocked signal mask is not enough: the kernel delivers the signal to another thread, and Python's handler still
    runs in the main thread. Outside the main thread, where no handler runs, this does nothing. Ignored signals stay
    ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        waiting.append(number)

    handlers = {number: signal.getsignal(number) for number in STOPPING}
    before = {
        number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)
    }
    for number in before:
        signal.signal(number, remember)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[-1])
