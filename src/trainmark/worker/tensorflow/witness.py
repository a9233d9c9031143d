"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import tensorflow as tf

from ..architectures import ARCHITECTURES


class Witness:
    """Looks at the output of the network's second convolution, whose input has been through the stem.

    That output is one of the trained network itself: what is seen of it, in a graph while it is traced, is the step's.
    """

    def __init__(self, model: str) -> None:
        """Take the model's name."""
        self._channels = ARCHITECTURES[model].convolutions[1].outputs
        self._dtype = ""
        self._shape: Tuple[int, ...] = ()

    def see(self, output: Any) -> None:
        """Note type and shape of the convolution's output."""
        self._dtype = output.dtype.name
        self._shape = tuple(output.shape)

    def told(self, weight: Any) -> Dict[str, Any]:
        """Return what was seen, with the type of ``weight`` and the TF32 switch."""
        tf32 = bool(tf.config.experimental.tensor_float_32_execution_enabled())
        return {
            "compute_dtype": self._dtype,
            "weight_dtype": weight.value.dtype.name,
            "tf32_matmul": tf32,
            "tf32_convolution": tf32,
            "activation_layout": self._layout(),
            # TensorFlow has one order of a kernel's axes (height, width, inputs, outputs) for all layouts.
            "weight_layout": "hwio",
            "batch_per_device": self._shape[0],
        }

    def _layout(self) -> str:
        """Return the layout, which is the order of the axes here; ``either`` where sides and channels agree."""
        first, last = self._shape[1] == self._channels, self._shape[3] == self._channels
        if first and last:
            return "either"
        return "nchw" if first else "nhwc"
