"""Verification of the weight decay: its coefficient, estimated from the part of an update that nothing else explains.

A decay of 3e-5 changes a weight a thousand times less than its gradient does, so that it does not show in the residual
of an update. But it changes all elements by the same share of their value, and the errors of the gradients do not:
over many elements its coefficient can be estimated, with a standard error. If that is too large, as often with
products of 16 bits, the decay is not checked.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from .training import Training

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
    asked = training.settings.recipe.weight_decay
    groups: dict[str, dict[str, Unexplained]] = {}
    for name, parameter in parameters.items():
        groups.setdefault(_group(training, name), {})[name] = parameter
    found: dict[str, Any] = {}
    doubts: list[tuple[str, str]] = []
    for group, members in sorted(groups.items()):
        estimate = _estimate(members)
        if estimate is None or not asked or STANDARD_ERRORS * estimate.error > PART * asked:
            found[group] = None
            continue
        found[group] = estimate.decay
        expected = training.task.decay(training.settings, next(iter(members)))
        if abs(estimate.decay - expected) > max(PART * asked, STANDARD_ERRORS * estimate.error):
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
