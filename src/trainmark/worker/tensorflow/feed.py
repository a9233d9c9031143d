"""Where a step's batch comes from, and how bytes become the network's input."""

from __future__ import annotations

import time
from typing import Any, Callable, Tuple

import tensorflow as tf

from ..arguments import Settings
from ..feed import Feed
from ..normalisation import DEVIATION, MEAN
from .device import Device

Batch = Tuple[Any, Any]
"""Images as the network takes them, or bytes (batch, size, size, 3) to be normalised; labels (batch,) in int32."""


class FixedFeed(Feed):
    """One batch, put on the device before the first step and used in every step."""

    def __init__(self, batch: Batch, epoch_images: int) -> None:
        """Keep the batch."""
        self._batch = batch
        self.epoch_images = epoch_images

    def next(self) -> Batch:
        """Return the batch."""
        return self._batch


def synthetic_feed(settings: Settings, rank: int, device: Device, dtype: str) -> Feed:
    """Return a feed of noise, made on the device; each rank has its own."""
    seed = (settings.seed, rank)
    sides = (settings.image_size, settings.image_size)
    shape = (*sides, 3) if settings.layout == "nhwc" else (3, *sides)
    with tf.device(device.path):
        images = tf.random.stateless_normal((settings.batch_per_device, *shape), seed)
        labels = tf.random.stateless_uniform(
            (settings.batch_per_device,), seed, maxval=settings.classes, dtype=tf.int32
        )
        return FixedFeed((tf.cast(images, dtype), labels), settings.epoch_images)


def given_feed(images: Any, labels: Any, settings: Settings, device: Device, dtype: str) -> Feed:
    """Return a feed of images (batch, 3, size, size) in float32 and labels (batch,), both numpy."""
    if settings.layout == "nhwc":
        images = images.transpose(0, 2, 3, 1)
    with tf.device(device.path):
        batch = (tf.cast(tf.constant(images), dtype), tf.constant(labels, tf.int32))
    return FixedFeed(batch, settings.epoch_images)


class LoadedFeed(Feed):
    """Batches of a tf.data pipeline, which works ahead in its own threads."""

    def __init__(
        self,
        batches: Any,
        epoch_images: int,
        decoder: str,
        explain: Callable[[BaseException, int], BaseException],
    ) -> None:
        """Start the pipeline; ``explain`` turns its error at the n-th batch (from 0) into one that names a file."""
        self.epoch_images = epoch_images
        self.decoder = decoder
        self._batches = iter(batches)
        self._explain = explain
        self._taken = 0

    def next(self) -> Batch:
        """Wait for the pipeline."""
        started = time.perf_counter()
        try:
            batch = next(self._batches)
        except tf.errors.ResourceExhaustedError:
            raise
        except tf.errors.OpError as error:
            raise self._explain(error, self._taken) from error
        self.wait_s = time.perf_counter() - started
        self._taken += 1
        return batch


def as_input(images: Any, layout: str, dtype: str) -> Any:
    """Return the network's input: bytes are normalised on the device that trains, a quarter of the floats to copy."""
    if images.dtype != tf.uint8:
        return images
    mean, deviation = (tf.constant(values, tf.float32) * 255 for values in (MEAN, DEVIATION))
    images = tf.cast((tf.cast(images, tf.float32) - mean) / deviation, dtype)
    return images if layout == "nhwc" else tf.transpose(images, (0, 3, 1, 2))
