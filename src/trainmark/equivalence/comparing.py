"""Comparison of the training steps of frameworks: each with the common description, and all pairs.

The checks here apply to every task; a task checks its own layers and outputs (``EqualWork``).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from typing import NamedTuple, Self

from trainmark.equivalence.conventions import FLOOR, Conventions, ratio, solve, unclipped
from trainmark.equivalence.golden import golden_of, golden_rounding
from trainmark.equivalence.inputs import NO_RULES, equal_work_of
from trainmark.equivalence.rounding import (
    Rounding,
    compare_rounded,
    described_rounded,
    follows_rounded,
    typical_rounding,
)
from trainmark.schema.certificate import Certificate, Check, CheckedVariant, Pair, Party, Subject
from trainmark.schema.observation import Followed, Observation, Sketch
from trainmark.schema.precision import Precision
from trainmark.tasks.equal_work import Deviation, EqualWork, check, finite, relative, relative_distance, worst
from trainmark.version import __version__
from trainmark.worker.core.optimizers import learning_rates
from trainmark.worker.core.settings import LAMB, AdamRecipe

USUAL_DECAY = 0.1
"""The decay in the checks of most tasks: the unit of a decay's deviation if the recipe has none."""


class Reference(NamedTuple):
    """The recipe of a check of equal work, and what frameworks' steps are compared with besides each other's.

    ``rules`` are the values of the task's fixed axes. ``golden`` is one more partner of each framework, and the only
    one in another ``precision`` than FP32; ``rounding`` is what the precision implies.
    """

    rules: Mapping[str, str] = NO_RULES
    precision: Precision = Precision.FP32
    golden: Observation | None = None
    rounding: Rounding | None = None

    @classmethod
    def of(cls, model: str, rules: Mapping[str, str], precision: Precision) -> Self:
        """Return the reference for a model; raise ``ValueError`` if the file of its golden observation is damaged."""
        return cls(rules, precision, golden_of(model, rules), golden_rounding(model, rules, precision))

    @property
    def low(self) -> Rounding | None:
        """The rounding of a precision below FP32; None in FP32."""
        return None if self.precision is Precision.FP32 else self.rounding

    def check_variant(
        self, base: Observation, steps: Followed, axes: Mapping[str, str], compiler: str
    ) -> CheckedVariant:
        """Return the check of a framework's ``steps`` in another variant.

        They are compared with its own steps in the ``base``, or in a low precision with the golden ones.
        """
        if self.golden is None or self.low is None:
            return follows(base, steps, axes, compiler)
        return follows_rounded(self.golden, steps, self.low, self.precision, axes, compiler)


FP32 = Reference()
"""The usual recipe in FP32, without a golden observation."""


def party(
    observation: Observation,
    axes: Mapping[str, str],
    version: str | None,
    device: str | None,
    variants: Sequence[CheckedVariant] = (),
    reference: Reference = FP32,
) -> Party:
    """Return the observed step of one framework with its checks against the common description and recipe.

    ``axes`` are the values of the task's variant axes in the observation. In another precision than FP32 the
    optimizer's settings are not solved, because rounding hides them.
    """
    task = equal_work_of(observation.model, reference.rules)
    conventions: Conventions | None = None
    if reference.low is None:
        conventions = solve(observation, _is_layerwise(task))
        checks = tuple(_against_the_description(observation, conventions, task))
    else:
        checks = tuple(described_rounded(observation, task, reference.low))
    return Party(
        framework=observation.framework,
        version=version,
        device=device,
        axes=axes,
        parameters=observation.parameters,
        multiply_adds=task.multiply_adds(observation),
        learning_rates=() if conventions is None else tuple(map(finite, conventions.learning_rates)),
        momentum=() if conventions is None else tuple(map(finite, conventions.momentum)),
        decaying=None if conventions is None else _decaying(conventions, task),
        losses=tuple(finite(step.loss) for step in observation.steps),
        reach=task.reach(observation),
        checks=checks,
        variants=tuple(variants),
    )


def _decaying(conventions: Conventions, task: EqualWork) -> int:
    """Return the number of parameters that decay."""
    return sum(decay > _whole_decay(task) / 2 for decay in conventions.decays.values())


