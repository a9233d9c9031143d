"""Learning rate, momentum and decay, solved from what a step did to the weights.

With u the update of a step (weights before less weights after), g the gradient of the loss, w the weights and p the
update of the step before, an SGD step with momentum is ``u = a p + l g + l d w``. For each parameter the three
coefficients are the least-squares solution over its elements; of l the median over the parameters counts, because a
parameter whose gradient is nearly zero determines nothing. The momentum is ``a l_before / l``: for an optimizer that
keeps the rate inside its velocity, a itself would be the momentum, so such a one shows as another momentum as soon as
the rate changes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from trainmark.words.observation import Observation


@dataclass(frozen=True, slots=True)
class Conventions:
    """What the optimizer was seen to do. ``momentum`` has an entry a step from the second on.

    ``decays`` is the decay of each parameter, from the first step.
    """

    learning_rates: tuple[float, ...]
    momentum: tuple[float, ...]
    decays: Mapping[str, float]


def solve(observation: Observation) -> Conventions:
    """Return the conventions of an optimizer from the inner products of its three steps."""
    solved = [
        {name: _coefficients(moments) for name, moments in step.moments.items()} for step in observation.steps
    ]
    rates = tuple(median(found["g"] for found in step.values()) for step in solved)
    momentum = tuple(
        ratio(median(found["p"] for found in step.values()) * rates[index], rates[index + 1])
        for index, step in enumerate(solved[1:])
    )
    decays = {name: ratio(found["w"], rates[0]) for name, found in solved[0].items()}
    return Conventions(rates, momentum, decays)


def ratio(value: float, rate: float) -> float:
    """Return the quotient; of a step that updated nothing it is infinite, which is no momentum and no decay."""
    return value / rate if rate else math.inf


def _coefficients(moments: Mapping[str, float]) -> dict[str, float]:
    """Return the coefficients of p (where there is one), g and w in u."""
    names = ["p", "g", "w"] if "pu" in moments else ["g", "w"]

    def product(one: str, other: str) -> float:
        return moments["".join(sorted((one, other)))]

    matrix = np.array([[product(one, other) for other in names] for one in names])
    right = np.array([product(name, "u") for name in names])
    # Columns of very different length: scaled to one, so that what is dropped as zero is so by direction.
    scale = np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    solution = np.linalg.lstsq(matrix / np.outer(scale, scale), right / scale, rcond=1e-12)[0] / scale
    return dict(zip(names, solution.tolist(), strict=True))
