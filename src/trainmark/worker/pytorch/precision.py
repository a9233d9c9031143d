"""The ``precision`` axis in PyTorch: what is computed in which type, and what a device cannot do."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Dict, NamedTuple, Optional

import torch

from ..core.outcomes import UNSUPPORTED, RunError
from ..core.settings import Recipe
from .scaled_linear import OPERAND


class Precision(NamedTuple):
    """``compute`` is the type of products and of what goes into the network; ``weights`` that of their weights.

    With ``autocast`` the weights stay in FP32 and are cast for each use; without it they are kept in ``weights``.
    ``tf32`` lets FP32 matrix products and convolutions round their inputs to TF32. ``scaled`` says that the loss
    is scaled so that gradients do not vanish in FP16. ``fp8``: products of the blocks have FP8 operands.
    """

    compute: Any
    weights: Any
    autocast: bool = False
    tf32: bool = False
    scaled: bool = False
    fp8: bool = False

    @property
    def operands(self) -> Any:
        """The type of the operands of the blocks' matrix products."""
        return OPERAND if self.fp8 else self.compute


PRECISIONS: Dict[str, Precision] = {
    "fp32": Precision(torch.float32, torch.float32),
    "tf32": Precision(torch.float32, torch.float32, tf32=True),
    "amp-fp16": Precision(torch.float16, torch.float32, autocast=True, scaled=True),
    "amp-bf16": Precision(torch.bfloat16, torch.float32, autocast=True),
    "fp16": Precision(torch.float16, torch.float16, scaled=True),
    "bf16": Precision(torch.bfloat16, torch.bfloat16),
    "fp8": Precision(torch.bfloat16, torch.float32, autocast=True, fp8=True),
}


def type_name(dtype: Any) -> str:
    """Return the name of a type of torch's."""
    return str(dtype).replace("torch.", "")


def choose_precision(name: str, device: Any) -> Precision:
    """Return the precision and set torch's TF32 switches for it; raise ``RunError`` if the device lacks it."""
    precision = PRECISIONS[name]
    generation = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    needs_ampere = precision.tf32 or precision.compute is torch.bfloat16
    least = (9, 0) if precision.fp8 else (8, 0)
    if needs_ampere and generation is not None and generation < least:
        have, needed = (".".join(map(str, version)) for version in (generation, least))
        raise RunError(UNSUPPORTED, f"{name} needs compute capability {needed} or later; this GPU has {have}")
    # The older switches, because torch refuses a mixture and its own compiler reads these.
    torch.backends.cuda.matmul.allow_tf32 = precision.tf32
    torch.backends.cudnn.allow_tf32 = precision.tf32
    return precision


def autocast(precision: Precision, device: Any) -> "AbstractContextManager[Any]":
    """Return the context in which the forward pass and the loss run; it can be entered again and again."""
    if not precision.autocast:
        return nullcontext()
    return torch.autocast(device.type, dtype=precision.compute)


def loss_scaler(precision: Precision, recipe: Recipe, device: Any, kind: Any = torch.amp.GradScaler) -> Any:
    """Return the gradient scaler; for the precisions that do not scale, one that does nothing.

    ``kind`` is torch's scaler or one made of it. With a fixed scale it never grows. Together with the fused
    SGD it reads nothing back to the host: the kernel takes the scale and the overflow flag from the device.
    """
    fixed: Optional[float] = recipe.loss_scale
    if fixed is None:
        return kind(device.type, enabled=precision.scaled)
    return kind(device.type, init_scale=fixed, growth_interval=1_000_000_000, enabled=precision.scaled)
