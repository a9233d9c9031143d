"""Where a step's batch comes from: made up on the device once, or read and decoded beside the training."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator, Tuple

import paddle

from ..arguments import Settings
from ..feed import Feed
from ..normalisation import DEVIATION, MEAN
from ..outcomes import RunError

Batch = Tuple[Any, Any]
"""Images in FP32, (batch, 3, size, size) or (batch, size, size, 3) by the layout, and labels (batch,) in int64."""


class OneBatch(Feed):
    """One batch on the device, used in every step."""

    def __init__(self, images: Any, labels: Any, settings: Settings) -> None:
        """Take images (batch, 3, size, size) and labels (batch,) as tensors."""
        self.epoch_images = settings.epoch_images
        if settings.layout == "nhwc":
            images = paddle.transpose(images, [0, 2, 3, 1])
        self._batch = (images, labels)

    def next(self) -> Batch:
        """Return the batch."""
        return self._batch


def synthetic(settings: Settings, rank: int) -> Feed:
    """Return noise, drawn on the device; each rank has its own."""
    paddle.seed(settings.seed + rank)
    shape = [settings.batch_per_device, 3, settings.image_size, settings.image_size]
    return OneBatch(paddle.randn(shape), paddle.randint(settings.classes, shape=shape[:1]), settings)


def given(images: Any, labels: Any, settings: Settings) -> Feed:
    """Return numpy arrays, images in float32 and labels in int64, as the only batch."""
    return OneBatch(paddle.to_tensor(images), paddle.to_tensor(labels), settings)


class Decoded(Feed):
    """Normalises what a loader decoded.

    ``batches`` yields (bytes (batch, size, size, 3), labels, None), or in the place of None the ``RunError`` that
    tells why a batch could not be read. ``release`` ends the loader.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        release: Callable[[], None],
        settings: Settings,
        epoch_images: int,
        decoder: str,
    ) -> None:
        """Take over the iterator."""
        self.epoch_images, self.decoder = epoch_images, decoder
        self._batches, self._release, self._layout = batches, release, settings.layout
        # Bytes are normalised on the device, since they are a quarter of the floats to copy.
        self._mean = paddle.to_tensor(MEAN) * 255
        self._scale = 1 / (paddle.to_tensor(DEVIATION) * 255)

    def next(self) -> Batch:
        """Wait for the loader and normalise."""
        started = time.perf_counter()
        pixels, labels, stopped = next(self._batches)
        self.wait_s = time.perf_counter() - started
        if isinstance(stopped, RunError):
            raise stopped
        with paddle.no_grad():
            images = (pixels.astype("float32") - self._mean) * self._scale
            if self._layout == "nchw":
                images = paddle.transpose(images, [0, 3, 1, 2])
        return images, labels

    def close(self) -> None:
        """End the loader."""
        self._release()
