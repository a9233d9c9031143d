"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from paddle import nn

from ...tasks.image_classification.facts import Seen, layout_by_axes
from ..precision import tf32_seen, type_name
from .networks import conv_norms


class Witness:
    """Watches the output of the network's second convolution, through a forward hook.

    The second, because its input has been through the stem: its type and layout are those of the network's inside.
    ``to_static`` calls the hook once, while it makes the program, with a value of that program: it has the type
    that the compiled step computes in.
    """

    def __init__(self, network: nn.Layer) -> None:
        """Hook into the network before it is compiled."""
        self._dtype: Optional[str] = None
        self._shape: Tuple[int, ...] = ()
        self._second = conv_norms(network)[1]
        self._hook = self._second.conv.register_forward_post_hook(self._see)

    def _see(self, _layer: nn.Layer, _inputs: Any, output: Any) -> None:
        self._dtype = type_name(output.dtype)
        self._shape = tuple(output.shape)

    def told(self, **others: Any) -> Seen:
        """Return what was seen, and Paddle's TF32 switches; the hook is taken away.

        Paddle's tensors are contiguous, so that shapes tell the layout. Weights are (outputs, inputs, height, width)
        in either layout; how a convolution takes them cannot be seen.
        """
        self._hook.remove()
        shape = self._shape
        return Seen(
            compute_dtype=self._dtype,
            weight_dtype=type_name(self._second.conv.weight.dtype),
            activation_layout=layout_by_axes(shape, self._second.description.outputs) if shape else None,
            weight_layout=None,
            batch_per_device=shape[0] if shape else None,
            **tf32_seen(),
            unseen=("weight_layout",),
            others=others,
        )
