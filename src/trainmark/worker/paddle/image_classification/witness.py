"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import paddle
from paddle import nn

from ...tasks.image_classification.facts import Seen, layout_by_axes
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
        self._dtype = _name(output.dtype)
        self._shape = tuple(output.shape)

    def told(self, **others: Any) -> Seen:
        """Return what was seen, and Paddle's TF32 switches; the hook is taken away.

        Paddle's tensors are contiguous, so that shapes tell the layout. Weights are (outputs, inputs, height, width)
        in either layout; how a convolution takes them cannot be seen.
        """
        self._hook.remove()
        shape, cuda, core = self._shape, paddle.device.is_compiled_with_cuda(), paddle.base.core
        return Seen(
            compute_dtype=self._dtype,
            weight_dtype=_name(self._second.conv.weight.dtype),
            activation_layout=layout_by_axes(shape, self._second.description.outputs) if shape else None,
            weight_layout=None,
            batch_per_device=shape[0] if shape else None,
            tf32_matmul=bool(core.get_cublas_switch()) if cuda else None,
            tf32_convolution=bool(core.get_cudnn_switch()) if cuda else None,
            unseen=("weight_layout",),
            others=others,
        )


def _name(dtype: Any) -> str:
    """Return the name of a type of a tensor (``paddle.float32``) or of a program's value (``DataType.FLOAT32``)."""
    return str(dtype).rpartition(".")[2].lower()
