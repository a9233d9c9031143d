"""The processes of a run, found by a mark in their environment and ended without exception; and Ctrl-C held back.

Descent alone does not find them: launchers start sessions of their own, and a child whose parent died
belongs to init. The mark is inherited by every process that a run starts, unless it is given an environment
of its own: those are found by their session and their descent as long as these hold.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from types import FrameType

import psutil

from trainmark.errors import TrainmarkError

MARK = "TRAINMARK_RUN"
"""The variable that every process of a run carries; its value is the run's folder, or lies below it."""

GRACE_S = 5.0
"""How long processes may take to end by themselves after SIGTERM."""

KILL_S = 60.0
"""How long the kernel may take to end what was killed; a process that hangs in a driver can need some seconds."""

_LOOK_S = 0.05

EXEC_S = 5.0
"""How long a process may be about to become another program, on a machine where it gets no time to."""

_EXEC_LOOK_S = 0.001
_EMPTY = 5
"""As often a process that has words must have no variables, before it is believed to have none."""

_KTHREADD = 2
"""The parent of all threads of the kernel's own."""

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_all(mark: str, leader: int | None = None) -> int:
    """End every process of a run: first politely, then by force; return how many there were.

    They are those that carry the mark (or one that lies in that folder), those in the session that ``leader``
    began, and its descendants. Raises ``TrainmarkError`` when one cannot be ended.
    """
    known = _members(mark, leader)
    _send(known, "terminate")
    deadline = time.monotonic() + GRACE_S
    while any(_alive(process) for process in known) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    # A process may have started another one between our look and its end: look until there is none.
    deadline = time.monotonic() + KILL_S
    while left := {process for process in (*known, *_members(mark, leader)) if _alive(process)}:
        if time.monotonic() > deadline:
            pid = min(process.pid for process in left)
            raise TrainmarkError(f"process {pid} of {mark} cannot be ended; is a device or a disk stuck?")
        _send(left, "kill")
        time.sleep(_LOOK_S)
    return len(known)


def stopped_ranks(mark: str, leader: int) -> tuple[int, ...]:
    """Return the ranks of a job of which a process is stopped, as by SIGSTOP; 0 where one has no rank."""
    found = set()
    for process in _members(mark, leader):
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            if process.status() == psutil.STATUS_STOPPED:
                said = _environment(process)
                found.add(int(said.get("RANK") or said.get("OMPI_COMM_WORLD_RANK") or 0))
    return tuple(sorted(found))


def rank_processes(mark: str, leader: int) -> dict[int, psutil.Process]:
    """Return the first process of each rank of a job, by rank; what it has started finds the same rank about itself."""
    ranks: dict[int, int] = {}
    found: list[tuple[psutil.Process, int]] = []
    for process in _members(mark, leader):
        with contextlib.suppress(psutil.Error, OSError, ValueError, KeyError):
            said = _environment(process)
            ranks[process.pid] = int(said.get("RANK") or said["OMPI_COMM_WORLD_RANK"])
            found.append((process, process.ppid()))
    return {
        ranks[process.pid]: process
        for process, parent in found
        if process.pid in ranks and ranks.get(parent) != ranks[process.pid]
    }


def marked_pids(mark: str) -> tuple[int, ...]:
    """Return the processes that carry a mark, and what they have started."""
    return tuple(process.pid for process in _members(mark, None))


def belongs_to_job(process: psutil.Process, mark: str, leader: int) -> bool:
    """Tell whether a process is of a run by its session or its mark."""
    with contextlib.suppress(psutil.Error, OSError):
        return _in_session(process.pid, leader) or _carries(process, mark)
    return False


def private_bytes(pid: int) -> int:
    """Return the memory of a process and its descendants, less the pages that files or shared memory back."""
    total = 0
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.Error, OSError):
                memory = process.memory_info()
                total += memory.rss - memory.shared
    return total


def kernel_oom_kills() -> int:
    """Return how many processes the kernel has killed for want of memory since it started, 0 if unknown."""
    with contextlib.suppress(OSError), open("/proc/vmstat", encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def _members(mark: str, leader: int | None) -> list[psutil.Process]:
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        # A process that ends while it is looked at is none of ours any more.
        with contextlib.suppress(psutil.Error, OSError):
            if _in_session(process.pid, leader) or _carries(process, mark):
                found[process.pid] = process
    for process in list(found.values()):
        with contextlib.suppress(psutil.Error, OSError):
            found |= {child.pid: child for child in process.children(recursive=True)}
    return [process for pid, process in found.items() if pid != os.getpid() and _alive(process)]


def _carries(process: psutil.Process, mark: str) -> bool:
    said = _environment(process).get(MARK, "")
    return said == mark or said.startswith(f"{mark}{os.sep}")


def _environment(process: psutil.Process) -> dict[str, str]:
    """Return a process's variables; those that it will have, where it is becoming another program (execve).

    Then it has neither words nor variables for a moment, which is long where it gets no time. Threads of the kernel's
    own and zombies never have any.
    """
    deadline, empty = time.monotonic() + EXEC_S, 0
    while not (variables := process.environ()):
        # Its words may have come after we looked for its variables.
        empty += bool(process.cmdline())
        never = process.ppid() in (0, _KTHREADD) or not _alive(process)
        if never or empty == _EMPTY or time.monotonic() > deadline:
            break
        time.sleep(_EXEC_LOOK_S)
    return variables


def _in_session(pid: int, leader: int | None) -> bool:
    return leader is not None and os.getsid(pid) == leader


def _alive(process: psutil.Process) -> bool:
    # Asked for its status, never waited for: a wait here would take the exit code from whoever started it.
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
    """Let the signals that stop us wait until the context is left; the last of them then takes effect.

    A blocked signal mask would not do: the kernel hands the signal to any other thread, and Python's handler
    then runs in the main thread all the same. Outside the main thread, where no handler ever runs, this does
    nothing. A signal that is ignored stays ignored.
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
