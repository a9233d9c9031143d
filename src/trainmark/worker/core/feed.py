"""The sources of a step's batch, for every framework, and the reader of samples by their numbers."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from .outcomes import RunError
from .queues import Loading, SampleCounter, loading


class Feed:
    """An endless source of batches; each framework has its own type of batch."""

    epoch_samples: int
    """Samples in an epoch: of the data set, or from the settings."""

    decoder: str | None = None
    """The decoder of the samples; None without one."""

    workers: int | None = None
    """The actual number of loading processes or threads, if it differs from the settings."""

    wait_s: float = 0.0
    """The time that the last call of ``next`` waited for the loader, in seconds."""

    ahead: float | None = None
    """Batches that can be in flight (being made, or made and not yet taken); None without a loader."""

    produced: SampleCounter | None = None
    """A counter of the samples that the loader has made; None if it has no count."""

    counted: list[int] | None = None
    """The work of each fetched batch that does not follow from its samples; None if all of it does."""

    uncounted = 0
    """Samples that the loader may have read before it counts them."""

    taken = 0
    """Batches that were fetched from the loader."""

    unreadable: list[str] | None = None
    """Files that could not be decoded and were replaced by black pictures; None if such a file ends the run."""

    def next(self) -> Any:
        """Return the next batch; the device may still be filling it, in the order of its work."""
        raise NotImplementedError

    def close(self) -> None:
        """End threads and processes."""

    def loading(self) -> Loading:
        """Return the loader's counts of made and taken samples."""
        return loading(self.produced, self.taken)

    def timed(self, fetch: Callable[[], Any]) -> Any:
        """Return the result of ``fetch`` and record its duration; raise it if it is a ``RunError``."""
        started = time.perf_counter()
        fetched = fetch()
        self.taken += 1
        self.wait_s = time.perf_counter() - started
        if isinstance(fetched, RunError):
            raise fetched
        return fetched


class FixedFeed(Feed):
    """One batch, already where it is needed, used in every step."""

    def __init__(self, batch: Any, epoch_samples: int) -> None:
        self.epoch_samples, self._batch = epoch_samples, batch

    def next(self) -> Any:
        return self._batch


class LoadedFeed(Feed):
    """Batches from an iterator, which yields a ``RunError`` instead of a batch that could not be read."""

    def __init__(
        self,
        batches: Iterator[Any],
        ready: Callable[[Any], Any],
        epoch_samples: int,
        decoder: str | None,
        ahead: float | None = None,
        produced: SampleCounter | None = None,
    ) -> None:
        """Take over the iterator; ``ready`` converts its items to batches on the device, in the form for the step."""
        self.epoch_samples, self.decoder = epoch_samples, decoder
        self.ahead, self.produced = ahead, produced
        self._batches, self._ready = batches, ready

    def next(self) -> Any:
        return self._ready(self.timed(self._batches.__next__))

    def close(self) -> None:
        """Drop the iterator: with its last reference a loader ends its processes."""
        self._batches = iter(())


class IndexedReader:
    """Reads the samples of some numbers, and counts those that it has read; it can be pickled."""

    def __init__(self, batch_of: Callable[[Any], tuple[Any, ...]]) -> None:
        self._batch_of, self.produced = batch_of, SampleCounter()

    def __call__(self, numbers: Any) -> tuple[Any, ...] | RunError:
        """Return the arrays, or what tells what went wrong: a loader's process cannot end the run."""
        try:
            arrays = tuple(self._batch_of(numbers))
        except RunError as stopped:
            return stopped
        self.produced.add(len(numbers), numbers)
        return arrays
