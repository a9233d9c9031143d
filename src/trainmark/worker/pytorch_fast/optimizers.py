"""SGD, Adam and AdamW as torch has them, fused, and LAMB."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..core.optimizers import Moments
from ..core.settings import ADAM, LAMB, AdamRecipe, Recipe

Decays = Sequence[tuple[list[Any], float]]  # groups of parameters, each with its weight decay


def groups_of(decays: Decays) -> list[dict[str, Any]]:
    """Return the groups as torch takes them."""
    return [{"params": parameters, "weight_decay": decay} for parameters, decay in decays]


def sgd(decays: Decays, recipe: Recipe, fused: bool = True) -> torch.optim.Optimizer:
    """Return the SGD; a sparse gradient has no fused one."""
    groups, momentum, rate = groups_of(decays), recipe.momentum, recipe.learning_rate
    optimizer = torch.optim.SGD(groups, lr=rate, momentum=momentum, fused=fused, foreach=not fused)
    if not momentum:
        return optimizer
    # From the start and zero, which gives the same first update: torch would make the buffers in the first
    # step and leave them unset when loss scaling skips it.
    for parameter in (parameter for parameters, _ in decays for parameter in parameters):
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def adaptive(decays: Decays, recipe: AdamRecipe) -> torch.optim.Optimizer:
    """Return the recipe's optimizer: LAMB, or torch's AdamW or Adam, fused."""
    if recipe.optimizer == LAMB:
        return Lamb(decays, recipe)
    betas = (recipe.momentum, recipe.second_momentum)
    kind = torch.optim.Adam if recipe.optimizer == ADAM else torch.optim.AdamW
    return kind(groups_of(decays), lr=recipe.learning_rate, betas=betas, eps=recipe.epsilon, fused=True)


class LazyAdam(torch.optim.Optimizer):
    """Adam of the layers, fused, and torch's SparseAdam of tables: it leaves rows alone that have no gradient.

    SparseAdam adds epsilon to the root before that is corrected: it is given one that is corrected likewise, so that
    both are Adam with the recipe's.
    """

    def __init__(self, tables: Sequence[Any], others: Sequence[Any], recipe: AdamRecipe) -> None:
        rate, betas = recipe.learning_rate, (recipe.momentum, recipe.second_momentum)
        self._recipe, self._steps = recipe, 0
        self._parts = (
            torch.optim.SparseAdam(list(tables), lr=rate, betas=betas, eps=recipe.epsilon),
            adaptive([(list(others), 0.0)], recipe),
        )
        super().__init__([group for part in self._parts for group in part.param_groups], {"lr": rate})
        for part in self._parts:
            part.state = self.state

    def step(self, closure: Any = None) -> None:
        """Update the parameters, each part its own."""
        assert closure is None
        self._steps += 1
        for group in self._parts[0].param_groups:
            group["eps"] = self._recipe.epsilon * math.sqrt(1 - self._recipe.second_momentum**self._steps)
        for part in self._parts:
            part.step()


class Lamb(torch.optim.Optimizer):
    """LAMB of You et al. (https://arxiv.org/abs/1904.00962), by torch's operations over all tensors at once.

    A parameter that decays moves by the rate times ``norm(w) / norm(r)`` times r, with r Adam's direction and the
    decayed weight; one that does not decay moves as by Adam, as in the authors' program and NVIDIA's.
    """

    # The scaler of the loss hands over what it found as ``found_inf`` and ``grad_scale``, and reads nothing back.
    _step_supports_amp_scaling = True

    def __init__(self, decays: Decays, recipe: AdamRecipe) -> None:
        super().__init__(groups_of(decays), {"lr": recipe.learning_rate, "capturable": False, "steps": None})
        self._recipe = recipe

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update the parameters; nothing of it is read back to the host.

        Under a scaled loss everything is computed for a step that overflowed too, and changes nothing.
        """
        assert closure is None
        found, scale = getattr(self, "found_inf", None), getattr(self, "grad_scale", None)
        retained: Any = 1 if found is None else 1 - found
        for group in self.param_groups:
            self._update(group, retained, 1 if scale is None else 1 / scale, scaled=found is not None)

    def _update(self, group: dict[str, Any], retained: Any, unscaled: Any, *, scaled: bool) -> None:
        """Update a group: ``retained`` is 1, or 0 of a step that overflowed; gradients count ``unscaled`` times."""
        recipe, weights = self._recipe, group["params"]
        beta1, beta2 = recipe.momentum, recipe.second_momentum
        gradients = [weight.grad for weight in weights]
        for weight in weights:
            if not self.state[weight]:
                zeros = torch.zeros_like(weight)
                self.state[weight].update(step=0, exp_avg=zeros, exp_avg_sq=zeros.clone())
        if group["capturable"]:
            # A graph reads and writes where it was recorded.
            if group["steps"] is None:
                group["steps"] = torch.zeros((), device=weights[0].device)
            steps = group["steps"].add_(retained)
        else:
            steps = self.state[weights[0]]["step"] + retained
        for weight in weights:
            self.state[weight]["step"] = steps
        firsts = [self.state[weight]["exp_avg"] for weight in weights]
        seconds = [self.state[weight]["exp_avg_sq"] for weight in weights]
        if scaled:
            for gradient in gradients:
                gradient.nan_to_num_(0.0, 0.0, 0.0)
            torch._foreach_mul_(gradients, retained * unscaled)
            # Before the first step that is kept there is nothing to correct.
            steps = steps.clamp(min=1)
        torch._foreach_mul_(firsts, 1 - (1 - beta1) * retained)
        torch._foreach_add_(firsts, gradients, alpha=1 - beta1)
        torch._foreach_mul_(seconds, 1 - (1 - beta2) * retained)
        torch._foreach_addcmul_(seconds, gradients, gradients, 1 - beta2)
        roots = torch._foreach_mul(seconds, 1 / (1 - beta2**steps))
        torch._foreach_sqrt_(roots)
        torch._foreach_add_(roots, recipe.epsilon)
        directions = torch._foreach_mul(firsts, 1 / (1 - beta1**steps))
        torch._foreach_div_(directions, roots)
        if group["weight_decay"]:
            torch._foreach_add_(directions, weights, alpha=group["weight_decay"])
            own, theirs = (torch.stack(tuple(torch._foreach_norm(of))) for of in (weights, directions))
            ratios = torch.where((own > 0) & (theirs > 0), own / theirs, 1.0)
            torch._foreach_mul_(directions, list(ratios.unbind()))
        torch._foreach_mul_(directions, group["lr"] * retained)
        torch._foreach_sub_(weights, directions)


Read = Callable[[Mapping[str, Any]], dict[str, Any]]


def moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Any], read: Read) -> Moments | None:
    """Return what AdamW keeps of the parameters ``tensors``, as ``read`` returns it; None before its first step."""
    states = {name: optimizer.state.get(tensor) for name, tensor in tensors.items()}
    if not all(states.values()):
        return None
    return Moments(
        steps=steps_taken(optimizer),
        first=read({name: state["exp_avg"] for name, state in states.items() if state}),
        second=read({name: state["exp_avg_sq"] for name, state in states.items() if state}),
    )


def steps_taken(optimizer: torch.optim.Optimizer) -> int:
    """Return how many steps AdamW has counted, of the parameter that it has moved least often."""
    return min((int(state["step"]) for state in optimizer.state.values()), default=0)
