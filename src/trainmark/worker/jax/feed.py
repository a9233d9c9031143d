"""Where a step's batch comes from: made up once, given once, or read beside the training."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator

import jax.numpy as jnp
import numpy as np

from ..arguments import Settings
from ..feed import Feed
from ..normalisation import DEVIATION, MEAN
from .precision import Precision
from .ranks import Ranks
from .state import Batch


def normalise(images: Any, compute: Any) -> Any:
    """Return the network's input: bytes get mean 0 and deviation 1 by channel; what is normalised stays.

    Part of the step, so that bytes go to the device and XLA joins this to what follows. It computes in FP32.
    """
    if images.dtype != jnp.uint8:
        return images.astype(compute)
    mean, deviation = jnp.float32(MEAN) * 255, jnp.float32(DEVIATION) * 255
    return ((images.astype(jnp.float32) - mean) / deviation).astype(compute)


class FixedFeed(Feed):
    """One batch, brought to the device before the first step and used in every step."""

    def __init__(
        self, images: Any, labels: Any, epoch_images: int, ranks: Ranks, precision: Precision
    ) -> None:
        """Take this rank's images (batch, size, size, 3) in float32 and labels (batch,), numpy's."""
        self.epoch_images = epoch_images
        self._batch = (ranks.part(images.astype(precision.compute)), ranks.part(labels.astype(np.int32)))

    def next(self) -> Batch:
        """Return the batch."""
        return self._batch


def synthetic_feed(settings: Settings, ranks: Ranks, precision: Precision) -> Feed:
    """Return a batch of noise; each rank has its own."""
    random = np.random.default_rng([settings.seed, ranks.place.rank])
    shape = (settings.batch_per_device, settings.image_size, settings.image_size, 3)
    images = random.standard_normal(shape, np.float32)
    labels = random.integers(settings.classes, size=shape[0])
    return FixedFeed(images, labels, settings.epoch_images, ranks, precision)


class HostFeed(Feed):
    """Brings decoded batches from host memory to the device, one ahead of the step that uses it."""

    def __init__(
        self,
        batches: Iterator[Any],
        ranks: Ranks,
        epoch_images: int,
        decoder: str,
        close: Callable[[], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Take an iterator of (bytes (batch, size, size, 3), labels (batch,)), and what ends it."""
        self.epoch_images = epoch_images
        self.decoder = decoder
        self._batches = batches
        self._ranks = ranks
        self._close = close
        self._clock = clock

    def next(self) -> Batch:
        """Wait for the loader and start the copy."""
        started = self._clock()
        images, labels = next(self._batches)
        self.wait_s = self._clock() - started
        return self._ranks.part(images), self._ranks.part(labels)

    def close(self) -> None:
        """End the loader's processes."""
        self._close()
