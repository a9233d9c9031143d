"""SGD as OneFlow has it."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import oneflow as flow

from ..core.settings import Recipe


def sgd(decays: Sequence[Tuple[List[Any], float]], recipe: Recipe, device: Any) -> Any:
    """Return SGD of groups of parameters, each with its weight decay.

    With ``dampening`` 0 its update is w -= l v with v = m v + g + d w: the learning rate stands outside of the
    momentum, and the buffers begin at zero (``model_update_kernel_util.h``).
    """
    groups = [{"params": parameters, "weight_decay": decay} for parameters, decay in decays]
    fused = device.type == "cuda"
    return flow.optim.SGD(groups, lr=recipe.learning_rate, momentum=recipe.momentum, fused=fused)
