"""Verification of weight decay and learning rates against the recipe.

A decay of 3e-5 changes a weight a thousand times less than its gradient does, so that it does not show in the residual
of an update. But it changes all elements by the same share of their value, and the errors of the gradients do not:
over many elements its coefficient can be estimated, with a standard error. If that is too large, as often with
products of 16 bits, the decay is not checked.

The learning rates are compared with the recipe's schedule, which is written here once more.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from .settings import AdamRecipe, Recipe, Settings
from .task import Verified
from .training import Training
from .update_checks import Unexplained

STANDARD_ERRORS = 6.0
"""A deviation of fewer standard errors is no doubt."""

PART = 0.5
"""A deviation of a smaller part of the recipe's decay is no doubt; a decay must be known this well to be checked."""

OWN_GROUPS = {"classifier": "the classifier", "embedding": "the embedding"}
DECAYED, UNDECAYED = "the other parameters that decay", "the parameters that do not decay"


class _Estimate(NamedTuple):
    decay: float
    error: float


def check_decay(training: Training, settings: Settings, parameters: Mapping[str, Unexplained]) -> Verified:
    """Estimate the decay of each group of parameters (None: unknown), and doubt another one than the recipe's."""
    requested = settings.recipe.weight_decay
    groups: dict[str, dict[str, Unexplained]] = {}
    for name, parameter in parameters.items():
        groups.setdefault(_group(training, settings, name), {})[name] = parameter
    decays: dict[str, float | None] = {}
    found = Verified({"decay": decays})
    for group, members in sorted(groups.items()):
        estimate = _estimate(members)
        if estimate is None or not requested or STANDARD_ERRORS * estimate.error > PART * requested:
            decays[group] = None
            continue
        decays[group] = estimate.decay
        expected = training.task.decay(settings, next(iter(members)))
        if abs(estimate.decay - expected) > max(PART * requested, STANDARD_ERRORS * estimate.error):
            found.doubt(
                "decay-differs",
                f"The weight decay of {group} is {estimate.decay:.2g} instead of {expected:.2g}.",
            )
    return found


def _group(training: Training, settings: Settings, name: str) -> str:
    own = OWN_GROUPS.get(name.partition(".")[0])
    if training.task.decay(settings, name) <= 0:
        return UNDECAYED
    return own or DECAYED


def _estimate(members: Mapping[str, Unexplained]) -> "_Estimate | None":
    """Return the decay of a group: the mean of its parameters' estimates, weighted by their certainty.

    If they differ by more than their errors explain, the error of the mean is larger by that factor. An estimate's
    error is at least that by each element's residual without it (HC3: MacKinnon and White, "Some heteroskedasticity-
    consistent covariance matrix estimators", J. Econometrics 29, 1985).
    """
    import numpy as np

    estimates: list[_Estimate] = []
    for weights, rest in members.values():
        square = float(weights @ weights)
        if len(weights) < 4 or not square > 0 or not bool(np.isfinite(rest).all()):
            continue
        decay = float(weights @ rest) / square
        left = rest - decay * weights
        error = math.sqrt(float(left @ left) / (len(weights) - 1) / square)
        # One weight that is far larger than the others decides the decay alone, and then leaves no residual.
        without_it = left / np.maximum(1 - weights**2 / square, 1e-9)
        error = max(error, math.sqrt(float((weights * without_it) @ (weights * without_it))) / square)
        if error > 0:
            estimates.append(_Estimate(decay, error))
    if not estimates:
        return None
    certainty = sum(one.error**-2 for one in estimates)
    decay = sum(one.decay * one.error**-2 for one in estimates) / certainty
    spread = sum(((one.decay - decay) / one.error) ** 2 for one in estimates)
    factor = math.sqrt(max(1.0, spread / max(1, len(estimates) - 1)))
    return _Estimate(decay, factor / math.sqrt(certainty))


OFF = 1e-6
"""The allowed deviation of a rate, relative to the recipe's."""


def check_rates(training: Training, settings: Settings) -> Verified:
    """Report the rates of the first and the last measured step, and doubt a step with another rate."""
    recipe, rates = settings.recipe, training.rates[: settings.steps]
    epoch_steps = training.epoch_samples / (settings.batch_per_device * training.ranks.place.world_size)
    found = Verified({"rates": {"first": rates[0], "last": rates[-1]}})
    for step, rate in enumerate(rates):
        expected = scheduled_rate(recipe, step, epoch_steps)
        if abs(rate - expected) > OFF * abs(recipe.learning_rate):
            found.doubt(
                "rate-differs",
                f"The learning rate of step {step} is {rate:.3g}, but the recipe's schedule gives {expected:.3g}.",
            )
            break
    return found


def scheduled_rate(recipe: Recipe, step: int, epoch_steps: float) -> float:
    """Return the rate of a step: rising in the warm-up, then by the recipe's schedule; an epoch has ``epoch_steps``."""
    peak = recipe.learning_rate
    if isinstance(recipe, AdamRecipe) and step < recipe.warmup_updates:
        return peak / recipe.warmup_updates * step
    rising = round(epoch_steps * recipe.warmup_epochs)
    if step < rising:
        return peak / rising * (step + 1)
    epochs_done = step / epoch_steps
    if recipe.schedule == "cosine":
        falling = max(recipe.epochs - recipe.warmup_epochs, 1)
        angle = math.pi * min((epochs_done - recipe.warmup_epochs) / falling, 1.0)
        return peak * math.cos(angle / 2) ** 2
    if recipe.schedule == "linear":
        return peak * max(0.0, 1.0 - epochs_done / recipe.epochs)
    if recipe.schedule == "step":
        for milestone in (30, 60, 80):
            peak = peak / 10 if epochs_done >= milestone else peak
    return peak