def follows(
    base: Observation, observation: Followed, axes: Mapping[str, str], compiler: str
) -> CheckedVariant:
    """Return the checks of a framework's steps in another variant against its observed steps.

    The updates of all parameters and statistics and the losses are compared; equal geometry, rates, momentum and decay
    follow from that.
    """
    losses = zip(observation.step_losses, base.step_losses, strict=True)
    checks = (
        check(Subject.PARAMETERS, (abs(observation.parameters - base.parameters), None)),
        check(
            Subject.LOSS, worst((relative(one, other), f"step {i}") for i, (one, other) in enumerate(losses))
        ),
        check(Subject.UPDATE_NORM, worst(_totals(observation, base, "updates"))),
        check(Subject.UPDATES, worst(_sketches(observation, base, "updates"))),
        *equal_work_of(base.model).statistics(observation, base, same_framework=True),
    )
    return CheckedVariant(axes=axes, compiler=compiler, checks=checks)


def certify(
    model: str,
    observations: Sequence[Observation],
    parties: Sequence[Party],
    absent: Mapping[str, str],
    made_at: datetime,
    basis: str = "",
    reference: Reference = FP32,
) -> Certificate:
    """Return the certificate of the observed frameworks; ``absent`` has the reasons of the others."""
    task, golden = equal_work_of(model, reference.rules), reference.golden
    by_golden = [(one, golden) for one in observations if golden is not None]
    if reference.low is None:
        pairs = (
            *(compare(*pair) for pair in combinations(observations, 2)),
            *(compare_golden(*pair, reference.rounding) for pair in by_golden),
        )
    else:
        pairs = tuple(compare_rounded(*pair, reference.low, reference.precision) for pair in by_golden)
    return Certificate(
        trainmark_version=__version__,
        model=model,
        precision=reference.precision,
        reduced=task.reduction(model),
        made_at=made_at,
        batch=task.batch,
        axes=task.shape,
        rules=reference.rules,
        steps=min((len(observation.steps) for observation in observations), default=0),
        parties=tuple(parties),
        pairs=pairs,
        absent=dict(absent),
        basis=basis,
    )


def compare(one: Observation, other: Observation) -> Pair:
    """Return the checks of one framework's steps against another's."""
    task = equal_work_of(one.model)
    checks = (
        *task.forward(one, other),
        _check_losses(one, other),
        check(Subject.GRADIENT_NORM, worst(_totals(one, other, "gradients"))),
        check(Subject.GRADIENTS, worst(_sketches(one, other, "gradients"))),
        check(Subject.UPDATE_NORM, worst(_totals(one, other, "updates"))),
        check(Subject.UPDATES, worst(_sketches(one, other, "updates"))),
        *task.statistics(one, other, same_framework=False),
    )
    return Pair(frameworks=(one.framework, other.framework), checks=checks)


def compare_golden(one: Observation, golden: Observation, rounding: Rounding | None) -> Pair:
    """Return the checks of one framework's steps in FP32 against the golden observation's."""
    pair = compare(one, golden)
    if rounding is None:
        return pair
    return pair.model_copy(update={"checks": (*pair.checks, typical_rounding(one, golden, rounding))})


def _against_the_description(
    observation: Observation, found: Conventions, task: EqualWork
) -> Iterable[Check]:
    recipe = task.recipe
    yield _parameters(observation, task)
    yield from task.described(observation)
    yield _timed_step(observation)
    rates = learning_rates(recipe, len(observation.steps), task.epoch, task.batch)
    pairs = enumerate(zip(found.learning_rates, rates, strict=True))
    yield check(
        Subject.LEARNING_RATE, worst((relative(rate, planned), f"step {i}") for i, (rate, planned) in pairs)
    )
    if found.left:
        yield _update_rule(observation, found, task)
    else:
        momentum = [relative(value, recipe.momentum) for value in found.momentum]
        yield check(
            Subject.MOMENTUM,
            worst((off, f"step {i}") for i, off in enumerate(momentum, start=1)),
            None if all(off < 0.01 for off in momentum) else _momentum_remark(found, recipe.momentum),
        )
    yield check(Subject.DECAY, worst(_decays(found, task)))


def _parameters(observation: Observation, task: EqualWork) -> Check:
    more = observation.parameters - task.parameters(observation)
    if not more:
        return check(Subject.PARAMETERS, (0, None))
    remark = f"{abs(more):,} {'more' if more > 0 else 'fewer'} than the description has"
    known = task.known_additions(observation).get(more)
    return check(Subject.PARAMETERS, (abs(more), None), f"{remark}: {known}" if known else remark)


