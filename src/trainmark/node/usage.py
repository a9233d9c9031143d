"""Resource usage of a run's process tree and of the node by /proc (without walking all of it), energy by RAPL."""

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

BUSY_SHARE = 0.1
"""The smallest share of a tree's processor time that makes a member one of its busy processes."""
POWERCAP = Path("/sys/class/powercap")
_MICROJOULES = 1e6


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


class PackageEnergy:
    """The counters of all packages; reading gives None where there are none or they are not readable.

    Since Linux 5.10 only root may read them (CVE-2020-8694).
    """

    def __init__(self, folder: Path = POWERCAP) -> None:
        # Sub-domains such as intel-rapl:0:0 (cores) are parts of their package; AMD's packages have the same name.
        self._files = [
            zone / "energy_uj"
            for zone in sorted(folder.glob("intel-rapl:*"))
            if zone.name.count(":") == 1 and _is_package(zone)
        ]

    def read_j(self) -> float | None:
        """Return the sum of the counters in joules; it grows until a counter starts again."""
        if not self._files:
            return None
        try:
            return sum(int(file.read_text()) for file in self._files) / _MICROJOULES
        except (OSError, ValueError):
            # A counter that cannot be read once, for the lack of rights, cannot be read later either.
            self._files = []
            return None


def _is_package(zone: Path) -> bool:
    try:
        return (zone / "name").read_text().startswith("package")
    except OSError:
        return False
