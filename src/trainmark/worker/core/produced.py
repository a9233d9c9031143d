"""Counts the samples that a loader has finished, and records which they were, in whichever of its processes.

The count is the length of a file in memory, which grows by a byte a sample; the numbers are in a second file, eight
bytes each. Appending is atomic between processes, takes a few microseconds, and needs no lock that a killed process
could hold.
"""

import os
import struct
import tempfile
from collections.abc import Sequence
from typing import Any

RECORDED = 64
"""The number of samples of one call of ``add`` whose numbers are recorded: a batch of clicks has 65 536."""


class Produced:
    """A count that threads, forked processes and those that get it pickled increase, while its maker lives."""

    def __init__(self) -> None:
        """Begin at zero."""
        # The files have no names, so that nothing of them is left behind.
        with _memory() as count, _memory() as numbers:
            self._join(*(f"/proc/self/fd/{file.fileno()}" for file in (count, numbers)))

    def _join(self, *paths: str) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        self._file, self._numbers = (os.open(path, flags) for path in paths)
        self._paths = tuple(f"/proc/{os.getpid()}/fd/{file}" for file in (self._file, self._numbers))

    def add(self, samples: int = 1, numbers: Sequence[int] = ()) -> None:
        """Count so many more; ``numbers`` identify them in the data set, if the loader knows that."""
        if len(numbers):
            recorded = [int(number) for number in numbers[:RECORDED]]
            os.write(self._numbers, struct.pack(f"<{len(recorded)}q", *recorded))
        os.write(self._file, bytes(samples))

    def count(self) -> int:
        """Return the samples so far."""
        return os.fstat(self._file).st_size

    def numbers(self) -> list[int]:
        """Return the recorded numbers so far, in the order in which the samples were finished."""
        size = os.fstat(self._numbers).st_size // 8
        return list(struct.unpack(f"<{size}q", os.pread(self._numbers, 8 * size, 0)))

    def __reduce__(self) -> tuple[Any, tuple[str, ...]]:
        """Let a process that got a copy count in the same files."""
        return _joined, self._paths


def _memory() -> Any:
    made: Any = getattr(os, "memfd_create", None)
    return tempfile.TemporaryFile() if made is None else os.fdopen(made("produced"), "wb")


def _joined(*paths: str) -> Produced:
    produced = Produced.__new__(Produced)
    produced._join(*paths)
    return produced
