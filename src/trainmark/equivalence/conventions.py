"""Learning rate, momentum and decay, computed from the change of the weights in a step.

With u the update of a step (weights before less weights after), g the gradient of the loss, w the weights and p the
update of the step before, an SGD step with momentum is ``u = a p + l g + l d w``. For each parameter the three
coefficients are the least-squares solution over its elements; of l the median over the parameters counts, because a
parameter whose gradient is nearly zero determines nothing. The momentum is ``a l_before / l``: for an optimizer whose
velocity includes the rate, a itself would be the momentum, so such an optimizer shows as another momentum as soon as
the rate changes.

For an adaptive optimizer the worker reports a, the direction that the recipe requires, and the step is
``u = l a + l d w``. There is no momentum to solve for: an unexplained part of u was computed by another rule. LAMB has
a different l for each parameter that decays, l norm(w) / norm(a + d w); this factor is divided out first, and then one
rate must fit all parameters.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from trainmark.schema.observation import Observation, ObservedStep

DECAYS = 1e-3
"""A decay below this counts as none: recipes have at least 0.01, the checks 0.1."""

FLOOR = 1e-3
"""The least size, as a part of the joint norm, by which a gradient's or update's deviation is divided: smaller ones are
dominated by rounding."""


@dataclass(frozen=True, slots=True)
class Conventions:
    """The observed settings of an optimizer. ``momentum`` has one entry per step from the second on.

    ``decays`` is the decay of each parameter, from the first step. ``left`` is for each step the largest part of a
    parameter's update that an adaptive optimizer's rule does not explain, with that parameter; empty for SGD.
    """

    learning_rates: tuple[float, ...]
    momentum: tuple[float, ...]
    decays: Mapping[str, float]
    left: tuple[tuple[float, str], ...] = ()


def solve(observation: Observation, layerwise: bool = False) -> Conventions:
    """Return the conventions of an optimizer from the inner products of its three steps.

    With ``layerwise``, the adaptive optimizer scales the update of each parameter that decays, as LAMB does.
    """
    solved = [
        {name: _coefficients(moments) for name, moments in step.moments.items()} for step in observation.steps
    ]
    is_adaptive = all("aa" in moments for step in observation.steps for moments in step.moments.values())
    if layerwise:
        for step, found in zip(observation.steps, solved, strict=True):
            solved_layers(step.moments, found)
    rates = tuple(median(found["a" if is_adaptive else "g"] for found in step.values()) for step in solved)
    decays = {name: ratio(found["w"], rates[0]) for name, found in solved[0].items()}
    if is_adaptive:
        left = tuple(
            max(_left(step, found, layerwise), _spread(step, found, rate))
            for step, found, rate in zip(observation.steps, solved, rates, strict=True)
        )
        return Conventions(rates, (), decays, left)
    momentum = tuple(
        ratio(median(found["p"] for found in step.values()) * rates[index], rates[index + 1])
        for index, step in enumerate(solved[1:])
    )
    return Conventions(rates, momentum, decays)


def unclipped(observation: Observation) -> Observation | None:
    """Return the observation with the direction of unclipped gradients; None if the recipe does not clip them."""
    if not all("bb" in moments for step in observation.steps for moments in step.moments.values()):
        return None

    def renamed(moments: Mapping[str, float]) -> dict[str, float]:
        without_a = {key: value for key, value in moments.items() if "a" not in key}
        return {"".join(sorted(key.replace("b", "a"))): value for key, value in without_a.items()}

    steps = tuple(
        step.model_copy(update={"moments": {name: renamed(of) for name, of in step.moments.items()}})
        for step in observation.steps
    )
    return observation.model_copy(update={"steps": steps})


def solved_layers(moments: Mapping[str, Mapping[str, float]], solved: Mapping[str, dict[str, float]]) -> None:
    """Divide LAMB's factor out of the solved coefficients of each parameter that decays."""
    for name, found in solved.items():
        of, decay = moments[name], ratio(found["w"], found["a"])
        if not math.isfinite(decay) or abs(decay) < DECAYS:
            continue
        length = of["aa"] + 2 * decay * of["aw"] + decay**2 * of["ww"]
        factor = math.sqrt(of["ww"] / length) if of["ww"] > 0 and length > 0 else 1.0
        found.update(a=found["a"] / factor, w=found["w"] / factor, factor=factor)


def _spread(step: ObservedStep, solved: Mapping[str, Mapping[str, float]], rate: float) -> tuple[float, str]:
    """Return the largest relative deviation of a parameter's rate from the common rate, with that parameter.

    A parameter that does not move counts if the recipe would have moved it.
    """
    least = FLOOR * math.sqrt(sum(moments["uu"] for moments in step.moments.values()))

    def size(name: str, found: Mapping[str, float]) -> float:
        moved, required = (math.sqrt(step.moments[name][key]) for key in ("uu", "aa"))
        return max(moved, found.get("factor", 1.0) * rate * required)

    return max(
        (abs(ratio(found["a"], rate) - 1), name)
        for name, found in solved.items()
        if size(name, found) >= least
    )


def _left(
    step: ObservedStep, solved: Mapping[str, Mapping[str, float]], layerwise: bool
) -> tuple[float, str]:
    """Return the largest unexplained part of a parameter's update, with that parameter.

    For a parameter that hardly moves it is relative to a part of the joint update, because its own is rounding.
    """
    least = FLOOR * math.sqrt(sum(moments["uu"] for moments in step.moments.values()))

    def of(name: str, moments: Mapping[str, float]) -> float:
        factor = solved[name].get("factor", 1.0) if layerwise else 1.0
        explained = factor * sum(solved[name][key] * moments["".join(sorted((key, "u")))] for key in "aw")
        left = math.sqrt(max(moments["uu"] - explained, 0.0))
        size = max(math.sqrt(moments["uu"]), least)
        return left / size if size else 0.0

    return max((of(name, moments), name) for name, moments in step.moments.items())


def ratio(value: float, rate: float) -> float:
    """Return the quotient; infinite for a step that updated nothing, which no momentum or decay matches."""
    return value / rate if rate else math.inf


def _coefficients(moments: Mapping[str, float]) -> dict[str, float]:
    """Return the coefficients of p (if present), g and w in u; for an adaptive optimizer those of a and w."""
    sgd = ["p", "g", "w"] if "pu" in moments else ["g", "w"]
    names = ["a", "w"] if "aa" in moments else sgd

    def product(one: str, other: str) -> float:
        return moments["".join(sorted((one, other)))]

    matrix = np.array([[product(one, other) for other in names] for one in names])
    right = np.array([product(name, "u") for name in names])
    # The columns have very different lengths: scale them to 1, so that lstsq's cutoff depends on their directions only.
    scale = np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    solution, _, rank, _ = np.linalg.lstsq(matrix / np.outer(scale, scale), right / scale, rcond=1e-12)
    if rank == 1 and matrix.diagonal().all():
        # With one element, as in the bias of a single output, decay and rate cannot be separated.
        along = "a" if "a" in names else "g"
        whole = product(along, "u") / product(along, along)
        return dict.fromkeys(names, 0.0) | {along: whole}
    return dict(zip(names, (solution / scale).tolist(), strict=True))
