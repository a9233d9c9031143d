"""How a batch gets to the device: copied once, or copied as bytes and normalised there."""

from __future__ import annotations

from typing import Any, Tuple

import paddle

from ...tasks.image_classification.normalisation import DEVIATION, MEAN
from ...tasks.image_classification.settings import ImageSettings

Batch = Tuple[Any, Any]
"""Images in FP32, (batch, 3, size, size) or (batch, size, size, 3) by the layout, and labels (batch,) in int64."""


class ToDevice:
    """Makes batches of numpy arrays."""

    def __init__(self, layout: str) -> None:
        """Take the order that the network wants."""
        self._layout = layout

    def __call__(self, images: Any, labels: Any) -> Batch:
        """Copy images (batch, 3, size, size) in float32 and labels (batch,) in int64 to the device."""
        pixels = paddle.to_tensor(images)
        if self._layout == "nhwc":
            pixels = paddle.transpose(pixels, [0, 2, 3, 1])
        return pixels, paddle.to_tensor(labels)


class Normalise:
    """Turns bytes into normalised images, on the device: bytes are a quarter of the floats to copy."""

    def __init__(self, settings: ImageSettings) -> None:
        """Put the constants on the device."""
        self._layout = settings.layout
        self._mean = paddle.to_tensor(MEAN) * 255
        self._scale = 1 / (paddle.to_tensor(DEVIATION) * 255)

    def __call__(self, batch: Any) -> Batch:
        """Return a batch of (bytes (batch, size, size, 3), labels)."""
        pixels, labels = batch
        with paddle.no_grad():
            images = (pixels.astype("float32") - self._mean) * self._scale
            if self._layout == "nchw":
                images = paddle.transpose(images, [0, 3, 1, 2])
        return images, labels
