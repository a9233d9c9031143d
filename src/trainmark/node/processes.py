"""Processes by /proc: those of a run, found and ended completely; what they and the node use; those of others.

A job's leader is our wrapper (``exec_wrapper.py``), which adopts orphans where the kernel allows it: every process that
a run's program leaves behind is a descendant of the leader, also with its own session and a cleared environment. The
mark in a process's environment finds the others, such as ranks that mpirun starts on another host.

Usage is read without walking all of /proc; the processes outside a run are searched only while they compute.
"""

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path
from types import FrameType

import psutil

from trainmark.errors import TrainmarkError
from trainmark.printable import printable_line
from trainmark.schema.telemetry import ForeignProcess

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


BUSY_SHARE = 0.1
"""The smallest share of a tree's processor time that makes a member one of its busy processes."""


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """A process tree's processor seconds (including ended and reaped members), resident bytes, and members.

    ``busy_pids`` are the members with most of the processor time.
    """

    cpu_s: float
    rss_bytes: int
    pids: tuple[int, ...]
    busy_pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Stat:
    """The fields of ``/proc/<pid>/stat`` (proc(5)) that are used here."""

    cpu_ticks: int
    started_ticks: int
    rss_pages: int


class ProcessTree:
    """The process ``pid`` and its descendants, or those that ``find`` returns and their descendants.

    Of our own ``wrapper`` only the descendants count, with the processor time of those that it has reaped.

    A process stays a member when its parent ends.

    New members are searched only if any process or thread was started since the last search (the newest pid in
    ``/proc/loadavg``), so that a quiet training step costs one read per process.
    """

    def __init__(
        self,
        pid: int | None,
        proc: Path = Path("/proc"),
        find: Callable[[], Iterable[int]] = tuple,
        wrapper: int | None = None,
    ) -> None:
        self._proc, self._find, self._wrapper = proc, find, wrapper
        self._started: dict[int, int | None] = {root: None for root in (pid, wrapper) if root is not None}
        self._newest: str | None = None
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def read(self) -> TreeUsage:
        """Return the tree's current usage; zero if it has ended."""
        self._look_for_members()
        stats = {}
        for pid, started in list(self._started.items()):
            stat = self._stat(pid)
            if stat is None or started not in (None, stat.started_ticks):
                # It has ended, or its pid was reused by another process.
                del self._started[pid]
                continue
            self._started[pid] = stat.started_ticks
            stats[pid] = stat
        cpu_ticks = sum(stat.cpu_ticks for stat in stats.values())
        stats.pop(self._wrapper or 0, None)
        return TreeUsage(
            cpu_s=cpu_ticks / self._ticks_per_s,
            rss_bytes=sum(stat.rss_pages for stat in stats.values()) * self._page_bytes,
            pids=tuple(stats),
            busy_pids=tuple(
                pid
                for pid, stat in stats.items()
                if stat.cpu_ticks and stat.cpu_ticks >= BUSY_SHARE * cpu_ticks
            ),
        )

    def pss_bytes(self) -> int | None:
        """Return the proportional set size of the members at the last ``read``; None if one is not permitted.

        The kernel walks the page tables for it, which takes milliseconds for a large process.
        """
        total = 0
        for pid in self._started.keys() - {self._wrapper}:
            try:
                text = (self._proc / str(pid) / "smaps_rollup").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError:
                return None
            total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
        return total * 1024

    def _look_for_members(self) -> None:
        newest = _text(self._proc / "loadavg").rpartition(" ")[2]
        if newest and newest == self._newest:
            return
        self._newest = newest
        for pid in self._find():
            self._started.setdefault(pid)
        waiting = list(self._started)
        while waiting:
            pid = waiting.pop()
            for child in self._children(pid):
                if child not in self._started:
                    self._started[child] = None
                    waiting.append(child)

    def _children(self, pid: int) -> list[int]:
        try:
            threads = list((self._proc / str(pid) / "task").iterdir())
        except OSError:
            return []
        texts = (_text(thread / "children") for thread in threads)
        return [int(word) for text in texts for word in text.split()]

    def _stat(self, pid: int) -> _Stat | None:
        # The name in parentheses may contain parentheses and blanks: the fields begin after the last parenthesis.
        fields = _text(self._proc / str(pid) / "stat").rpartition(")")[2].split()
        if len(fields) < 22 or fields[0] in ("X", "x"):
            return None
        # A reaped child's time is added to its parent's cutime and cstime.
        return _Stat(sum(int(field) for field in fields[11:15]), int(fields[19]), int(fields[21]))


