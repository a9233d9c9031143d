"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Witness:
    """Watches the output of the network's second convolution, through a forward hook.

    The second, because its input has been through the stem: its type and layout are those of the network's
    inside. Under torch.compile the hook is compiled with the network and notes what the compiled step has; it must
    stay then, since taking it away would compile the network again.
    """

    def __init__(self, model: nn.Module) -> None:
        """Hook into the model, before it is wrapped or compiled."""
        self.dtype: Any = None
        self.batch = 0
        self.contiguous = False
        self.channels_last = False
        stem, second = [module for module in model.modules() if isinstance(module, nn.Conv2d)][:2]
        self._stem = stem
        self._hook = second.register_forward_hook(self._see)

    def _see(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        self.dtype = output.dtype
        self.batch = output.shape[0]
        self.contiguous = output.is_contiguous()
        self.channels_last = output.is_contiguous(memory_format=torch.channels_last)

    def leave(self) -> None:
        """Take the hook away."""
        self._hook.remove()

    def compute_dtype(self) -> str:
        """Return the type of the convolution's output, like ``bfloat16``."""
        return str(self.dtype).replace("torch.", "")

    def weight_dtype(self) -> str:
        """Return the type in which the stem's weights are kept."""
        return str(self._stem.weight.dtype).replace("torch.", "")

    def activation_layout(self) -> str:
        """Return ``nchw`` or ``nhwc``, or ``either`` for an image of one pixel, or ``neither``."""
        return _layout(self.contiguous, self.channels_last)

    def weight_layout(self) -> str:
        """Return the layout of the stem's weights in the same words."""
        weight = self._stem.weight
        return _layout(weight.is_contiguous(), weight.is_contiguous(memory_format=torch.channels_last))


def _layout(contiguous: bool, channels_last: bool) -> str:
    if contiguous and channels_last:
        return "either"
    if contiguous:
        return "nchw"
    return "nhwc" if channels_last else "neither"
