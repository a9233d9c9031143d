"""How bytes and arrays become the network's input."""

from __future__ import annotations

from typing import Any, Tuple

import tensorflow as tf

from ...tasks.image_classification.normalisation import DEVIATION, MEAN
from ...tasks.image_classification.settings import ImageSettings
from ..device import Device

Batch = Tuple[Any, Any]
"""Images as the network takes them, or bytes (batch, size, size, 3) to be normalised; labels (batch,) in int32."""


class ToDevice:
    """Makes batches of numpy arrays."""

    def __init__(self, settings: ImageSettings, device: Device, dtype: str) -> None:
        """Take what the batches are to be."""
        self._device, self._dtype, self._layout = device, dtype, settings.layout

    def __call__(self, images: Any, labels: Any) -> Batch:
        """Copy images (batch, 3, size, size) in float32 and labels (batch,) in int64 to the device."""
        if self._layout == "nhwc":
            images = images.transpose(0, 2, 3, 1)
        with tf.device(self._device.path):
            return tf.cast(tf.constant(images), self._dtype), tf.constant(labels, tf.int32)


def as_input(images: Any, layout: str, dtype: str) -> Any:
    """Return the network's input: bytes are normalised on the device that trains, a quarter of the floats to copy."""
    if images.dtype != tf.uint8:
        return images
    mean, deviation = (tf.constant(values, tf.float32) * 255 for values in (MEAN, DEVIATION))
    images = tf.cast((tf.cast(images, tf.float32) - mean) / deviation, dtype)
    return images if layout == "nhwc" else tf.transpose(images, (0, 3, 1, 2))
