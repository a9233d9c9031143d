"""How a batch gets to the device, in the layout of the network."""

from __future__ import annotations

from typing import Any, Tuple

import mxnet as mx
import numpy as np

from ...tasks.image_classification.normalisation import DEVIATION, MEAN
from ...tasks.image_classification.settings import ImageSettings

Batch = Tuple[Any, Any]
"""Images in FP32, (batch, 3, size, size) or in ``nhwc`` (batch, size, size, 3), and labels (batch,) in FP32."""


class ToDevice:
    """Makes batches of numpy arrays, or of what one of MXNet's loaders has in host memory."""

    def __init__(self, settings: ImageSettings, context: Any) -> None:
        """Take what the batches are to be."""
        self._layout, self._context = settings.layout, context
        self.on_gpu = context.device_type == "gpu"
        self._mean, self._deviation = (
            mx.nd.array(values, ctx=context).reshape((1, 3, 1, 1)) * 255 for values in (MEAN, DEVIATION)
        )

    def __call__(self, images: Any, labels: Any) -> Batch:
        """Copy images (batch, 3, size, size) and labels (batch,), both numpy's."""
        return self.loaded((mx.nd.array(images, dtype="float32"), mx.nd.array(labels, dtype="float32")))

    def loaded(self, batch: Batch) -> Batch:
        """Hand the copy of images (batch, 3, size, size) and labels to the engine; on a CPU nothing is copied.

        Bytes are normalised on the device.
        """
        images, labels = (array.as_in_context(self._context) for array in batch)
        if images.dtype == np.uint8:
            images = (images.astype("float32") - self._mean) / self._deviation
        return (images.transpose((0, 2, 3, 1)) if self._layout == "nhwc" else images), labels
