"""The learning rate of every step, and the updates of adaptive optimizers in numpy.

Updates are computed from gradients here, to compare them with those of a framework's own optimizer.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .settings import AdamRecipe, Recipe

STEP_EPOCHS = (30, 60, 80)  # where the step schedule divides the rate by ten, as the 90-epoch recipes do


def learning_rates(recipe: Recipe, steps: int, epoch_samples: int, global_batch: int) -> list[float]:
    """Return the rate of each of the first ``steps`` steps, computed before training so that it costs nothing.

    The warm-up of step i (from 0) is ``rate * (i + 1) / warm-up steps``. After it, with ``e`` the epoch as a
    fraction: cosine ``rate * (1 + cos(pi * (e - w) / (epochs - w))) / 2`` (zero once the epochs are over),
    step ``rate / 10 ** (milestones passed)``, linear ``rate * (1 - e / epochs)``, or the constant rate. The cosine
    with a linear warm-up of 8 of 90 epochs and 0.256 for a batch of 256 is NVIDIA's ConvNets recipe
    (DGX1_RN50_AMP_90E.sh), which sets the rate each step as well. With ``warmup_updates`` the rate of step i before
    them is ``rate * i / warm-up updates``: with the linear schedule that is BERT's (google-research/bert,
    optimization.py).
    """
    per_epoch, peak = epoch_samples / global_batch, recipe.learning_rate
    rising = recipe.warmup_updates if isinstance(recipe, AdamRecipe) else 0
    warmup_steps = round(recipe.warmup_epochs * per_epoch)

    def rate(step: int) -> float:
        epoch = step / per_epoch
        if step < rising:
            return peak * step / rising
        if step < warmup_steps:
            return peak * ((step + 1) / warmup_steps)
        if recipe.schedule == "cosine":
            done = (epoch - recipe.warmup_epochs) / max(recipe.epochs - recipe.warmup_epochs, 1)
            return peak * (1 + math.cos(math.pi * min(done, 1.0))) / 2
        if recipe.schedule == "linear":
            return peak * max(1 - epoch / recipe.epochs, 0.0)
        if recipe.schedule == "step":
            return peak / 10 ** sum(epoch >= milestone for milestone in STEP_EPOCHS)
        return peak

    return [rate(step) for step in range(steps)]


class Moments(NamedTuple):
    """An optimizer's running means of gradients and of their squares after ``steps`` updates, by name."""

    steps: int
    first: Mapping[str, Any]
    second: Mapping[str, Any]


def adam(gradient: Any, first: Any, second: Any, step: int, recipe: AdamRecipe) -> tuple[Any, Any, Any]:
    """Return the direction of update ``step`` (from 1), and the moments after it."""
    first = recipe.momentum * first + (1 - recipe.momentum) * gradient
    second = recipe.second_momentum * second + (1 - recipe.second_momentum) * gradient**2
    return direction_of(first, second, step, recipe), first, second


def direction_of(first: Any, second: Any, step: int, recipe: AdamRecipe) -> Any:
    """Return the direction of update ``step`` from the moments after it.

    Kingma and Ba, https://arxiv.org/abs/1412.6980, algorithm 1, in its first form: epsilon is added to the root of the
    corrected second moment.
    """
    corrected = second / (1 - recipe.second_momentum**step)
    return first / (1 - recipe.momentum**step) / (np.sqrt(corrected) + recipe.epsilon)


def clipping(gradients: Mapping[str, Any], recipe: Recipe, norm: float | None = None) -> float:
    """Return by what all gradients are multiplied to be clipped, 1 if they are short; ``norm`` is theirs, if known."""
    if not isinstance(recipe, AdamRecipe) or recipe.clip_norm is None:
        return 1.0
    if norm is None:
        squares = (np.asarray(gradient, np.float64).ravel() for gradient in gradients.values())
        norm = float(np.sqrt(sum(values @ values for values in squares)))
    return min(1.0, recipe.clip_norm / norm) if norm else 1.0


class Directions:
    """The directions of each parameter's updates, from its gradients one after another."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._moments: dict[tuple[str, str], tuple[int, Any, Any]] = {}

    def next(self, name: str, gradient: Any, factor: float) -> dict[str, Any]:
        """Return the direction of a parameter's next update as ``a``, with the gradient clipped by ``factor``.

        As ``b`` that without clipping, where the recipe has it. Nothing where the optimizer is not adaptive.
        """
        recipe, found = self._recipe, {}
        if not isinstance(recipe, AdamRecipe):
            return {}
        for row, times in {"a": factor, **({} if recipe.clip_norm is None else {"b": 1.0})}.items():
            step, first, second = self._moments.get((row, name), (0, 0.0, 0.0))
            given = np.asarray(gradient, np.float64) * times
            found[row], first, second = adam(given, first, second, step + 1, recipe)
            # Of 100 million parameters these are gigabytes; FP32 is what the optimizers themselves keep.
            self._moments[row, name] = step + 1, np.asarray(first, np.float32), np.asarray(second, np.float32)
        return found
