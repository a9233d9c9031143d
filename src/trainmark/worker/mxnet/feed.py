"""Where a step's batch comes from: made up on the device once, or read and decoded beside the training."""

from __future__ import annotations

import time
from typing import Any, Callable, Tuple

import mxnet as mx

from ..arguments import Settings
from ..feed import Feed

Batch = Tuple[Any, Any]
"""Images in FP32, (batch, 3, size, size) or in ``nhwc`` (batch, size, size, 3), and labels (batch,) in FP32."""


class ConstantFeed(Feed):
    """One batch that is used in every step."""

    def __init__(self, images: Any, labels: Any, settings: Settings) -> None:
        """Take images (batch, 3, size, size) and labels, both on the device."""
        self.epoch_images = settings.epoch_images
        self._batch = (to_layout(images, settings.layout), labels)

    def next(self) -> Batch:
        """Return the batch."""
        return self._batch


def synthetic_feed(settings: Settings, rank: int, context: Any) -> Feed:
    """Return a batch of noise, made on the device before the first step; each rank has its own."""
    mx.random.seed(settings.seed + rank, ctx=context)
    shape = (settings.batch_per_device, 3, settings.image_size, settings.image_size)
    images = mx.nd.random.normal(shape=shape, ctx=context)
    labels = mx.nd.random.randint(0, settings.classes, shape=shape[:1], ctx=context).astype("float32")
    return ConstantFeed(images, labels, settings)


def given_feed(images: Any, labels: Any, settings: Settings, context: Any) -> Feed:
    """Return a batch that was given as numpy arrays."""
    pixels = mx.nd.array(images, ctx=context, dtype="float32")
    return ConstantFeed(pixels, mx.nd.array(labels, ctx=context, dtype="float32"), settings)


class LoaderFeed(Feed):
    """Takes batches from one of MXNet's loaders and hands their copy to the device to the engine."""

    def __init__(
        self,
        fetch: Callable[[], Batch],
        settings: Settings,
        context: Any,
        epoch_images: int,
        decoder: str,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """Take ``fetch``, which returns images (batch, 3, size, size) and labels in host memory."""
        self.epoch_images, self.decoder = epoch_images, decoder
        self._fetch, self._close = fetch, close
        self._layout, self._context = settings.layout, context

    def next(self) -> Batch:
        """Wait for the loader's next batch and return it."""
        started = time.perf_counter()
        images, labels = self._fetch()
        self.wait_s = time.perf_counter() - started
        # On a CPU the batch is where it should be, and neither of them copies.
        return to_layout(images.as_in_context(self._context), self._layout), labels.as_in_context(
            self._context
        )

    def close(self) -> None:
        """End the loader."""
        self._close()


def to_layout(images: Any, layout: str) -> Any:
    """Return images (batch, 3, h, w) in the order that the network takes."""
    return images.transpose((0, 2, 3, 1)) if layout == "nhwc" else images
