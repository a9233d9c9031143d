"""How a batch gets to the device: copied once, or copied and normalised beside the training."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
import oneflow as flow

from ...tasks.image_classification.normalisation import DEVIATION, MEAN

Batch = Tuple[Any, Any]
"""Images (batch, 3, size, size) in FP32, and labels (batch,) in int64, on the device."""


class ToDevice:
    """Makes batches of numpy arrays."""

    def __init__(self, device: Any) -> None:
        """Take where to."""
        self._device = device

    def __call__(self, images: Any, labels: Any) -> Batch:
        """Copy images (batch, 3, size, size) and labels (batch,) to the device."""
        pixels = flow.from_numpy(np.ascontiguousarray(images, np.float32))
        return pixels.to(self._device), flow.from_numpy(labels).to(self._device)


class Normalise:
    """Makes batches of what a loader decoded; on the device, since bytes are a quarter of the floats to copy."""

    def __init__(self, device: Any) -> None:
        """Put the constants on the device."""
        self._device = device
        self._mean = flow.tensor(MEAN).mul(255.0).reshape(1, 3, 1, 1).to(device)
        self._deviation = flow.tensor(DEVIATION).mul(255.0).reshape(1, 3, 1, 1).to(device)

    def __call__(self, decoded: Tuple[Any, Any]) -> Batch:
        """Take numpy: bytes (batch, size, size, 3) and labels (batch,)."""
        pixels, labels = decoded
        images = flow.from_numpy(pixels).to(self._device).permute(0, 3, 1, 2).float()
        return (images - self._mean) / self._deviation, flow.from_numpy(labels).to(self._device)
