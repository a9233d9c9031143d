"""Where a step's batch comes from: one batch for all steps, or what a loader decodes beside the training."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator, Tuple

import numpy as np
import oneflow as flow

from ..arguments import Settings
from ..feed import Feed
from ..normalisation import DEVIATION, MEAN
from ..outcomes import RunError

Batch = Tuple[Any, Any]
"""Images (batch, 3, size, size) in FP32, and labels (batch,) in int64, on the device."""


class OneBatch(Feed):
    """One batch on the device, used in every step."""

    def __init__(self, images: Any, labels: Any, settings: Settings, device: Any) -> None:
        """Take numpy arrays: images (batch, 3, size, size), labels (batch,)."""
        self.epoch_images = settings.epoch_images
        images = flow.from_numpy(np.ascontiguousarray(images, np.float32))
        labels = flow.from_numpy(np.ascontiguousarray(labels, np.int64))
        self._batch = (images.to(device), labels.to(device))

    def next(self) -> Batch:
        """Return the batch."""
        return self._batch


def synthetic(settings: Settings, rank: int, device: Any) -> Feed:
    """Return one batch of noise; each rank has its own."""
    noise = np.random.default_rng([settings.seed, rank])
    shape = (settings.batch_per_device, 3, settings.image_size, settings.image_size)
    labels = noise.integers(settings.classes, size=shape[0])
    return OneBatch(noise.standard_normal(shape, np.float32), labels, settings, device)


class Decoded(Feed):
    """Brings decoded batches to the device and normalises them there: bytes are a quarter of the floats to copy.

    ``batches`` yields (bytes (batch, size, size, 3), labels) in numpy, or a ``RunError`` instead of a batch that
    could not be read.
    """

    def __init__(self, batches: Iterator[Any], device: Any, epoch_images: int, decoder: str) -> None:
        """Take over the iterator; ``close`` drops it."""
        self.epoch_images, self.decoder = epoch_images, decoder
        self._batches, self._device = batches, device
        self._clock: Callable[[], float] = time.perf_counter
        self._mean = flow.tensor(MEAN).mul(255.0).reshape(1, 3, 1, 1).to(device)
        self._deviation = flow.tensor(DEVIATION).mul(255.0).reshape(1, 3, 1, 1).to(device)

    def next(self) -> Batch:
        """Wait for the loader, copy and normalise."""
        started = self._clock()
        loaded = next(self._batches)
        self.wait_s = self._clock() - started
        if isinstance(loaded, RunError):
            raise loaded
        pixels, labels = loaded
        images = flow.from_numpy(pixels).to(self._device).permute(0, 3, 1, 2).float()
        return (images - self._mean) / self._deviation, flow.from_numpy(labels).to(self._device)

    def close(self) -> None:
        """Let the loader end its processes."""
        self._batches = iter(())
