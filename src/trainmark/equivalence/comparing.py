"""Comparing the training steps of frameworks: each against the common description, and all pairs.

What holds for every task is here; what a task's layers and outputs are is its own (``EqualWork``).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import combinations

import trainmark
from trainmark.equivalence.conventions import FLOOR, Conventions, ratio, solve, unclipped
from trainmark.equivalence.inputs import NO_RULES, equal_work_of
from trainmark.schema.certificate import Certificate, Check, CheckedVariant, Pair, Party, Subject
from trainmark.schema.observation import Followed, Observation, Sketch
from trainmark.tasks.equal_work import Deviation, EqualWork, check, finite, relative, relative_distance, worst
from trainmark.worker.core.schedule import learning_rates
from trainmark.worker.core.settings import LAMB, AdamRecipe

USUAL_DECAY = 0.1
"""That of the checks of most tasks: what another decay is measured by where the recipe has none."""


def party(
    observation: Observation,
    axes: Mapping[str, str],
    version: str | None,
    device: str | None,
    variants: Sequence[CheckedVariant] = (),
    rules: Mapping[str, str] = NO_RULES,
) -> Party:
    """Return what one framework's step was seen to be, checked against the common description and recipe.

    ``axes`` are the values of the task's ``ways`` in which it was observed, ``rules`` those of its ``rules`` that the
    recipe has.
    """
    task = equal_work_of(observation.model, rules)
    conventions = solve(observation, _is_layerwise(task))
    return Party(
        framework=observation.framework,
        version=version,
        device=device,
        axes=axes,
        parameters=observation.parameters,
        multiply_adds=task.multiply_adds(observation),
        learning_rates=tuple(finite(rate) for rate in conventions.learning_rates),
        momentum=tuple(finite(value) for value in conventions.momentum),
        decaying=sum(decay > _whole_decay(task) / 2 for decay in conventions.decays.values()),
        losses=tuple(finite(step.loss) for step in observation.steps),
        reach=task.reach(observation),
        checks=tuple(_against_the_description(observation, conventions, task)),
        variants=tuple(variants),
    )


def follows(base: Observation, seen: Followed, axes: Mapping[str, str], compiler: str) -> CheckedVariant:
    """Return whether a framework's steps in another of its ways are those that were observed.

    What they do to every parameter and statistic, and the losses that they keep, are compared; geometry, rates,
    momentum and decay follow from that.
    """
    losses = zip(seen.step_losses, base.step_losses, strict=True)
    checks = (
        check(Subject.PARAMETERS, (abs(seen.parameters - base.parameters), None)),
        check(
            Subject.LOSS, worst((relative(one, other), f"step {i}") for i, (one, other) in enumerate(losses))
        ),
        check(Subject.UPDATE_NORM, worst(_totals(seen, base, "updates"))),
        check(Subject.UPDATES, worst(_sketches(seen, base, "updates"))),
        *equal_work_of(base.model).statistics(seen, base, same_framework=True),
    )
    return CheckedVariant(axes=axes, compiler=compiler, checks=checks)


def certify(
    model: str,
    observations: Sequence[Observation],
    parties: Sequence[Party],
    absent: Mapping[str, str],
    made_at: datetime,
    basis: str = "",
    rules: Mapping[str, str] = NO_RULES,
) -> Certificate:
    """Return the certificate of the frameworks that were observed, by the recipe with these ``rules``."""
    task = equal_work_of(model, rules)
    return Certificate(
        trainmark_version=trainmark.__version__,
        model=model,
        made_at=made_at,
        batch=task.batch,
        axes=task.shape,
        rules=rules,
        steps=min((len(observation.steps) for observation in observations), default=0),
        parties=tuple(parties),
        pairs=tuple(compare(one, other) for one, other in combinations(observations, 2)),
        absent=dict(absent),
        basis=basis,
    )


def compare(one: Observation, other: Observation) -> Pair:
    """Return how far the steps of two frameworks are apart."""
    task = equal_work_of(one.model)
    checks = (
        *task.forward(one, other),
        check(Subject.LOSS, worst(_losses(one, other))),
        check(Subject.GRADIENT_NORM, worst(_totals(one, other, "gradients"))),
        check(Subject.GRADIENTS, worst(_sketches(one, other, "gradients"))),
        check(Subject.UPDATE_NORM, worst(_totals(one, other, "updates"))),
        check(Subject.UPDATES, worst(_sketches(one, other, "updates"))),
        *task.statistics(one, other, same_framework=False),
    )
    return Pair(frameworks=(one.framework, other.framework), checks=checks)


def _against_the_description(seen: Observation, found: Conventions, task: EqualWork) -> Iterable[Check]:
    recipe = task.recipe
    yield _parameters(seen, task)
    yield from task.described(seen)
    yield _timed_step(seen)
    rates = learning_rates(recipe, len(seen.steps), task.epoch, task.batch)
    pairs = enumerate(zip(found.learning_rates, rates, strict=True))
    yield check(
        Subject.LEARNING_RATE, worst((relative(rate, asked), f"step {i}") for i, (rate, asked) in pairs)
    )
    if found.left:
        yield _update_rule(seen, found, task)
    else:
        momentum = [relative(value, recipe.momentum) for value in found.momentum]
        yield check(
            Subject.MOMENTUM,
            worst((off, f"step {i}") for i, off in enumerate(momentum, start=1)),
            None if all(off < 0.01 for off in momentum) else _momentum_remark(found, recipe.momentum),
        )
    yield check(Subject.DECAY, worst(_decays(found, task)))


def _parameters(seen: Observation, task: EqualWork) -> Check:
    more = seen.parameters - task.parameters(seen)
    if not more:
        return check(Subject.PARAMETERS, (0, None))
    told = f"{abs(more):,} {'more' if more > 0 else 'fewer'} than the description has"
    known = task.known_additions(seen).get(more)
    return check(Subject.PARAMETERS, (abs(more), None), f"{told}: {known}" if known else told)


def _timed_step(seen: Observation) -> Check:
    """Return whether the timed function's losses are those of the looks; where not, what is known of the reason."""
    if len(seen.step_losses) < len(seen.steps):
        return check(Subject.TIMED_STEP, (math.inf, "a step kept no loss"))
    pairs = [(kept, step.loss) for kept, step in zip(seen.step_losses, seen.steps, strict=False)]
    told = check(Subject.TIMED_STEP, worst((relative(*pair), f"step {i}") for i, pair in enumerate(pairs)))
    if told.holds:
        return told
    again, first = seen.repeated_loss, seen.steps[0].loss
    if relative(again, first) > told.tolerance:
        remark = (
            "the step has a random part, as dropout is: of two looks on the same weights and batch "
            f"the losses are {again:.6g} and {first:.6g}"
        )
    else:
        index = next(i for i, pair in enumerate(pairs) if not relative(*pair) <= told.tolerance)
        remark = (
            f"what is timed is not what was looked into, or has a random part that the look has not: of step {index} "
            "the losses are {:.6g} and {:.6g}, while two looks agree".format(*pairs[index])
        )
    return told.model_copy(update={"remark": remark})


