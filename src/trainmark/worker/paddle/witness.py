"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

from typing import Any, List

from paddle import nn

from .networks import conv_norms


class Witness:
    """Watches the output of the network's second convolution, through a forward hook.

    The second, because its input has been through the stem: its type and layout are those of the network's inside.
    ``to_static`` calls the hook once, while it makes the program, with a value of that program: it has the type
    that the compiled step computes in.
    """

    def __init__(self, network: nn.Layer) -> None:
        """Hook into the network before it is compiled."""
        self._dtype = ""
        self._shape: List[int] = []
        self._stem, self._second = (unit.conv for unit in conv_norms(network)[:2])
        self._hook = self._second.register_forward_post_hook(self._see)

    def _see(self, _layer: nn.Layer, _inputs: Any, output: Any) -> None:
        self._dtype = dtype_name(output.dtype)
        self._shape = list(output.shape)

    def leave(self) -> None:
        """Take the hook away."""
        self._hook.remove()

    @property
    def batch(self) -> int:
        """Return the images that the convolution saw."""
        return self._shape[0]

    def compute_dtype(self) -> str:
        """Return the type of the convolution's output, like ``float16``."""
        return self._dtype

    def weight_dtype(self) -> str:
        """Return the type in which the stem's weights are kept."""
        return dtype_name(self._stem.weight.dtype)

    def activation_layout(self) -> str:
        """Return ``nchw`` or ``nhwc``: where the output's channels are. Paddle's tensors are always contiguous."""
        channels = self._second.weight.shape[0]
        found = [axis for axis, word in ((1, "nchw"), (3, "nhwc")) if self._shape[axis] == channels]
        words = {1: "nchw", 3: "nhwc"}
        return words[found[0]] if len(found) == 1 else str(self._second._data_format).lower()


def dtype_name(dtype: Any) -> str:
    """Return the name of a type of a tensor (``paddle.float32``) or of a program's value (``DataType.FLOAT32``)."""
    return str(dtype).rpartition(".")[2].lower()
