"""Limits on how far a loader may work ahead of the training, counts of what it made, and a check by them.

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
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .outcomes import RunError
from .task import Verified

RECORDED = 64  # the samples of one call of ``add`` whose numbers are recorded: a batch of clicks has 65 536
AHEAD = 4  # batches that a rank may have in flight: being made, or made and not yet taken
DRAIN_STEPS = 2 * (AHEAD + 1)  # MindSpore's engine cannot be limited to fewer than five batches
UNCOUNTED = -1  # the value for a number of samples that a loader does not count
TOLERANCE = 0.02  # the share of the window's samples that may have been made before it
NAMED = 10  # the undecodable files that are named


class SampleCounter:
    """A count that threads, forked processes and those that get it pickled increase, while its maker lives."""

    def __init__(self, *paths: str) -> None:
        """Open the files of another counter, or make some that have no names: nothing of them is left behind."""
        made, flags = [] if paths else [_memory(), _memory()], os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        opened = paths or [f"/proc/self/fd/{file.fileno()}" for file in made]
        self._file, self._numbers = (os.open(path, flags) for path in opened)
        for file in made:
            file.close()
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
        return SampleCounter, self._paths


def _memory() -> Any:
    made: Any = getattr(os, "memfd_create", None)
    return tempfile.TemporaryFile() if made is None else os.fdopen(made("produced"), "wb")


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
        if in_batch is not None or tasks == least_tasks:
            return Parts(workers, tasks, in_batch or batch)
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
    some: list[Any] = []
    for part in parts:
        some.append(part)
        if isinstance(part, RunError):
            yield part
            some = []
        elif len(some) == count:
            yield part if count == 1 else join(some)
            some = []


class Loading(NamedTuple):
    """The state of a rank's loader at one moment: samples made (or ``UNCOUNTED``), and batches taken from it."""

    produced: int = UNCOUNTED
    taken: int = 0


class RankLoading(NamedTuple):
    """One rank's loader, as whole numbers, so that ranks can exchange it.

    ``made`` samples (or ``UNCOUNTED``) and ``taken`` batches are those after the first step, and at the window's ends.
    """

    ahead_thousandths: int  # of a batch that can be in flight
    made_at_first: int
    taken_at_first: int
    made_at_begin: int
    taken_at_begin: int
    made_at_end: int
    taken_at_end: int
    waited_us: int  # by the window for the loader
    window_us: int
    batch: int
    uncounted: int = 0

    @property
    def consumed(self) -> int:
        """Return the samples that were taken in the window."""
        return (self.taken_at_end - self.taken_at_begin) * self.batch

    @property
    def produced(self) -> int | None:
        """Return the samples that were made in the window."""
        return None if self.made_at_end == UNCOUNTED else self.made_at_end - self.made_at_begin

    @property
    def in_flight(self) -> list[float | None]:
        """Return the batches made and not yet taken: after the first step, at the window's begin, at its end."""
        states = zip(self[1:7:2], self[2:7:2])
        return [None if made == UNCOUNTED else made / self.batch - taken for made, taken in states]

    @property
    def waited(self) -> bool:
        """Return whether the window waited for the loader."""
        return self.waited_us > TOLERANCE * self.window_us

    @property
    def drained(self) -> bool:
        """Return whether more than ``TOLERANCE`` of the window's samples had been made before it.

        One batch is not a sign of this: at its end the window has just taken one, which a loader that was waiting for
        room has only started to replace. So a queue that is full except for one batch raises no doubt, if no step
        waited for it.
        """
        made, (full, _, left) = self.produced, self.in_flight
        if made is None or full is None or left is None or self.consumed - made <= TOLERANCE * self.consumed:
            return False
        return left < full - 1 or self.waited

    @property
    def may_be_before(self) -> float:
        """Return the number of the window's samples that may have been made before it without being counted."""
        return self.uncounted if self.produced is not None else self.ahead_thousandths / 1000 * self.batch


def tell_unreadable(names: list[str], name: str, why: str) -> None:
    """Add a file that could not be decoded to ``names``, and print why it could not, of the first few."""
    names.append(name)
    if len(names) <= NAMED:
        print(f"trainmark-worker: {name} cannot be decoded: {why}", file=sys.stderr, flush=True)


def check_decoding(counts: Sequence[int], names: Sequence[str]) -> Verified:
    """Report the files that could not be decoded, by rank, and this rank's ``names``; doubt a run with any."""
    found = Verified({"unreadable": {"files": list(counts), "first": list(dict.fromkeys(names))[:NAMED]}})
    if any(counts):
        first = f", {names[0]} first" if names else ""
        found.doubt(
            "samples-unreadable",
            f"{sum(counts)} of the samples could not be decoded{first}: black pictures were trained on in their place. "
            "Find them by: trainmark data verify.",
        )
    return found


def check_queues(ranks: Sequence[RankLoading]) -> Verified:
    """Report what the ranks' loaders did, and doubt a window whose samples were, or may have been, loaded before it."""
    if not ranks:
        return Verified({"loading": None})
    first, begin, end = zip(*(rank.in_flight for rank in ranks))
    loading = {
        "ahead_batches": [rank.ahead_thousandths / 1000 for rank in ranks],
        "produced": [rank.produced for rank in ranks],
        "consumed": [rank.consumed for rank in ranks],
        "in_flight_after_first_step": list(first),
        "in_flight_at_begin": list(begin),
        "in_flight_at_end": list(end),
        "waited_s": [rank.waited_us / 1e6 for rank in ranks],
    }
    found = Verified({"loading": loading})
    for index, rank in enumerate(ranks):
        of = f"Rank {index}" if len(ranks) > 1 else "The run"
        if rank.drained:
            found.doubt(
                "queue-drained",
                f"{of} trained on {rank.consumed} samples in the window, and its loader made {rank.produced} in it: "
                "the rest had been loaded before, so this is not the loader's throughput. Measure more steps.",
            )
        elif rank.waited and rank.may_be_before > TOLERANCE * rank.consumed:
            found.doubt(
                "queue-unknown",
                f"{of} waited for its loader, and what that made in the window cannot be counted: "
                f"{rank.may_be_before:g} of {rank.consumed} samples may have been loaded before it. Measure more "
                "steps.",
            )
        if found.doubts:
            break
    return found
