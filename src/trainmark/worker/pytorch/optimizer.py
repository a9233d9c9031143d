"""SGD and AdamW as torch has them, fused."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence, Tuple

import torch

from ..core.optimizers import Moments
from ..core.settings import AdamRecipe, Recipe
from . import weights


def sgd(decays: Sequence[Tuple[List[Any], float]], recipe: Recipe) -> torch.optim.Optimizer:
    """Return the fused SGD of groups of parameters, each with its weight decay."""
    groups = [{"params": parameters, "weight_decay": decay} for parameters, decay in decays]
    optimizer = torch.optim.SGD(groups, lr=recipe.learning_rate, momentum=recipe.momentum, fused=True)
    # From the start and zero, which gives the same first update: torch would make the buffers in the first
    # step and leave them unset when loss scaling skips it.
    for parameter in (parameter for parameters, _ in decays for parameter in parameters):
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def adamw(decays: Sequence[Tuple[List[Any], float]], recipe: AdamRecipe) -> torch.optim.Optimizer:
    """Return the fused AdamW of groups of parameters, each with its weight decay."""
    groups = [{"params": parameters, "weight_decay": decay} for parameters, decay in decays]
    betas = (recipe.momentum, recipe.second_momentum)
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=betas, eps=recipe.epsilon, fused=True)


def moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Any]) -> Optional[Moments]:
    """Return what AdamW keeps of the parameters ``tensors``; None before its first step."""
    states = {name: optimizer.state.get(tensor) for name, tensor in tensors.items()}
    if not all(states.values()):
        return None
    return Moments(
        steps=steps_taken(optimizer),
        first=weights.read({name: state["exp_avg"] for name, state in states.items() if state}),
        second=weights.read({name: state["exp_avg_sq"] for name, state in states.items() if state}),
    )


def steps_taken(optimizer: torch.optim.Optimizer) -> int:
    """Return how many steps AdamW has counted, of the parameter that it has moved least often."""
    return min((int(state["step"]) for state in optimizer.state.values()), default=0)
