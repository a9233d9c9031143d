"""Comparing the training steps of frameworks: each against the common description, and all pairs.

Tolerances are far above what FP32 gives on the inputs of ``inputs.py`` (docs/equivalence.md has what was measured)
and far below what a mistake does: a padding on the wrong side moves activations by some percent.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import combinations

import trainmark
from trainmark.equivalence.conventions import Conventions, ratio, solve
from trainmark.equivalence.inputs import BATCH, EPOCH_IMAGES, IMAGE_SIZE, RECIPE
from trainmark.equivalence.observation import Followed, Observation, SeenConvolution, Sketch
from trainmark.words.certificate import Certificate, Check, Pair, Party, Subject, Variant
from trainmark.worker.core.schedule import learning_rates
from trainmark.worker.tasks.image_classification.architectures import (
    ARCHITECTURES,
    Convolution,
    is_batch_norm,
)

TOLERANCES: Mapping[Subject, float] = {
    Subject.PARAMETERS: 0,
    Subject.GEOMETRY: 0,
    Subject.MULTIPLY_ADDS: 0,
    Subject.ACTIVATIONS: 1e-4,
    Subject.LOGITS: 1e-4,
    Subject.LOSS: 1e-5,
    Subject.GRADIENT_NORM: 1e-3,
    Subject.UPDATE_NORM: 1e-3,
    # Of one parameter: a value that rounding tips over a ReLU's zero moves a single bias by some percent.
    Subject.GRADIENTS: 0.1,
    Subject.UPDATES: 0.1,
    Subject.BATCH_MEANS: 1e-3,
    Subject.BATCH_VARIANCES: 1e-3,
    Subject.TIMED_STEP: 1e-5,
    Subject.LEARNING_RATE: 5e-3,
    Subject.MOMENTUM: 1e-2,
    Subject.DECAY: 5e-2,
}
"""The largest relative deviation that passes; 0 asks for equality."""

FLOOR = 1e-3
"""A gradient smaller than this part of all gradients together is compared with that part: its own is rounding."""

Deviation = tuple[float, str | None]


def party(
    observation: Observation,
    layout: str,
    version: str | None,
    device: str | None,
    variants: Sequence[Variant] = (),
) -> Party:
    """Return what one framework's step was seen to be, checked against the common description and recipe."""
    conventions = solve(observation)
    return Party(
        framework=observation.framework,
        version=version,
        device=device,
        layout=layout,
        parameters=observation.parameters,
        multiply_adds=_multiply_adds(observation),
        learning_rates=tuple(_finite(rate) for rate in conventions.learning_rates),
        momentum=tuple(_finite(value) for value in conventions.momentum),
        decaying=sum(decay > RECIPE.weight_decay / 2 for decay in conventions.decays.values()),
        losses=tuple(_finite(step.loss) for step in observation.steps),
        checks=tuple(_against_the_description(observation, conventions)),
        variants=tuple(variants),
    )


def follows(base: Observation, seen: Followed, layout: str, compiler: str) -> Variant:
    """Return whether the steps of another layout or compiler of a framework are those that were observed.

    What they do to every parameter and statistic, and the losses that they keep, are compared; geometry, rates,
    momentum and decay follow from that.
    """
    losses = zip(seen.step_losses, base.step_losses, strict=True)
    checks = (
        _check(Subject.PARAMETERS, (abs(seen.parameters - base.parameters), None)),
        _check(
            Subject.LOSS,
            _worst((_relative(one, other), f"step {i}") for i, (one, other) in enumerate(losses)),
        ),
        _check(Subject.UPDATE_NORM, _worst(_totals(seen, base, "updates"))),
        _check(Subject.UPDATES, _worst(_sketches(seen, base, "updates", FLOOR))),
        _check(Subject.BATCH_MEANS, _worst(_of_statistics(seen, base, ".running_mean", _as_it_is))),
        _check(Subject.BATCH_VARIANCES, _worst(_of_statistics(seen, base, ".running_var", _as_it_is))),
    )
    return Variant(layout=layout, compiler=compiler, checks=checks)


def certify(
    model: str,
    observations: Sequence[Observation],
    parties: Sequence[Party],
    absent: Mapping[str, str],
    made_at: datetime,
    basis: str = "",
) -> Certificate:
    """Return the certificate of the frameworks that were observed."""
    return Certificate(
        trainmark_version=trainmark.__version__,
        model=model,
        made_at=made_at,
        batch=BATCH,
        image_size=IMAGE_SIZE,
        steps=min((len(observation.steps) for observation in observations), default=0),
        parties=tuple(parties),
        pairs=tuple(compare(one, other) for one, other in combinations(observations, 2)),
        absent=dict(absent),
        basis=basis,
    )


