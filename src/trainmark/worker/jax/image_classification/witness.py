"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any, List, NamedTuple, Optional, Set, Tuple

import jax
from flax import linen as nn

from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.facts import Seen, layout_by_axes


class Witness:
    """Notes what the convolutions gave, while the step is called for the first time.

    The second one counts, because its input has been through the stem: its type is that of the network's inside. For
    a compiled step this is what was traced, and so what the program says; what XLA made of it stands in the text
    of the compiled program (``compiled_convolutions``).
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


class CompiledConvolutions(NamedTuple):
    """The forward convolutions in the program that XLA made: their type, and the order of their results in memory.

    Where they are not all alike, the words are joined by ``+``.
    """

    dtype: str
    layout: str


def compiled_convolutions(program: str) -> Optional[CompiledConvolutions]:
    """Return what the text of an optimised HLO program says of its forward convolutions, or None if it says nothing.

    ``%x = bf16[8,16,16,64]{3,2,1,0} convolution(...), dim_labels=b01f_01io->b01f, ... op_name="..."``: the type; the
    dimensions, the fastest in memory first; which dimension is the batch (b), the channels (f) and the image's (0, 1);
    where in the Python code it comes from, with ``transpose`` in what belongs to the backward pass. On a GPU it is a
    call of cuDNN with the same words, whose result is a pair.
    """
    dtypes: Set[str] = set()
    layouts: Set[str] = set()
    for line in program.splitlines():
        labels = re.search(r"dim_labels=\w+->(\w+)", line)
        shape = re.search(r"= \(?(\w+)\[[\d,]*\]\{([\d,]+)", line)
        origin = re.search(r'op_name="([^"]*)"', line)
        if labels is None or shape is None or origin is None or "transpose(" in origin.group(1):
            continue
        slowest_first = [labels.group(1)[int(axis)] for axis in shape.group(2).split(",")][::-1]
        dtypes.add(shape.group(1))
        layouts.add("".join({"b": "n", "f": "c", "0": "h", "1": "w"}[label] for label in slowest_first))
    return CompiledConvolutions("+".join(sorted(dtypes)), "+".join(sorted(layouts))) if dtypes else None