def _timed_step(observation: Observation) -> Check:
    """Return the check that the timed steps have the losses of the inspected ones, with a remark on the cause."""
    if len(observation.step_losses) < len(observation.steps):
        return check(Subject.TIMED_STEP, (math.inf, "a timed step has no loss"))
    pairs = [
        (timed, step.loss) for timed, step in zip(observation.step_losses, observation.steps, strict=False)
    ]
    found = check(Subject.TIMED_STEP, worst((relative(*pair), f"step {i}") for i, pair in enumerate(pairs)))
    if found.holds:
        return found
    again, first = observation.repeated_loss, observation.steps[0].loss
    if relative(again, first) > found.tolerance:
        remark = (
            "the step has a random part, such as dropout: two inspections with the same weights and batch have the "
            f"losses {again:.6g} and {first:.6g}"
        )
    else:
        index = next(i for i, pair in enumerate(pairs) if not relative(*pair) <= found.tolerance)
        remark = (
            "the timed step differs from the inspected one, or only it has a random part: the losses of step "
            "{} are {:.6g} and {:.6g}, while two inspections agree".format(index, *pairs[index])
        )
    return found.model_copy(update={"remark": remark})


def _whole_decay(task: EqualWork) -> float:
    return task.recipe.weight_decay or USUAL_DECAY


def _is_layerwise(task: EqualWork) -> bool:
    return isinstance(task.recipe, AdamRecipe) and task.recipe.optimizer == LAMB


def _update_rule(observation: Observation, found: Conventions, task: EqualWork) -> Check:
    def of(conventions: Conventions) -> Check:
        left = enumerate(conventions.left)
        return check(Subject.UPDATE_RULE, worst((part, f"{name}, step {i}") for i, (part, name) in left))

    result, layerwise = of(found), _is_layerwise(task)
    if not result.holds and of(solve(observation, not layerwise)).holds:
        rules = ("AdamW's, and not LAMB's", "LAMB's, and not AdamW's")
        return result.model_copy(update={"remark": f"the update is {rules[not layerwise]}"})
    other = None if result.holds else unclipped(observation)
    if other is not None and of(solve(other, layerwise)).holds:
        return result.model_copy(update={"remark": "the gradients are not clipped"})
    return result


def _momentum_remark(found: Conventions, expected: float) -> str:
    rates = found.learning_rates
    with_rate = [ratio(m * rates[i + 1], rates[i]) for i, m in enumerate(found.momentum)]
    if all(relative(m, expected) < 0.02 for m in with_rate):
        return "the velocity includes the learning rate, so the update differs whenever the rate changes"
    return f"{', '.join(f'{m:.4f}' for m in found.momentum)} instead of {expected}"


def _decays(found: Conventions, task: EqualWork) -> Iterable[Deviation]:
    """Yield the deviation of each parameter's decay, relative to the recipe's decay.

    If the recipe has no decay, it is relative to ``USUAL_DECAY``.
    """
    whole = _whole_decay(task)
    for name, decay in found.decays.items():
        expected = task.decay(name)
        yield abs(decay - expected) / whole, f"{name}: {decay:.2g} instead of {expected:g}"


LATER_LOSS = 1e-4
"""The tolerance of a later step's loss, which carries the rounding of the updates before it.

Of a language model of 28 layers it differed by 1.2e-5 on an Intel Xeon with AMX, and by less than 1e-5 on an AMD EPYC.
"""


def _check_losses(one: Observation, other: Observation) -> Check:
    """Return the check of the losses; of the first step's, unless a later one is nearer to its tolerance."""
    first, *later = (
        (relative(a.loss, b.loss), f"step {index}")
        for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=True))
    )
    checks = (check(Subject.LOSS, first), check(Subject.LOSS, worst(later), tolerance=LATER_LOSS))
    return max(checks, key=lambda each: each.deviation / each.tolerance)


def _totals(one: Followed, other: Followed, what: str) -> Iterable[Deviation]:
    """Yield the relative difference of the joint norms of all parameters' arrays."""
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
        norms = [math.hypot(*(sketch.norm for sketch in getattr(step, what).values())) for step in (a, b)]
        yield relative(norms[0], norms[1]), f"step {index}"


def _sketches(one: Followed, other: Followed, what: str) -> Iterable[Deviation]:
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
        left: Mapping[str, Sketch] = getattr(a, what)
        right: Mapping[str, Sketch] = getattr(b, what)
        least = FLOOR * math.hypot(*(sketch.norm for sketch in right.values()))
        for name, sketch in right.items():
            yield relative_distance(left[name], sketch, least), f"{name}, step {index}"
