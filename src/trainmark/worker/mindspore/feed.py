"""Where a step's batch comes from: made up once, given, or read by MindSpore's data engine."""

from __future__ import annotations

from typing import Any, Tuple

import mindspore as ms
import numpy as np

from ..arguments import Settings
from ..feed import Feed

Batch = Tuple[Any, Any]
"""Images (batch, 3, size, size) in float32 and labels (batch,) in int32, as tensors."""


class OneBatch(Feed):
    """One batch, used in every step."""

    def __init__(self, images: Any, labels: Any, epoch_images: int) -> None:
        """Take images (batch, 3, size, size) and labels (batch,) as numpy arrays."""
        self.epoch_images = epoch_images
        self._batch = (ms.Tensor(images.astype(np.float32)), ms.Tensor(labels.astype(np.int32)))

    def next(self) -> Batch:
        """Return the batch."""
        return self._batch


def synthetic(settings: Settings, rank: int) -> Feed:
    """Return a batch of noise; each rank has its own."""
    random = np.random.default_rng([settings.seed, rank])
    shape = (settings.batch_per_device, 3, settings.image_size, settings.image_size)
    images = random.standard_normal(shape, np.float32)
    return OneBatch(images, random.integers(0, settings.classes, shape[0]), settings.epoch_images)
