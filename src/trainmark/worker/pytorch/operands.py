"""The types in which convolutions and products compute, seen at PyTorch's own operations."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = ("convolution", "_convolution", "addmm", "mm", "bmm", "baddbmm", "linear")
"""The operators, without their overloads, to which convolutions and linear layers come down."""


class OperandTypes(TorchDispatchMode):
    """While it is entered: for each module watched, the type of what went into its (last) convolution or product.

    A layer that turns its inputs to another type and its output back shows it here alone. What runs compiled is no
    operator of PyTorch and is not seen.
    """

    def __init__(self, modules: Sequence[Tuple[str, nn.Module]]) -> None:
        """Watch some modules by their names."""
        super().__init__()
        self._modules = modules
        self._inside: Optional[str] = None
        self.types: Dict[str, str] = {}

    @contextmanager
    def watching(self) -> Iterator["OperandTypes"]:
        """Return the context in which the modules are watched."""
        hooks: List[Any] = []
        for name, module in self._modules:
            hooks += [
                module.register_forward_pre_hook(self._entering(name)),
                module.register_forward_hook(self._left),
            ]
        try:
            with self:
                yield self
        finally:
            for hook in hooks:
                hook.remove()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do the operation; of a product inside of a module that is watched note the type."""
        if self._inside is not None and func.overloadpacket.__name__ in PRODUCTS:
            operand = next(
                value for value in args[::-1] if isinstance(value, torch.Tensor) and value.dim() > 1
            )
            self.types[self._inside] = str(operand.dtype).replace("torch.", "")
        return func(*args, **(kwargs or {}))

    def _entering(self, name: str) -> Any:
        def enter(_module: Any, _given: Any) -> None:
            self._inside = name

        return enter

    def _left(self, _module: Any, _given: Any, _output: Any) -> None:
        self._inside = None
