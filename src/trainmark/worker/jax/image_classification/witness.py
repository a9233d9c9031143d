"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, List, Tuple

import jax
from flax import linen as nn

from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.facts import Seen, layout_by_axes


class Witness:
    """Notes what the convolutions gave, while the step is called for the first time.

    The second one counts, because its input has been through the stem: its type is that of the network's inside. For
    a compiled step this is what was traced, and so what the program says; what XLA made of it stands in the text
    of the compiled program (``compiling.compiled_convolutions``).
    """

    def __init__(self, model: str) -> None:
        """Have seen nothing so far of the model of that name."""
        self._channels = ARCHITECTURES[model].convolutions[1].outputs
        self._outputs: List[Tuple[str, Tuple[int, ...]]] = []

    def watching(self) -> "AbstractContextManager[Any]":
        """Return the context in which Flax's layers are watched."""
        return nn.intercept_methods(self._see)

    def _see(self, call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        output = call(*args, **kwargs)
        if isinstance(context.module, nn.Conv) and context.method_name == "__call__":
            self._outputs.append((str(output.dtype), tuple(output.shape)))
        return output

    def told(self, weight: Any, **others: Any) -> Seen:
        """Return what was seen, with the type of ``weight`` and JAX's switch for products and convolutions."""
        dtype, shape = self._outputs[1] if len(self._outputs) > 1 else (None, ())
        tf32 = jax.config.jax_default_matmul_precision == "tensorfloat32"
        return Seen(
            compute_dtype=dtype,
            weight_dtype=str(weight.dtype),
            # The order of the axes in the program; in memory, XLA decides.
            activation_layout=layout_by_axes(shape, self._channels) if shape else None,
            # A kernel's axes have one order in Flax: height, width, inputs, outputs.
            weight_layout=None,
            batch_per_device=shape[0] if shape else None,
            tf32_matmul=tf32,
            tf32_convolution=tf32,
            unseen=("weight_layout",),
            others=others,
        )
