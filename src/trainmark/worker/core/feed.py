"""Where a step's batch comes from, whatever the framework."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator, List, Optional

from .outcomes import RunError
from .produced import Produced
from .queues import Loading, loading


class Feed:
    """A source of batches without end; what a batch is, each framework says for itself."""

    epoch_samples: int
    """Samples in an epoch: of the data set, or as many as the settings say."""

    decoder: Optional[str] = None
    """What decodes the samples; None where nothing does."""

    workers: Optional[int] = None
    """Processes or threads that really load, where they are not as many as the settings say."""

    wait_s: float = 0.0
    """How long the last call of ``next`` waited for the loader."""

    ahead: Optional[float] = None
    """Batches that can be in flight: being made, or made and not yet taken; None where nothing is loaded."""

    produced: Optional[Produced] = None
    """Counts the samples that the loader has made; None where it cannot be asked."""

    counted: Optional[List[int]] = None
    """Of each batch that was fetched the work that its samples do not tell; None where they tell it all."""

    uncounted = 0
    """Samples that the loader may have in hand before it counts them."""

    taken = 0
    """Batches that were fetched from the loader."""

    unreadable: Optional[List[str]] = None
    """Files that could not be decoded, for which black pictures stand in their batches; None where one ends the run."""

    def next(self) -> Any:
        """Return the next batch; the device may still be filling it, in the order of its work."""
        raise NotImplementedError

    def close(self) -> None:
        """End threads and processes."""

    def loading(self) -> Loading:
        """Return what the loader has made so far, and what was taken."""
        return loading(self.produced, self.taken)

    def timed(self, fetch: Callable[[], Any]) -> Any:
        """Return what ``fetch`` waits for, and keep how long that took; raise it if it is a ``RunError``."""
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
        """Take the batch as the framework has it."""
        self.epoch_samples, self._batch = epoch_samples, batch

    def next(self) -> Any:
        """Return the batch."""
        return self._batch


class LoadedFeed(Feed):
    """Batches from an iterator, which yields a ``RunError`` in the place of a batch that could not be read."""

    def __init__(
        self,
        batches: Iterator[Any],
        ready: Callable[[Any], Any],
        epoch_samples: int,
        decoder: Optional[str],
        ahead: Optional[float] = None,
        produced: Optional[Produced] = None,
    ) -> None:
        """Take over the iterator; ``ready`` makes of what it yields a batch where and as the step needs it."""
        self.epoch_samples, self.decoder = epoch_samples, decoder
        self.ahead, self.produced = ahead, produced
        self._batches, self._ready = batches, ready

    def next(self) -> Any:
        """Wait for the loader, and make its batch ready."""
        return self._ready(self.timed(self._batches.__next__))

    def close(self) -> None:
        """Drop the iterator: with its last reference a loader ends its processes."""
        self._batches = iter(())
