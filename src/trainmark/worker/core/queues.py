"""Limits on how far a loader may work ahead of the training, parts of batches, and counts of samples.

The window must not count batches that were loaded before it. So a rank has at most about ``AHEAD`` batches in flight,
regardless of the number of its loader processes: many processes share a batch, each making a part of it. The warm-up
of real data is longer by ``DRAIN_STEPS``, so that a queue that was filled while the first step compiled has been
drained twice when the window starts.

The count of samples is the length of a file in memory, which grows by a byte a sample; the numbers are in a second
file, eight bytes each. Appending is atomic between processes, takes a few microseconds, and needs no lock that a
killed process could hold.
"""

import os
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .outcomes import RunError

RECORDED = 64
"""The number of samples of one call of ``add`` whose numbers are recorded: a batch of clicks has 65 536."""


class SampleCounter:
    """A count that threads, forked processes and those that get it pickled increase, while its maker lives."""

    def __init__(self) -> None:
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


def _joined(*paths: str) -> SampleCounter:
    produced = SampleCounter.__new__(SampleCounter)
    produced._join(*paths)
    return produced


AHEAD = 4
"""Batches that a rank may have in flight: being made, or made and not yet taken."""

DRAIN_STEPS = 2 * (AHEAD + 1)
"""Twice the batches in flight, because MindSpore's engine cannot be limited to fewer than five batches."""

UNCOUNTED = -1
"""The value for a number of samples that a loader does not count."""


class Parts(NamedTuple):
    """``workers`` processes that each have ``tasks`` parts in progress or waiting; ``in_batch`` parts make a batch."""

    workers: int
    tasks: int
    in_batch: int

    @property
    def ahead(self) -> float:
        """Return the batches that can be in flight."""
        return self.workers * self.tasks / self.in_batch


def in_parts(batch: int, workers: int, tasks: int = 2, least_tasks: int = 1, ahead: int = AHEAD) -> Parts:
    """Return how ``workers`` processes that work ``tasks`` parts ahead share batches within the limit ``ahead``.

    The parts of a batch are equal. If a batch has too few samples for that, processes work less far ahead, down to
    ``least_tasks``, and there are fewer of them.
    """
    workers = min(workers, max(ahead * batch // least_tasks, 1))
    while True:
        least = max(-(-workers * tasks // ahead), 1)
        in_batch = next((parts for parts in range(least, batch + 1) if batch % parts == 0), None)
        if in_batch is not None:
            return Parts(workers, tasks, in_batch)
        if tasks == least_tasks:
            return Parts(workers, tasks, batch)
        tasks -= 1


class Cut:
    """The equal parts of endless batches, for loaders that iterate over them; it can be pickled."""

    def __init__(self, batches: Iterable[Any], parts: int) -> None:
        self._batches, self._parts = batches, parts

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield the parts of each batch, one after another."""
        for batch in self._batches:
            size = len(batch) // self._parts
            for start in range(0, len(batch), size):
                yield list(batch[start : start + size])


def joined(parts: Iterator[Any], count: int, join: Callable[[list[Any]], Any]) -> Iterator[Any]:
    """Yield the result of ``join`` for each ``count`` parts; a ``RunError`` among them is yielded instead."""
    while True:
        some: list[Any] = []
        for part in parts:
            if isinstance(part, RunError):
                some = [part]
                break
            some.append(part)
            if len(some) == count:
                break
        else:
            return
        yield some[0] if isinstance(some[0], RunError) else some[0] if count == 1 else join(some)


class Loading(NamedTuple):
    """The state of a rank's loader at one moment: samples made (or ``UNCOUNTED``), and batches taken from it."""

    produced: int = UNCOUNTED
    taken: int = 0
