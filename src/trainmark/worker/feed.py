"""Where a step's batch comes from, whatever the framework."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator, Optional, Tuple

from .arguments import Settings
from .outcomes import RunError


class Feed:
    """A source of batches without end; what a batch is, each framework says for itself."""

    epoch_images: int
    """Images in an epoch: of the data set, or as many as the settings say."""

    decoder: Optional[str] = None
    """What decodes the images; None where they are made up."""

    workers: Optional[int] = None
    """Processes or threads that really load, where they are not as many as the settings say."""

    wait_s: float = 0.0
    """How long the last call of ``next`` waited for the loader."""

    def next(self) -> Any:
        """Return the next batch; the device may still be filling it, in the order of its work."""
        raise NotImplementedError

    def close(self) -> None:
        """End threads and processes."""

    def timed(self, fetch: Callable[[], Any]) -> Any:
        """Return what ``fetch`` waits for, and keep how long that took; raise it if it is a ``RunError``."""
        started = time.perf_counter()
        fetched = fetch()
        self.wait_s = time.perf_counter() - started
        if isinstance(fetched, RunError):
            raise fetched
        return fetched


class FixedFeed(Feed):
    """One batch, already where it is needed, used in every step."""

    def __init__(self, batch: Any, epoch_images: int) -> None:
        """Take the batch as the framework has it."""
        self.epoch_images, self._batch = epoch_images, batch

    def next(self) -> Any:
        """Return the batch."""
        return self._batch


class LoadedFeed(Feed):
    """Batches from an iterator, which yields a ``RunError`` in the place of a batch that could not be read."""

    def __init__(
        self, batches: Iterator[Any], ready: Callable[[Any], Any], epoch_images: int, decoder: str
    ) -> None:
        """Take over the iterator; ``ready`` makes of what it yields a batch where and as the step needs it."""
        self.epoch_images, self.decoder = epoch_images, decoder
        self._batches, self._ready = batches, ready

    def next(self) -> Any:
        """Wait for the loader, and make its batch ready."""
        return self._ready(self.timed(self._batches.__next__))

    def close(self) -> None:
        """Drop the iterator: with its last reference a loader ends its processes."""
        self._batches = iter(())


def noise(settings: Settings, rank: int) -> Tuple[Any, Any]:
    """Return the synthetic batch of a rank, the same in every framework: numpy, as ``Training.set_batch`` has it."""
    import numpy as np

    random = np.random.default_rng([settings.seed, rank])
    shape = (settings.batch_per_device, 3, settings.image_size, settings.image_size)
    return random.standard_normal(shape, np.float32), random.integers(settings.classes, size=shape[0])
