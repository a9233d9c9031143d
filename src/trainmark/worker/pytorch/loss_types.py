"""The type of the logits that a loss is computed from, observed at PyTorch's own operations."""

from __future__ import annotations

from typing import Any, Dict

import torch
from torch.utils._python_dispatch import TorchDispatchMode

LOSSES = ("_log_softmax", "logsumexp", "binary_cross_entropy_with_logits")
"""The operators, without their overloads, that the losses of logits come down to."""


class LossTypes(TorchDispatchMode):
    """While it is entered, it notes the type of the operand of each of ``LOSSES``; a fused kernel shows none."""

    def __init__(self) -> None:
        """Start with no observation."""
        super().__init__()
        self.types: Dict[str, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do the operation, and note its operand's type."""
        if func.overloadpacket.__name__ in LOSSES and isinstance(args[0], torch.Tensor):
            self.types["softmax of the logits"] = str(args[0].dtype).replace("torch.", "")
        return func(*args, **(kwargs or {}))
