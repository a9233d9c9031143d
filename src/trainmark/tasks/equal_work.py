"""The interface of a task to the check of equal work: inputs, and checks of layers and outputs."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.schema.certificate import Check, Subject
from trainmark.schema.observation import Followed, Observation, Sketch
from trainmark.worker.core.settings import Recipe

Deviation = tuple[float, str | None]
"""A relative deviation, and its place."""

Range = tuple[float, float]
"""The lowest and the highest of some values."""

RECTIFIER: Range = (0.0, 6.0)
"""The input at which a ReLU bends, and the bound of ReLU6."""

REDUCED = "-reduced"
"""The ending of the name of a model's reduced form: the same layers, fewer and smaller, for the check alone."""

SMOOTH: Range = (-3.0, 6.0)
"""The interval in which GELU and SiLU bend; their other forms differ from them within it."""


@dataclass(frozen=True, slots=True)
class Forward:
    """The result of a described forward pass: sketches of each product's output and of the logits, and the loss.

    ``activated`` has the range of each activation's inputs, by the product that computes them.
    """

    products: Mapping[str, Sketch]
    logits: Sketch
    loss: float
    activated: Mapping[str, Range]


def range_of(values: NDArray[np.floating]) -> Range:
    """Return the lowest and the highest value."""
    return float(values.min()), float(values.max())


class EqualWork:
    """A task's part of the check; ``equivalence/`` has the part that all tasks share.

    ``batch`` and ``shape`` describe the inputs; ``epoch`` is the length of an epoch in samples.
    """

    batch: int
    shape: Mapping[str, int]
    epoch: int
    recipe: Recipe
    observation: type[Observation] = Observation

    def of(self, _model: str, _rules: Mapping[str, str]) -> "EqualWork":
        """Return the part for a model and values on the task's fixed axes; some have another recipe."""
        return self

    def form(self, model: str) -> str:
        """Return the name of the model whose steps are observed: this one, or its reduced form if it is large."""
        return model

    def reduction(self, _model: str) -> str:
        """Return the sizes of the reduced form in words; nothing if the model itself is observed."""
        return ""

    def inputs(self, model: str, seed: int) -> dict[str, NDArray[np.generic]]:
        """Return weights by the names that all frameworks share, and the arrays of the batch."""
        raise NotImplementedError

    def flags(self) -> Mapping[str, object]:
        """Return the task's own flags of the worker, without their dashes."""
        raise NotImplementedError

    def parameters(self, observed: Observation) -> int:
        """Return the number of trainable parameters of the described model."""
        raise NotImplementedError

    def known_additions(self, _observed: Observation) -> Mapping[int, str]:
        """Return known mistakes by the number of extra parameters that they cause."""
        return {}

    def multiply_adds(self, observed: Observation) -> int:
        """Return the multiply-adds of the forward pass of one sample, from the observed layers."""
        raise NotImplementedError

    def decay(self, name: str) -> float:
        """Return the recipe's weight decay of a parameter."""
        return self.recipe.weight_decay if self.decays(name) else 0.0

    def decays(self, _name: str) -> bool:
        """Return whether a parameter decays."""
        return True

    def described(self, observed: Observation) -> Iterable[Check]:
        """Yield the checks of the layers against the model's description."""
        raise NotImplementedError

    def reach(self, _observed: Observation) -> Range | None:
        """Return a range that the inputs of every activation cover; None if unknown."""
        return None

    signed_outputs = True
    """Whether ``outputs`` have sums with signs, not only norms."""

    def outputs(self, observed: Observation) -> Mapping[str, Sketch]:
        """Return the sketch of each layer's output in the first step."""
        raise NotImplementedError

    def logits(self, observed: Observation) -> Sketch:
        """Return the sketch of the logits in the first step."""
        raise NotImplementedError

    def forward(self, one: Observation, other: Observation) -> Iterable[Check]:
        """Yield the checks of two frameworks' layer outputs in the forward pass."""
        raise NotImplementedError

    def statistics(self, one: Followed, other: Followed, same_framework: bool) -> Iterable[Check]:  # noqa: ARG002
        """Return the checks of the running statistics, if the model has any; frameworks compute them differently."""
        return ()


