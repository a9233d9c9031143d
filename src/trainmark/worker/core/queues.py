"""Limits on how far a loader may work ahead of the training, and the division of its batches into parts.

The window must not count batches that were loaded before it. So a rank has at most about ``AHEAD`` batches in flight,
regardless of the number of its loader processes: many processes share a batch, each making a part of it. The warm-up
of real data is longer by ``DRAIN_STEPS``, so that a queue that was filled while the first step compiled has been
drained twice when the window starts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from .outcomes import RunError
from .produced import Produced

AHEAD = 4
"""Batches that a rank may have in flight: being made, or made and not yet taken."""

DRAIN_STEPS = 2 * (AHEAD + 1)
"""Twice the batches in flight, because MindSpore's engine cannot be limited to fewer than five batches."""

UNCOUNTED = -1
"""The value for a number of samples that a loader does not count."""

T = TypeVar("T")


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


def cut(batches: Iterable[Sequence[T]], parts: int) -> Iterator[list[T]]:
    """Yield the ``parts`` equal parts of each batch, one after another."""
    for batch in batches:
        size = len(batch) // parts
        for start in range(0, len(batch), size):
            yield list(batch[start : start + size])


class Cut:
    """The parts of endless batches, for loaders that iterate over them; it can be pickled."""

    def __init__(self, batches: Iterable[Any], parts: int) -> None:
        """Store the batches and the number of parts of each."""
        self._batches, self._parts = batches, parts

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield the parts."""
        return cut(self._batches, self._parts)


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


def loading(produced: Produced | None, taken: int) -> Loading:
    """Return the state of a loader that counts in ``produced``, if it does."""
    return Loading(UNCOUNTED if produced is None else produced.count(), taken)
