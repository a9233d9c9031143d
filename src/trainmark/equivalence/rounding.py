"""The comparison of steps in a low precision with the golden observation, by the rounding that the format implies.

A golden observation has the distance between the exact first step and one in which every operation is rounded to the
format's significant bits (``scripts/emulate_rounding.py``): for each layer's output, gradient and update. A sound
program rounds no more than that. What it deviates by is compared with that distance, never with other programs.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trainmark.equivalence.conventions import FLOOR
from trainmark.schema.certificate import Check, CheckedVariant, Pair, Subject
from trainmark.schema.frozen import Frozen
from trainmark.schema.observation import Followed, Observation, Sketch
from trainmark.schema.precision import Precision
from trainmark.tasks.equal_work import EqualWork, check, finite, relative, relative_distance

SIGNIFICANT_BITS: Mapping[Precision, int] = {
    Precision.AMP_BF16: 8,
    Precision.BF16: 8,
    Precision.AMP_FP16: 11,
    Precision.FP16: 11,
    Precision.TF32: 11,
    Precision.FP32: 24,
}
"""The significant bits of the formats in which products are computed, the implicit one included."""

NARROW_WEIGHTS = frozenset({Precision.BF16, Precision.FP16})
"""The precisions whose weights have 16 bits: most of an update is lost by rounding, so that none is compared."""

WORST = 5.0
"""The most by which one array may deviate, in units of its expected distance.

A sum with random signs of a rounding error is normally distributed, with the error's norm as standard deviation: one of
1.7 million exceeds five, and a certificate has some hundred.
"""

JOINT = 1.5
"""The most by which all arrays may deviate as a root mean square, in the same units.

The expectation is 1 for a program that rounds as often as the emulation, and less for one that rounds less. Of fifty
independent arrays the root mean square is within 10 % of it two times of three; 1.5 is five times that.
"""

TYPICAL = 64.0
"""The most by which half of the arrays may deviate in FP32, in the units of 24 significant bits.

The emulation rounds each result once. A sum of 4,096 terms in FP32, in another order, deviates by up to the root of
that. A layer in 16 bits deviates by some thousand, and so do all arrays that follow from it. The median, because one
value that turns at a ReLU moves a single array as far.
"""

HARDLY_ROUNDED = 0.05
"""Below this root mean square the products were not computed in the format."""

ALL = "all"
"""The name of the distance of all gradients, or updates, together."""

STRUCTURE = frozenset({Subject.LAYERS, Subject.GEOMETRY, Subject.MULTIPLY_ADDS, Subject.REACH})
"""The checks against the description that do not depend on the precision."""


class Rounding(Frozen):
    """The expected relative distances of a step in some format from the exact one, by name; ``logits`` have one."""

    activations: Mapping[str, float]
    logits: float
    loss: float
    gradients: Mapping[str, float]
    updates: Mapping[str, float]


class Deviating(NamedTuple):
    """The deviation of one array, and the distance that its format implies."""

    deviation: float
    expected: float
    where: str

    @property
    def units(self) -> float:
        """The deviation in units of the expected distance."""
        if not self.deviation:
            return 0.0
        return self.deviation / self.expected if self.expected else math.inf


def compare_rounded(
    observed: Observation, golden: Observation, rounding: Rounding, precision: Precision
) -> Pair:
    """Return the checks of a framework's first step in ``precision`` against the golden observation."""
    task = _task(observed)
    outputs, expected = task.outputs(observed), task.outputs(golden)
    activations = [
        Deviating(_distance(outputs.get(name), sketch), rounding.activations.get(name, 0.0), name)
        for name, sketch in expected.items()
    ]
    one, other = observed.steps[0], golden.steps[0]
    logits = Deviating(
        relative_distance(task.logits(observed), task.logits(golden)), rounding.logits, "step 0"
    )
    gradients = _parameters(one.gradients, other.gradients, rounding.gradients)
    checks = (
        _worst(Subject.ACTIVATIONS, activations),
        _worst(Subject.LOGITS, [logits]),
        _worst(Subject.LOSS, [Deviating(relative(one.loss, other.loss), rounding.loss, "step 0")]),
        _worst(Subject.GRADIENT_NORM, [_joint(one.gradients, other.gradients, rounding.gradients)]),
        _worst(Subject.GRADIENTS, gradients),
        *_updates(observed, golden, rounding, precision),
        _joint_rounding(
            [*activations, logits, *gradients] if task.signed_outputs else [logits, *gradients], precision
        ),
    )
    return Pair(frameworks=(observed.framework, golden.framework), checks=checks)