def compare(one: Observation, other: Observation) -> Pair:
    """Return how far the steps of two frameworks are apart."""
    checks = [
        _check(Subject.ACTIVATIONS, _activations(one, other)),
        _check(Subject.LOGITS, _worst(_logits(one, other))),
        _check(Subject.LOSS, _worst(_losses(one, other))),
        _check(Subject.GRADIENT_NORM, _worst(_totals(one, other, "gradients"))),
        _check(Subject.GRADIENTS, _worst(_sketches(one, other, "gradients", FLOOR))),
        _check(Subject.UPDATE_NORM, _worst(_totals(one, other, "updates"))),
        _check(Subject.UPDATES, _worst(_sketches(one, other, "updates", FLOOR))),
        _check(Subject.BATCH_MEANS, _worst(_means(one, other))),
        _variances(one, other),
    ]
    return Pair(frameworks=(one.framework, other.framework), checks=tuple(checks))


def _check(subject: Subject, deviation: Deviation, remark: str | None = None) -> Check:
    return Check(
        subject=subject,
        deviation=_finite(deviation[0]),
        tolerance=TOLERANCES[subject],
        where=deviation[1],
        remark=remark,
    )


def _finite(value: float) -> float:
    """Return the value; JSON has no NaN and no infinity, and what is none is the largest number there is."""
    return min(value, 1e300) if not math.isnan(value) else 1e300


def _worst(deviations: Iterable[Deviation]) -> Deviation:
    return max(deviations, key=lambda pair: pair[0] if not math.isnan(pair[0]) else math.inf)


def _relative(value: float, expected: float) -> float:
    return abs(value - expected) / abs(expected) if expected else abs(value)


# One framework against the description.


def _against_the_description(seen: Observation, found: Conventions) -> Iterable[Check]:
    architecture = ARCHITECTURES[seen.model]
    expected = architecture.parameters(seen.classes)
    yield _check(Subject.PARAMETERS, (abs(seen.parameters - expected), None))
    yield _geometry(seen.convolutions, architecture.convolutions)
    yield _check(Subject.MULTIPLY_ADDS, (abs(_multiply_adds(seen) - described_multiply_adds(seen)), None))
    timed = zip(seen.steps, seen.step_losses, strict=False)
    losses = [(_relative(kept, step.loss), f"step {i}") for i, (step, kept) in enumerate(timed)]
    complete = [(0.0, None)] if len(losses) == len(seen.steps) else [(math.inf, "a step kept no loss")]
    yield _check(Subject.TIMED_STEP, _worst([*losses, *complete]))
    rates = learning_rates(RECIPE, len(seen.steps), EPOCH_IMAGES, BATCH)
    yield _check(
        Subject.LEARNING_RATE,
        _worst(
            (_relative(rate, asked), f"step {i}")
            for i, (rate, asked) in enumerate(zip(found.learning_rates, rates, strict=True))
        ),
    )
    yield _check(
        Subject.MOMENTUM,
        _worst((_relative(m, RECIPE.momentum), f"step {i}") for i, m in enumerate(found.momentum, start=1)),
        None
        if all(_relative(m, RECIPE.momentum) < 0.01 for m in found.momentum)
        else _momentum_remark(found),
    )
    yield _check(Subject.DECAY, _worst(_decays(found)))


def _momentum_remark(found: Conventions) -> str:
    rates = found.learning_rates
    inside = [ratio(m * rates[i + 1], rates[i]) for i, m in enumerate(found.momentum)]
    if all(_relative(m, RECIPE.momentum) < 0.02 for m in inside):
        return "the learning rate is kept inside the velocity: the two differ as soon as the rate changes"
    return f"{', '.join(f'{m:.4f}' for m in found.momentum)} instead of {RECIPE.momentum}"


def _decays(found: Conventions) -> Iterable[Deviation]:
    """Yield for each parameter how far its decay is from the recipe's, as a part of the recipe's."""
    for name, decay in found.decays.items():
        asked = 0.0 if is_batch_norm(name) else RECIPE.weight_decay
        yield abs(decay - asked) / RECIPE.weight_decay, f"{name}: {decay:.2g} instead of {asked:g}"


def _geometry(seen: Sequence[SeenConvolution], described: Sequence[Convolution]) -> Check:
    if [conv.name for conv in seen] != [conv.name for conv in described]:
        return _check(Subject.GEOMETRY, (1, None), "the convolutions are not those of the description")
    wrong = [text for conv, like in zip(seen, described, strict=True) if (text := _difference(conv, like))]
    where = next(
        (conv.name for conv, like in zip(seen, described, strict=True) if _difference(conv, like)), None
    )
    return _check(Subject.GEOMETRY, (len(wrong), where), wrong[0] if wrong else None)


def _difference(seen: SeenConvolution, like: Convolution) -> str | None:
    """Return the first property in which a convolution is not the described one."""
    side = (like.padding, like.padding)
    expected = {
        "kernel": (like.kernel, like.kernel),
        "stride": (like.stride, like.stride),
        "padding": (side, side),
        "groups": like.groups,
    }
    for key, value in expected.items():
        if getattr(seen, key) != value:
            return f"{key} {getattr(seen, key)} instead of {value}"
    channels = seen.output[1]
    return None if channels == like.outputs else f"{channels} channels instead of {like.outputs}"


