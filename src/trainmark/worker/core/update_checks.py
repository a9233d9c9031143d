"""Checks of the updates after the window: sampled elements, weight decay, and learning rates.

The learning rates are compared with the recipe's schedule, which is written here once more.

A decay of 3e-5 changes a weight a thousand times less than its gradient does, so that it does not show in the residual
of an update. But it changes all elements by the same share of their value, and the errors of the gradients do not:
over many elements its coefficient can be estimated, with a standard error. If that is too large, as often with
products of 16 bits, the decay is not checked.
"""

import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .settings import AdamRecipe, Recipe, Settings
from .training import Training

SAMPLED = 32
"""The number of sampled elements of each parameter."""


def sampled(arrays: Mapping[str, Any], name: str, elements: int = SAMPLED) -> Any:
    """Return elements of a parameter, the same of every array of its name, in float64."""
    import numpy as np

    values = np.asarray(arrays[name]).reshape(-1)
    random = np.random.RandomState(zlib.crc32(name.encode()))
    return values[random.randint(0, values.size, elements)].astype(np.float64)


def averaged(training: Training, gradients: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the sampled elements of the gradients' mean over the ranks. All ranks call it."""
    import numpy as np

    own = np.concatenate([sampled(gradients, name) for name in names])
    bits = list(struct.unpack(f"<{own.size}q", own.tobytes()))
    ranks = [np.frombuffer(struct.pack(f"<{own.size}q", *part)) for part in training.gather(bits)]
    mean = sum(ranks) / len(ranks)
    return dict(zip(names, np.split(mean, len(names))))


ELEMENTS = 4096
"""Elements that are sampled of each parameter where gradients need not be exchanged."""

STANDARD_ERRORS = 6.0
"""A deviation of fewer standard errors is no doubt."""

PART = 0.5
"""A deviation of a smaller part of the recipe's decay is no doubt; a decay must be known this well to be checked."""

OWN_GROUPS = {"classifier": "the classifier", "embedding": "the embedding"}
DECAYED, UNDECAYED = "the other parameters that decay", "the parameters that do not decay"


class Unexplained(NamedTuple):
    """Elements of one parameter: its weights, and the update by the rate less what all but the decay explains."""

    weights: Any
    rest: Any


class _Estimate(NamedTuple):
    decay: float
    error: float


def check_decay(
    training: Training, parameters: Mapping[str, Unexplained]
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the estimated decay of each group of parameters for the events, and doubts; None if it is not known."""
    requested = training.settings.recipe.weight_decay
    groups: dict[str, dict[str, Unexplained]] = {}
    for name, parameter in parameters.items():
        groups.setdefault(_group(training, name), {})[name] = parameter
    found: dict[str, Any] = {}
    doubts: list[tuple[str, str]] = []
    for group, members in sorted(groups.items()):
        estimate = _estimate(members)
        if estimate is None or not requested or STANDARD_ERRORS * estimate.error > PART * requested:
            found[group] = None
            continue
        found[group] = estimate.decay
        expected = training.task.decay(training.settings, next(iter(members)))
        if abs(estimate.decay - expected) > max(PART * requested, STANDARD_ERRORS * estimate.error):
            sentence = f"The weight decay of {group} is {estimate.decay:.2g} instead of {expected:.2g}."
            doubts.append(("decay-differs", sentence))
    return {"decay": found}, doubts


def _group(training: Training, name: str) -> str:
    own = OWN_GROUPS.get(name.partition(".")[0])
    if training.task.decay(training.settings, name) <= 0:
        return UNDECAYED
    return own or DECAYED


def _estimate(members: Mapping[str, Unexplained]) -> "_Estimate | None":
    """Return the decay of a group: the mean of its parameters' estimates, weighted by their certainty.

    If they differ by more than their errors explain, the error of the mean is larger by that factor.
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


def check_rates(training: Training, settings: Settings) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the rates of the first and the last step for the events, and a doubt if a step has another rate."""
    recipe, steps = settings.recipe, settings.steps
    epoch_steps = training.epoch_samples / (settings.batch_per_device * training.ranks.place.world_size)
    rates = training.rates[:steps]
    report = {"first": rates[0], "last": rates[-1]}
    for step, rate in enumerate(rates):
        expected = scheduled_rate(recipe, step, epoch_steps)
        if abs(rate - expected) > OFF * abs(recipe.learning_rate):
            requested = f"but the recipe's schedule gives {expected:.3g}"
            sentence = f"The learning rate of step {step} is {rate:.3g}, {requested}."
            return {"rates": report}, [("rate-differs", sentence)]
    return {"rates": report}, []


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