TOLERANCES: Mapping[Subject, float] = {
    Subject.PARAMETERS: 0,
    Subject.LAYERS: 0,
    Subject.GEOMETRY: 0,
    Subject.MULTIPLY_ADDS: 0,
    Subject.ACTIVATIONS: 1e-4,
    Subject.LOGITS: 1e-4,
    Subject.LOSS: 1e-5,
    Subject.GRADIENT_NORM: 1e-3,
    Subject.UPDATE_NORM: 1e-3,
    # For one parameter: if rounding moves a value across a ReLU's zero, a single bias changes by some percent.
    Subject.GRADIENTS: 0.1,
    Subject.UPDATES: 0.1,
    Subject.BATCH_MEANS: 1e-3,
    Subject.BATCH_VARIANCES: 1e-3,
    Subject.TIMED_STEP: 1e-5,
    Subject.LEARNING_RATE: 5e-3,
    Subject.MOMENTUM: 1e-2,
    Subject.UPDATE_RULE: 1e-3,
    Subject.DECAY: 5e-2,
    Subject.REACH: 0,
}
"""The largest relative deviation that passes; 0 requires equality.

Far above the deviations of FP32 on the inputs (docs/explanation/equivalence.md has the measured ones), and far below
the effect of a mistake: a padding on the wrong side changes activations by some percent.
"""


def reached(ranges: Mapping[str, Range], bounds: Callable[[str], Range]) -> Check:
    """Return the check that the inputs of every activation reach both sides of its bend.

    ``bounds`` returns the interval in which an activation bends, by its name.
    """
    if not ranges:
        return check(Subject.REACH, (math.inf, None), "the inputs of the activations were not recorded")
    short = {
        name: (low, high)
        for name, (low, high) in ranges.items()
        if low >= bounds(name)[0] or high <= bounds(name)[1]
    }
    if not short:
        return check(Subject.REACH, (0, None))
    name, (low, high) = next(iter(short.items()))
    remark = f"gets values from {low:.3g} to {high:.3g} only: its behaviour elsewhere was not compared"
    return check(Subject.REACH, (len(short), name), remark)


def common_range(ranges: Mapping[str, Range]) -> Range | None:
    """Return the range that the inputs of every activation cover; None without activations."""
    lows, highs = [low for low, _ in ranges.values()], [high for _, high in ranges.values()]
    return (max(lows), min(highs)) if ranges else None


def check(
    subject: Subject, deviation: Deviation, remark: str | None = None, tolerance: float | None = None
) -> Check:
    """Return the check of a subject, by its tolerance or the given one."""
    return Check(
        subject=subject,
        deviation=finite(deviation[0]),
        tolerance=TOLERANCES[subject] if tolerance is None else tolerance,
        where=deviation[1],
        remark=remark,
    )


def compare_logits(steps: Iterable[tuple[Sketch, Sketch]]) -> Check:
    """Return the check of two frameworks' logits in each step."""
    found = ((relative_distance(one, other), f"step {index}") for index, (one, other) in enumerate(steps))
    return check(Subject.LOGITS, worst(found))


def first_off(deviations: Sequence[Deviation]) -> Deviation:
    """Return the first layer in forward order whose output is off by more than the tolerance, or else the worst."""
    off = (pair for pair in deviations if not pair[0] <= TOLERANCES[Subject.ACTIVATIONS])
    return next(off, worst(deviations))


def finite(value: float) -> float:
    """Return the value, or 1e300 for NaN and infinity, which JSON does not have."""
    return min(value, 1e300) if not math.isnan(value) else 1e300


def worst(deviations: Iterable[Deviation]) -> Deviation:
    """Return the largest deviation; NaN is larger than all."""
    return max(deviations, key=lambda pair: pair[0] if not math.isnan(pair[0]) else math.inf)


def relative(value: float, expected: float) -> float:
    """Return the deviation of a value relative to the expected one."""
    return abs(value - expected) / abs(expected) if expected else abs(value)


def relative_distance(one: Sketch, other: Sketch, least: float = 0.0) -> float:
    """Return the distance of two arrays relative to the second one's norm, or to ``least`` if that is more."""
    size = max(other.norm, least)
    return max(abs(one.norm - other.norm), abs(one.signed_sum - other.signed_sum)) / size if size else 0.0
