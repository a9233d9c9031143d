"""The processes outside a run that use a host's processors, read by walks through all of /proc while others compute."""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path

from trainmark.printable import printable_line
from trainmark.schema.telemetry import ForeignProcess

WALK_S = 1.0
"""The shortest time between two walks, in seconds."""

LEAST_SHARE = 0.05
"""The share of the processors from which on the processes of others are searched: half the bound of ``cpu-shared``."""

MOST = 5
"""The largest number of processes in one sample."""

_LEAST_CORES = 0.05
_WALKS_COST = 100
"""A walk is repeated after this many times its own duration, so that walks take 1 % of one core at most."""
_OUTDATED = 2.5
"""A difference over more than this many intervals between walks would mix in earlier load."""

_LONGEST = 4096
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
        if share < LEAST_SHARE:
            return None
        earlier, seconds = self._uses, now_s - self._walked_at
        self._walk(now_s)
        if seconds > _OUTDATED * self._every_s:
            return None
        excluded = {*own, os.getpid()}
        return tuple(nlargest(MOST, self._found(earlier, seconds, excluded), key=lambda one: one.cores))

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
        return os.read(file, _LONGEST)
    except OSError:
        return b""
    finally:
        os.close(file)