def typical_rounding(observed: Observation, golden: Observation, rounding: Rounding) -> Check:
    """Return the check of the median deviation of a first step in FP32, by the ``rounding`` of 24 bits."""
    task = _task(observed)
    one, other = observed.steps[0], golden.steps[0]
    outputs = task.outputs(observed)
    activations = [
        Deviating(_distance(outputs.get(name), sketch), rounding.activations.get(name, 0.0), name)
        for name, sketch in task.outputs(golden).items()
    ]
    found = [
        *(activations if task.signed_outputs else []),
        Deviating(
            relative_distance(task.logits(observed), task.logits(golden)), rounding.logits, "logits, step 0"
        ),
        *_parameters(one.gradients, other.gradients, rounding.gradients),
    ]
    middle = sorted(found, key=lambda deviating: deviating.units)[len(found) // 2]
    return Check(
        subject=Subject.ROUNDING, deviation=finite(middle.units), tolerance=TYPICAL, where=middle.where
    )


def follows_rounded(
    golden: Observation,
    observed: Followed,
    rounding: Rounding,
    precision: Precision,
    axes: Mapping[str, str],
    compiler: str,
) -> CheckedVariant:
    """Return the checks of the first step in another variant, in ``precision``, against the golden observation."""
    loss = Deviating(relative(observed.step_losses[0], golden.steps[0].loss), rounding.loss, "step 0")
    checks = (
        check(Subject.PARAMETERS, (abs(observed.parameters - golden.parameters), None)),
        _worst(Subject.LOSS, [loss]),
        *_updates(observed, golden, rounding, precision),
    )
    return CheckedVariant(axes=axes, compiler=compiler, checks=checks)


def described_rounded(observed: Observation, task: EqualWork, rounding: Rounding) -> Iterable[Check]:
    """Yield the checks of a step in a low precision by itself: layers, and the timed steps against the inspected."""
    off = abs(observed.parameters - task.parameters(observed))
    yield check(Subject.PARAMETERS, (off, None))
    yield from (found for found in task.described(observed) if found.subject in STRUCTURE)
    pairs = zip(observed.step_losses, (step.loss for step in observed.steps), strict=False)
    # Both have the rounding of the format; the steps also pass the batch in parts.
    expected = math.sqrt(2) * rounding.loss
    timed = [
        Deviating(relative(loss, inspected), expected, f"step {index}")
        for index, (loss, inspected) in enumerate(pairs)
    ]
    yield _worst(Subject.TIMED_STEP, timed)


def _updates(
    observed: Followed, golden: Observation, rounding: Rounding, precision: Precision
) -> Iterable[Check]:
    if precision in NARROW_WEIGHTS:
        return
    one, other = observed.steps[0].updates, golden.steps[0].updates
    yield _worst(Subject.UPDATE_NORM, [_joint(one, other, rounding.updates)])
    yield _worst(Subject.UPDATES, _parameters(one, other, rounding.updates))


def _task(observed: Observation) -> EqualWork:
    from trainmark.equivalence.inputs import equal_work_of

    return equal_work_of(observed.model)


def _distance(one: Sketch | None, other: Sketch) -> float:
    return math.inf if one is None else relative_distance(one, other)


def _parameters(
    one: Mapping[str, Sketch], other: Mapping[str, Sketch], expected: Mapping[str, float]
) -> list[Deviating]:
    least = FLOOR * math.hypot(*(sketch.norm for sketch in other.values()))
    return [
        Deviating(relative_distance(one[name], sketch, least), expected[name], name)
        for name, sketch in other.items()
    ]


def _joint(
    one: Mapping[str, Sketch], other: Mapping[str, Sketch], expected: Mapping[str, float]
) -> Deviating:
    norms = [math.hypot(*(sketch.norm for sketch in sketches.values())) for sketches in (one, other)]
    return Deviating(relative(norms[0], norms[1]), expected[ALL], "step 0")


def _worst(subject: Subject, found: Iterable[Deviating]) -> Check:
    """Return the check of the array that deviates most, in units of what is expected of it."""
    worst = max(found, key=lambda one: one.units if not math.isnan(one.units) else math.inf)
    return Check(
        subject=subject,
        deviation=finite(worst.deviation),
        tolerance=WORST * worst.expected,
        where=worst.where,
    )


def _joint_rounding(found: Iterable[Deviating], precision: Precision) -> Check:
    squares = [one.units**2 for one in found]
    size = math.sqrt(sum(squares) / len(squares))
    remark = None
    if size < HARDLY_ROUNDED:
        remark = f"hardly any rounding: the products were not computed in {precision.of_products.value}"
    return Check(subject=Subject.ROUNDING, deviation=finite(size), tolerance=JOINT, remark=remark)
