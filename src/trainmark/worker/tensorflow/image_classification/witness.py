"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import tensorflow as tf

from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.facts import Seen, layout_by_axes


class Witness:
    """Looks at the output of the network's second convolution, whose input has been through the stem.

    That output is one of the trained network itself: what is seen of it, in a graph while it is traced, is the step's.
    """

    def __init__(self, model: str) -> None:
        """Take the model's name."""
        self._channels = ARCHITECTURES[model].convolutions[1].outputs
        self._dtype: Optional[str] = None
        self._shape: Tuple[int, ...] = ()

    def see(self, output: Any) -> None:
        """Note type and shape of the convolution's output."""
        self._dtype = output.dtype.name
        self._shape = tuple(output.shape)

    def told(self, weight: Any) -> Seen:
        """Return what was seen, with the type of ``weight`` and the TF32 switch."""
        tf32 = bool(tf.config.experimental.tensor_float_32_execution_enabled())
        return Seen(
            compute_dtype=self._dtype,
            weight_dtype=weight.value.dtype.name,
            # In TensorFlow the layout is the order of the axes.
            activation_layout=layout_by_axes(self._shape, self._channels) if self._shape else None,
            # A kernel's axes have one order for all layouts: height, width, inputs, outputs.
            weight_layout=None,
            batch_per_device=self._shape[0] if self._shape else None,
            tf32_matmul=tf32,
            tf32_convolution=tf32,
            unseen=("weight_layout",),
        )
