"""The ``precision`` axis in MindSpore: what is computed in which type."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

import mindspore as ms
from mindspore import amp, nn

from ..core.choices import one_of
from ..core.settings import Recipe


class Precision(NamedTuple):
    """``compute`` is the type of convolutions; weights are always kept in FP32.

    ``amp_level`` is that of ``auto_mixed_precision``. O2 computes all cells in ``compute``, but batch norm in FP32.
    ``scaled`` says that the loss is scaled so that gradients do not vanish in FP16.
    """

    compute: Any
    amp_level: str = "O0"
    scaled: bool = False


PRECISIONS: Dict[str, Precision] = {
    "fp32": Precision(ms.float32),
    "amp-fp16": Precision(ms.float16, amp_level="O2", scaled=True),
}


def choose_precision(name: str) -> Precision:
    """Return the precision; raise ``RunError`` for one that this worker does not have."""
    one_of("MindSpore's worker", "precision", name, PRECISIONS)
    return PRECISIONS[name]


def with_precision(model: nn.Cell, precision: Precision) -> nn.Cell:
    """Return the network that computes in the precision; its logits are FP32, its parameters the model's own."""
    return amp.auto_mixed_precision(model, precision.amp_level, ms.float16)


def loss_scaler(precision: Precision, recipe: Recipe) -> Optional[Any]:
    """Return the scaler of the loss, or None for a precision that needs none.

    The dynamic one starts and grows as torch's: 65536, doubled after 2000 steps without an overflow.
    """
    if not precision.scaled:
        return None
    if recipe.loss_scale is None:
        return amp.DynamicLossScaler(scale_value=2**16, scale_factor=2, scale_window=2000)
    return amp.StaticLossScaler(recipe.loss_scale)