class CpuWaits:
    """The time for which the main threads of processes are ready and wait for a CPU, by ``/proc/<pid>/schedstat``."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._last: dict[int, float] = {}
        self._waited_s: float | None = None

    def read(self, pids: Iterable[int]) -> float | None:
        """Return the seconds so far, the mean over the processes at each reading; None if the kernel counts none."""
        now = {pid: seconds for pid in pids if (seconds := read_wait_s(pid, self._proc)) is not None}
        grown = [seconds - self._last[pid] for pid, seconds in now.items() if pid in self._last]
        self._last = now
        if now:
            self._waited_s = (self._waited_s or 0.0) + (sum(grown) / len(grown) if grown else 0.0)
        return None if self._waited_s is None else round(self._waited_s, 4)


def read_wait_s(pid: int, proc: Path = Path("/proc")) -> float | None:
    """Return the seconds for which a process' main thread was ready and waited for a CPU; None if not counted."""
    # Time on a CPU, time of waiting for one, and time slices; the times in nanoseconds (sched-stats.rst).
    words = _text(proc / str(pid) / "schedstat").split()
    return int(words[1]) / 1e9 if len(words) == 3 and words[1].isdecimal() else None


def _text(path: Path) -> str:
    try:
        # Unbuffered: ten samples a second read several of these small files.
        with path.open("rb", buffering=0) as file:
            return file.readall().decode(errors="replace").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Processor seconds of all CPUs since boot, and the available memory."""

    busy_s: float
    total_s: float
    available_bytes: int | None


def read_node(
    proc: Path = Path("/proc"), cpus: Collection[int] | None = None, *, memory: bool = True
) -> NodeUsage:
    """Return the node's counters from ``/proc/stat`` and ``/proc/meminfo`` (proc(5)), limited to ``cpus`` if given.

    A container or job that may use only some CPUs is not disturbed by load on the others. Without ``memory``,
    ``/proc/meminfo`` is not read.
    """
    with (proc / "stat").open("rb", buffering=0) as file:
        text = file.readall().decode()
    return parse_stat(text, cpus, _available(proc) if memory else None)


def parse_stat(text: str, cpus: Collection[int] | None, available_bytes: int | None = None) -> NodeUsage:
    """Return the counters in the text of ``/proc/stat``, of ``cpus`` if given."""
    names = {"cpu"} if cpus is None else {f"cpu{cpu}" for cpu in cpus}
    ticks = [0] * 8
    for line in text.splitlines():
        # user nice system idle iowait irq softirq steal; guest time is within user and nice.
        if not line.startswith("cpu"):
            break
        name, *words = line.split()
        if name in names:
            ticks = [held + int(word) for held, word in zip(ticks, words, strict=False)]
    per_s = os.sysconf("SC_CLK_TCK")
    total = sum(ticks)
    return NodeUsage((total - ticks[3] - ticks[4]) / per_s, total / per_s, available_bytes)


@dataclass(frozen=True, slots=True)
class QuotaCounter:
    """The counter of the time for which a CPU quota stopped this program's control group.

    ``file`` is its ``cpu.stat``, ``key`` the counter's name there, and ``per_s`` its units in a second.
    """

    file: Path
    key: str
    per_s: float

    def read_s(self) -> float | None:
        """Return the seconds so far; None where the group has no such counter."""
        for row in _text(self.file).splitlines():
            name, _, value = row.partition(" ")
            if name == self.key and value.isdigit():
                return int(value) / self.per_s
        return None


def find_quota_counter(
    groups: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")
) -> QuotaCounter | None:
    """Return the counter of this program's control group: ``throttled_usec`` (v2) or ``throttled_time`` in ns (v1)."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0":
            found = QuotaCounter(groups / path.strip("/") / "cpu.stat", "throttled_usec", 1e6)
        elif "cpu" in controllers.split(","):
            found = QuotaCounter(groups / "cpu" / path.strip("/") / "cpu.stat", "throttled_time", 1e9)
        else:
            continue
        if found.read_s() is not None:
            return found
    return None


def _available(proc: Path) -> int | None:
    with (proc / "meminfo").open() as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


WALK_S = 1.0
"""The shortest time between two walks, in seconds."""

LEAST_FOREIGN_SHARE = 0.05
"""The share of the processors from which on the processes of others are searched: half the bound of ``cpu-shared``."""