def _multiply_adds(seen: Observation) -> int:
    architecture = ARCHITECTURES[seen.model]
    inputs = {conv.name: conv.inputs // conv.groups for conv in architecture.convolutions}
    convolutions = sum(conv.multiply_adds(inputs.get(conv.name, 0)) for conv in seen.convolutions)
    return convolutions + architecture.features * seen.classes


def described_multiply_adds(seen: Observation) -> int:
    """Return the multiply-adds of the described network for one image of the check's size.

    Layers are followed from the input: each halving rounds as a symmetric padding of half the kernel does.
    """
    architecture = ARCHITECTURES[seen.model]
    total, side, at_block = 0, IMAGE_SIZE, IMAGE_SIZE
    for conv in architecture.convolutions:
        if conv.name.endswith((".a", ".shortcut")):
            at_block, side = (side, side) if conv.name.endswith(".a") else (at_block, at_block)
        side = (side + 2 * conv.padding - conv.kernel) // conv.stride + 1
        total += side * side * conv.outputs * (conv.inputs // conv.groups) * conv.kernel**2
        if conv.name == "stem" and seen.model.startswith("resnet"):
            side = (side + 2 - 3) // 2 + 1
    return total + architecture.features * seen.classes


# Two frameworks side by side.


def _activations(one: Observation, other: Observation) -> Deviation:
    """Return the first convolution whose output is off by more than the tolerance, or else the worst."""
    found = [
        (_relative(a.output_norm, b.output_norm) if a.output == b.output else math.inf, a.name)
        for a, b in zip(one.convolutions, other.convolutions, strict=False)
    ]
    if len(one.convolutions) != len(other.convolutions) or not found:
        return math.inf, "another number of convolutions"
    return next((pair for pair in found if not pair[0] <= TOLERANCES[Subject.ACTIVATIONS]), _worst(found))


def _logits(one: Observation, other: Observation) -> Iterable[Deviation]:
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
        left = [value for row in a.logits for value in row]
        right = [value for row in b.logits for value in row]
        if len(left) != len(right):
            yield math.inf, f"step {index}"
            continue
        yield math.dist(left, right) / math.hypot(*right), f"step {index}"


def _losses(one: Observation, other: Observation) -> Iterable[Deviation]:
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
        yield _relative(a.loss, b.loss), f"step {index}"


def _totals(one: Followed, other: Followed, what: str) -> Iterable[Deviation]:
    """Yield how far the norms of all parameters' arrays together are apart."""
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
        norms = [math.hypot(*(sketch.norm for sketch in getattr(step, what).values())) for step in (a, b)]
        yield _relative(norms[0], norms[1]), f"step {index}"


def _sketches(one: Followed, other: Followed, what: str, floor: float) -> Iterable[Deviation]:
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
        left: Mapping[str, Sketch] = getattr(a, what)
        right: Mapping[str, Sketch] = getattr(b, what)
        least = floor * math.hypot(*(sketch.norm for sketch in right.values()))
        for name, sketch in right.items():
            yield _apart(left[name], sketch, least), f"{name}, step {index}"


def _apart(one: Sketch, other: Sketch, least: float = 0.0) -> float:
    size = max(other.norm, least)
    return max(abs(one.norm - other.norm), abs(one.signed_sum - other.signed_sum)) / size if size else 0.0


def _means(one: Observation, other: Observation) -> Iterable[Deviation]:
    return _of_statistics(one, other, ".running_mean", _as_it_is)


def _as_it_is(_name: str) -> float:
    return 1.0


def _of_statistics(
    one: Followed, other: Followed, ending: str, factor: Callable[[str], float]
) -> Iterable[Deviation]:
    """Yield how far the batch statistics are apart, the first framework's multiplied by a factor of the layer."""
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
        for name, sketch in b.statistics.items():
            if name.endswith(ending):
                by, mine = factor(name), a.statistics[name]
                scaled = Sketch(norm=mine.norm * by, signed_sum=mine.signed_sum * by)
                yield _apart(scaled, sketch), f"{name}, step {index}"


def _variances(one: Observation, other: Observation) -> Check:
    """Compare the variances, allowing for the one convention that may differ, and saying so.

    Some frameworks keep the unbiased variance (divided by n - 1) in the running statistics, others the biased one
    (divided by n). Training uses the biased one everywhere; the running one is used in evaluation alone.
    """
    values = {
        f"{conv.name}.bn.running_var": conv.output[0] * conv.output[2] * conv.output[3]
        for conv in other.convolutions
    }

    def bessel(name: str) -> float:
        return values[name] / (values[name] - 1) if values.get(name, 0) > 1 else 1.0

    readings = [
        (None, _as_it_is),
        (f"{other.framework} keeps the unbiased variance, {one.framework} the biased one", bessel),
        (
            f"{one.framework} keeps the unbiased variance, {other.framework} the biased one",
            lambda name: 1 / bessel(name),
        ),
    ]
    checks = [
        _check(Subject.BATCH_VARIANCES, _worst(_of_statistics(one, other, ".running_var", factor)), remark)
        for remark, factor in readings
    ]
    return min(checks, key=lambda check: check.deviation)