def _whole_decay(task: EqualWork) -> float:
    return task.recipe.weight_decay or USUAL_DECAY


def _is_layerwise(task: EqualWork) -> bool:
    return isinstance(task.recipe, AdamRecipe) and task.recipe.optimizer == LAMB


def _update_rule(seen: Observation, found: Conventions, task: EqualWork) -> Check:
    def of(conventions: Conventions) -> Check:
        left = enumerate(conventions.left)
        return check(Subject.UPDATE_RULE, worst((part, f"{name}, step {i}") for i, (part, name) in left))

    told, asked = of(found), _is_layerwise(task)
    if not told.holds and of(solve(seen, not asked)).holds:
        rules = ("AdamW's, and not LAMB's", "LAMB's, and not AdamW's")
        return told.model_copy(update={"remark": f"the update is {rules[not asked]}"})
    other = None if told.holds else unclipped(seen)
    if other is not None and of(solve(other, asked)).holds:
        return told.model_copy(update={"remark": "the gradients are not clipped"})
    return told


def _momentum_remark(found: Conventions, asked: float) -> str:
    rates = found.learning_rates
    inside = [ratio(m * rates[i + 1], rates[i]) for i, m in enumerate(found.momentum)]
    if all(relative(m, asked) < 0.02 for m in inside):
        return "the learning rate is kept inside the velocity: the two differ as soon as the rate changes"
    return f"{', '.join(f'{m:.4f}' for m in found.momentum)} instead of {asked}"


def _decays(found: Conventions, task: EqualWork) -> Iterable[Deviation]:
    """Yield for each parameter how far its decay is from the recipe's, as a part of the recipe's.

    Where the recipe has none, as a part of ``USUAL_DECAY``.
    """
    whole = _whole_decay(task)
    for name, decay in found.decays.items():
        asked = task.decay(name)
        yield abs(decay - asked) / whole, f"{name}: {decay:.2g} instead of {asked:g}"


def _losses(one: Observation, other: Observation) -> Iterable[Deviation]:
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
        yield relative(a.loss, b.loss), f"step {index}"


def _totals(one: Followed, other: Followed, what: str) -> Iterable[Deviation]:
    """Yield how far the norms of all parameters' arrays together are apart."""
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