MOST_FOREIGN = 5
"""The largest number of processes in one sample."""

_LEAST_CORES = 0.05
_WALKS_COST = 100
"""A walk is repeated after this many times its own duration, so that walks take 1 % of one core at most."""
_OUTDATED = 2.5
"""A difference over more than this many intervals between walks would mix in earlier load."""

_READ_BYTES = 4096
"""The bytes that are read of a file in /proc."""

_PYTHON = re.compile(r"python[\d.]*")


@dataclass(frozen=True, slots=True)
class _Use:
    """One process: when it started, its name, and its processor time, in clock ticks."""

    started: bytes
    name: bytes
    ticks: int


class ForeignProcesses:
    """A search for the processes outside a run that compute; it walks through /proc only while there are any."""

    def __init__(self, proc: Path = Path("/proc"), clock: Callable[[], float] = time.thread_time) -> None:
        self._proc, self._clock = proc, clock
        self._per_s = os.sysconf("SC_CLK_TCK")
        self._checked: tuple[float, float, float] | None = None
        self._every_s = WALK_S
        self._walked_at = 0.0
        self._uses: dict[int, _Use] = {}

    def take(
        self, now_s: float, other_s: float, total_s: float, own: Collection[int]
    ) -> tuple[ForeignProcess, ...] | None:
        """Return the largest users of processor time since the last walk, outside ``own``; None without a walk now.

        ``other_s`` and ``total_s`` are counters: the processor seconds of others, and those of the whole machine.
        """
        before = self._checked
        if before is not None and now_s - before[0] < self._every_s:
            return None
        self._checked = (now_s, other_s, total_s)
        if before is None:
            self._walk(now_s)
            return None
        share = (other_s - before[1]) / (total_s - before[2]) if total_s > before[2] else 0.0
        if share < LEAST_FOREIGN_SHARE:
            return None
        earlier, seconds = self._uses, now_s - self._walked_at
        self._walk(now_s)
        if seconds > _OUTDATED * self._every_s:
            return None
        excluded = {*own, os.getpid()}
        return tuple(
            nlargest(MOST_FOREIGN, self._found(earlier, seconds, excluded), key=lambda one: one.cores)
        )

    def _walk(self, now_s: float) -> None:
        began = self._clock()
        self._uses, self._walked_at = dict(self._read_all()), now_s
        self._every_s = max(WALK_S, _WALKS_COST * (self._clock() - began))

    def _found(
        self, earlier: dict[int, _Use], seconds: float, excluded: Collection[int]
    ) -> Iterator[ForeignProcess]:
        for pid, use in self._uses.items():
            known = earlier.get(pid)
            # A new process used all of its time since the last walk; a pid may belong to another process by now.
            ticks = use.ticks - (known.ticks if known is not None and known.started == use.started else 0)
            cores = ticks / self._per_s / seconds
            if pid not in excluded and cores >= _LEAST_CORES:
                yield ForeignProcess(pid, self._named(pid, use.name), round(cores, 3))

    def _read_all(self) -> Iterator[tuple[int, _Use]]:
        for entry in os.scandir(self._proc):
            if entry.name.isdecimal() and (use := self._use(entry.name)) is not None:
                yield int(entry.name), use

    def _use(self, pid: str) -> _Use | None:
        # The name in parentheses may contain parentheses and blanks: the fields begin after the last parenthesis.
        head, _, rest = _read(f"{self._proc}/{pid}/stat").rpartition(b")")
        fields = rest.split(maxsplit=20)
        if len(fields) < 20:
            return None
        return _Use(fields[19], head.partition(b"(")[2], int(fields[11]) + int(fields[12]))

    def _named(self, pid: int, name: bytes) -> str:
        """Return the name of a process, of a Python program with its script or module; never its other words."""
        words = _read(f"{self._proc}/{pid}/cmdline").decode(errors="replace").split("\0")
        program = ""
        if words and _PYTHON.fullmatch(Path(words[0]).name):
            options = iter(words[1:])
            first = next((word for word in options if word == "-m" or not word.startswith("-")), "")
            found = next(options, "") if first == "-m" else Path(first).name
            program = found if first == "-m" or found.endswith(".py") else ""
        return printable_line(f"{name.decode(errors='replace')} {program}".strip())[:60]


def _read(path: str) -> bytes:
    # A walk reads hundreds of small files: without a file object it takes half of the time.
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, _READ_BYTES)
    except OSError:
        return b""
    finally:
        os.close(file)
