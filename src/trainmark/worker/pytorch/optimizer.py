"""SGD as torch has it, fused."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import torch

from ..core.settings import Recipe


def sgd(decays: Sequence[Tuple[List[Any], float]], recipe: Recipe) -> torch.optim.Optimizer:
    """Return the fused SGD of groups of parameters, each with its weight decay."""
    groups = [{"params": parameters, "weight_decay": decay} for parameters, decay in decays]
    optimizer = torch.optim.SGD(groups, lr=recipe.learning_rate, momentum=recipe.momentum, fused=True)
    # From the start and zero, which gives the same first update: torch would make the buffers in the first
    # step and leave them unset when loss scaling skips it.
    for parameter in (parameter for parameters, _ in decays for parameter in parameters):
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer
