"""Counts the samples that a loader has finished, in whichever of its processes that was.

The count is the length of a file in memory, which grows by a byte a sample: appending is atomic between processes,
takes a few microseconds, and needs no lock that a killed process could hold.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any, Tuple


class Produced:
    """A count that threads, forked processes and those that get it pickled increase, while its maker lives."""

    def __init__(self) -> None:
        """Begin at zero."""
        # The file has no name, so that nothing of it is left behind.
        with _memory() as file:
            self._join(f"/proc/self/fd/{file.fileno()}")

    def _join(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        self._path = f"/proc/{os.getpid()}/fd/{self._file}"

    def add(self, samples: int = 1) -> None:
        """Count so many more."""
        os.write(self._file, bytes(samples))

    def count(self) -> int:
        """Return the samples so far."""
        return os.fstat(self._file).st_size

    def __reduce__(self) -> Tuple[Any, Tuple[str]]:
        """Let a process that got a copy count in the same file."""
        return _joined, (self._path,)


def _memory() -> Any:
    made: Any = getattr(os, "memfd_create", None)
    return tempfile.TemporaryFile() if made is None else os.fdopen(made("produced"), "wb")


def _joined(path: str) -> Produced:
    produced = Produced.__new__(Produced)
    produced._join(path)
    return produced
