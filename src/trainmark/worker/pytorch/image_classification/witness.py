"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import nn

from ...tasks.image_classification.facts import Seen


class Witness:
    """Watches the output of the network's second convolution, through a forward hook.

    The second, because its input has been through the stem: its type and layout are those of the network's
    inside. Under torch.compile the hook is compiled with the network and notes what the compiled step has; it must
    stay then, since taking it away would compile the network again.
    """

    def __init__(self, model: nn.Module) -> None:
        """Hook into the model, before it is wrapped or compiled."""
        self.dtype: Any = None
        self.batch: Optional[int] = None
        self.contiguous = False
        self.channels_last = False
        stem, second = [module for module in model.modules() if isinstance(module, nn.Conv2d)][:2]
        self._stem = stem
        self._hook = second.register_forward_hook(self._see)

    def _see(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        self.dtype = output.dtype
        self.batch = output.shape[0]
        self.contiguous, self.channels_last = _orders(output)

    def leave(self) -> None:
        """Take the hook away."""
        self._hook.remove()

    def told(self, **others: Any) -> Seen:
        """Return what was seen, and torch's TF32 switches."""
        weight = self._stem.weight
        return Seen(
            compute_dtype=_name(self.dtype),
            weight_dtype=_name(weight.dtype),
            activation_layout=_layout(self.contiguous, self.channels_last),
            weight_layout=_layout(*_orders(weight)),
            batch_per_device=self.batch,
            tf32_matmul=bool(torch.backends.cuda.matmul.allow_tf32),
            tf32_convolution=bool(torch.backends.cudnn.allow_tf32),
            others=others,
        )


def _name(dtype: Any) -> Optional[str]:
    return None if dtype is None else str(dtype).replace("torch.", "")


def _orders(tensor: Any) -> Tuple[bool, bool]:
    """Return whether a tensor lies in memory in the order nchw, and whether in the order nhwc."""
    return tensor.is_contiguous(), tensor.is_contiguous(memory_format=torch.channels_last)


def _layout(contiguous: bool, channels_last: bool) -> str:
    if contiguous and channels_last:
        return "either"
    if contiguous:
        return "nchw"
    return "nhwc" if channels_last else "neither"
