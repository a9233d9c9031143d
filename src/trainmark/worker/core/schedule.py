"""The learning rate of every step: a linear warm-up, then cosine, steps, a line or a constant."""

import math

from .settings import AdamRecipe, Recipe

STEP_EPOCHS = (30, 60, 80)
"""Where the step schedule divides the rate by ten, as the 90-epoch recipes do."""


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
    per_epoch = epoch_samples / global_batch
    rising = recipe.warmup_updates if isinstance(recipe, AdamRecipe) else 0
    warmup = round(recipe.warmup_epochs * per_epoch)
    rates = [_rate(recipe, step, step / per_epoch, warmup) for step in range(steps)]
    first = [recipe.learning_rate * step / rising for step in range(min(steps, rising))]
    return first + rates[len(first) :]


def _rate(recipe: Recipe, step: int, epoch: float, warmup_steps: int) -> float:
    if step < warmup_steps:
        return recipe.learning_rate * ((step + 1) / warmup_steps)
    if recipe.schedule == "cosine":
        length = max(recipe.epochs - recipe.warmup_epochs, 1)
        done = min((epoch - recipe.warmup_epochs) / length, 1.0)
        return recipe.learning_rate * (1 + math.cos(math.pi * done)) / 2
    if recipe.schedule == "linear":
        return recipe.learning_rate * max(1 - epoch / recipe.epochs, 0.0)
    if recipe.schedule == "step":
        return recipe.learning_rate / 10 ** sum(epoch >= milestone for milestone in STEP_EPOCHS)
    return recipe.learning_rate
