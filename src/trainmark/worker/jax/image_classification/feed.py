"""How bytes and arrays become the network's input."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ...tasks.image_classification.normalisation import DEVIATION, MEAN
from ..ranks import Group
from .loss import Batch


class ToDevice:
    """Makes batches of numpy arrays."""

    def __init__(self, group: Group, compute: Any) -> None:
        """Take what the images are to be."""
        self._group, self._compute = group, compute

    def __call__(self, images: Any, labels: Any) -> Batch:
        """Bring this rank's images (batch, 3, size, size) in float32 and labels (batch,) in int64 to the device."""
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1)).astype(self._compute)
        return self._group.part(images), self._group.part(labels.astype(np.int32))


def normalise(images: Any, compute: Any) -> Any:
    """Return the network's input: bytes get mean 0 and deviation 1 by channel; what is normalised stays.

    Part of the step, so that bytes go to the device and XLA joins this to what follows. It computes in FP32.
    """
    if images.dtype != jnp.uint8:
        return images.astype(compute)
    mean, deviation = jnp.float32(MEAN) * 255, jnp.float32(DEVIATION) * 255
    return ((images.astype(jnp.float32) - mean) / deviation).astype(compute)
