"""Explanation of the gap between two numbers: the differences of their recipes, ranked by their known effects.

Effects multiply, so shares of a gap are computed on logarithms: a factor f accounts for ln f / ln(gap) of it. An effect
gets a share only if the run's own records show it, or if it was observed on the same device architecture, framework,
model and precision. An effect observed elsewhere is ranked by its size but gets no share: only its direction is known.
What the known factors leave of the gap is open, on whichever side of 1: if they claim more than the gap, another cause
works against them, or the evidence is too large here, and no share is then certain.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from trainmark.errors import InputError
from trainmark.insight.difference import (
    ACCOUNTING,
    RANKED,
    Basis,
    DifferenceOf,
    RecipeDifference,
)
from trainmark.insight.evidence import (
    Effect,
    Match,
    Nearness,
    Strength,
    matches,
    published_device_ratios,
    published_pairs,
)
from trainmark.insight.factors import Factor, factors_of
from trainmark.insight.measured_causes import own_causes
from trainmark.insight.physics import Limit, physical_limit
from trainmark.insight.programs import Change, change_of
from trainmark.insight.recipe import LOADING, Reading, StatedRecipe, recipe_of
from trainmark.insight.side_facts import FactDifference, machine_differences, program_differences
from trainmark.insight.sides import ExplainedRun, OtherSide
from trainmark.reference import Reference
from trainmark.schema.recipe import AxisName, AxisValue, Condition, RecipeAxis
from trainmark.tasks import all_axes, axes_of_model, same_model, same_unit

NO_GAP = 0.01
"""Two numbers that differ by less than this share count as equal, with nothing to explain."""


@dataclass(frozen=True, slots=True)
class Nearer:
    """A published figure of the same case whose recipe differs from the run's on fewer axes."""

    reference: Reference
    differences: tuple[AxisName, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The differences in the order of their effect, and the unexplained rest of the gap.

    ``ratio`` is the other side over the run. ``accounted`` is the factor explained by the runs' own records, by
    isolated and bundled evidence and by arithmetic; ``open`` is the rest (ratio / accounted). Both are (lowest,
    highest), and None without a throughput. ``factors`` are the ratio as a product, with what is open as the last.
    ``in_noise`` is true if the gap is no larger than ``noise``, the relative uncertainty of the two by their records
    and repeats. ``assumed_device`` is the other side's device if the run does not name its own. ``notes`` say how a
    unit was converted. ``per_device`` is the ratio of the rates of one device, if the numbers of devices differ.
    """

    run: ExplainedRun
    other: OtherSide
    ratio: float | None
    differences: tuple[RecipeDifference, ...]
    accounted: tuple[float, float] | None
    open: tuple[float, float] | None
    same: tuple[AxisName, ...]
    only_here: tuple[AxisName, ...]
    only_there: tuple[AxisName, ...]
    neither: tuple[AxisName, ...]
    nearer: tuple[Nearer, ...]
    assumed_device: str | None
    in_noise: bool = False
    noise: float = 0.0
    factors: tuple[Factor, ...] = ()
    notes: tuple[str, ...] = ()
    per_device: float | None = None

    @property
    def has_gap(self) -> bool:
        """True if the two numbers differ by more than their noise."""
        return _is_gap(self.ratio, self.noise)


def explain(
    run: ExplainedRun, other: OtherSide, effects: Sequence[Effect], figures: Iterable[Reference]
) -> Explanation:
    """Return the ranked differences between ``run`` and the other side.

    ``figures`` are the published figures searched for one with a more similar recipe. Raises ``InputError`` if the two
    have different models or units.
    """
    run, other, notes = _in_one_unit(run, other)
    run, other = replace(run, recipe=run.recipe.in_use()), replace(other, recipe=other.recipe.in_use())
    notes += tuple(
        f"{side.name} {side.unrepeated}: how far another run would differ is unknown"
        for side in (run, other.run)
        if side is not None and side.unrepeated is not None
    )
    _check_same_work(run, other)
    ratio = None
    if run.throughput is not None and other.throughput is not None:
        ratio = other.throughput / run.throughput
    noise = math.hypot(run.noise, 0.0 if other.run is None else other.run.noise)
    per_device = None if ratio is None else _per_device(ratio, run.recipe, other.recipe)
    in_noise = ratio is not None and not any(_is_gap(one, noise) for one in (ratio, per_device))
    figures, axes = tuple(figures), _compare_axes(run.recipe, other.recipe)
    differences = _differences(run, other, axes.differing, effects, figures)
    factors: tuple[Factor, ...] = ()
    if ratio is not None and not in_noise:
        differences = _sized(differences, run, other, ratio, noise)
        factors = factors_of(differences, ratio, noise)
    accounted = _accounted(differences) if ratio is not None else None
    here_device, there_device = (side.recipe.value(Condition.DEVICE) for side in (run, other))
    return Explanation(
        run=run,
        other=other,
        ratio=ratio,
        differences=tuple(differences),
        accounted=accounted,
        open=(ratio / accounted[1], ratio / accounted[0]) if ratio is not None and accounted else None,
        same=axes.same,
        only_here=axes.only_here,
        only_there=axes.only_there,
        neither=axes.neither,
        nearer=() if other.figure is None else _nearer(run, other.figure, len(axes.differing), figures),
        assumed_device=str(there_device) if there_device and not here_device else None,
        in_noise=in_noise,
        noise=noise,
        factors=factors,
        notes=(*notes, *(() if ratio is None else _unknown_devices(run, other))),
        per_device=per_device,
    )


def _is_gap(ratio: float | None, noise: float) -> bool:
    return ratio is not None and abs(ratio - 1) >= max(NO_GAP, noise)


@dataclass(frozen=True, slots=True)
class _Axes:
    """The axes of two recipes, by which of them states a value, and whether the values are equal."""

    differing: tuple[AxisName, ...]
    same: tuple[AxisName, ...]
    only_here: tuple[AxisName, ...]
    only_there: tuple[AxisName, ...]
    neither: tuple[AxisName, ...]


def _compare_axes(here: StatedRecipe, there: StatedRecipe) -> _Axes:
    axes = tuple(dict.fromkeys((*all_axes(), *here.readings, *there.readings)))
    both = [axis for axis in axes if axis in here.readings and axis in there.readings]
    differing = tuple(axis for axis in both if not _equal(axis, here, there))
    # What a program of no known model could have stated is unknown.
    model = there.value(Condition.MODEL) or here.value(Condition.MODEL)
    of_model = () if model is None else axes_of_model(str(model))
    return _Axes(
        differing,
        same=tuple(axis for axis in both if axis not in differing),
        only_here=tuple(axis for axis in axes if axis in here.readings and axis not in there.readings),
        only_there=tuple(axis for axis in axes if axis not in here.readings and axis in there.readings),
        neither=tuple(axis for axis in of_model if axis not in here.readings and axis not in there.readings),
    )


def _differences(
    run: ExplainedRun,
    other: OtherSide,
    differing: Sequence[AxisName],
    effects: Sequence[Effect],
    figures: tuple[Reference, ...],
) -> list[RecipeDifference]:
    """Return the differences of recipes, programs, machines and records, the largest known effect first."""
    here, there = run.recipe, other.recipe
    if other.figure is not None:
        effects = (*effects, *published_device_ratios(here, other.figure, figures))
    named = here.value(Condition.DEVICE) or there.value(Condition.DEVICE)
    device = str(named) if named else None
    of_recipes = [
        _difference(axis, run, there, device, (*effects, *_of_tables(axis, here, there, effects, figures)))
        for axis in differing
    ]
    of_facts = list(_fact_differences(run, other, commands=not differing))
    causes = own_causes(
        run,
        other,
        waits_counted=any(axis in LOADING for axis in differing),
        others_differ=any(found.basis is not Basis.REASONED for found in of_recipes)
        or any(found.of is DifferenceOf.PROGRAM for found in of_facts),
    )
    return sorted([*causes, *of_recipes, *of_facts], key=_weight)


def _sized(
    differences: Sequence[RecipeDifference], run: ExplainedRun, other: OtherSide, ratio: float, noise: float
) -> list[RecipeDifference]:
    """Return the differences with what is open as the effect of the only one left, and with their shares of a gap."""
    # Without the variation between runs, what differs between two runs may be chance.
    known = run.unrepeated is None and (other.run is None or other.run.unrepeated is None)
    one_result = known and other.run is not None and run.facts.took_turns_with(other.run.facts)
    has_gap = _is_gap(ratio, noise)
    found = _with_remainder(differences, ratio, noise, one_result=one_result)
    found = [replace(one, opposite=has_gap and _is_opposite(one, ratio)) for one in found]
    found = sorted(found, key=_weight)
    # Without a gap in total there is nothing to have a share of, though devices may differ.
    return _shared(found, ratio) if has_gap else found


def _unknown_devices(run: ExplainedRun, other: OtherSide) -> Iterator[str]:
    """Yield that the ratio may be one of devices, if just one side states how many it has."""
    stated = [side.recipe.value(Condition.DEVICES) for side in (run, other)]
    if stated.count(None) == 1:
        name = run.name if stated[0] is None else other.name
        known = next(count for count in stated if count is not None)
        yield (
            f"{name} does not state its number of devices, the other has {known}: a part of the ratio may be theirs "
            "(--gpus N)"
        )


def _per_device(ratio: float, here: StatedRecipe, there: StatedRecipe) -> float | None:
    """Return the ratio of the rates of one device; None if the sides have equally many, or do not state them."""
    one, other = here.value(Condition.DEVICES), there.value(Condition.DEVICES)
    if not isinstance(one, int) or not isinstance(other, int) or one == other:
        return None
    return ratio * one / other


def _in_one_unit(run: ExplainedRun, other: OtherSide) -> tuple[ExplainedRun, OtherSide, tuple[str, ...]]:
    """Return both sides in tokens/s if one counts tokens and the other sequences of a known length, with a note."""
    if (
        _counts_tokens(run.unit)
        and (found := _tokens(other.recipe, other.unit, other.throughput)) is not None
    ):
        rate, note = found
        text = f"{other.text} = {rate:.6g} {_TOKENS}"
        theirs = None if other.run is None else replace(other.run, throughput=rate, unit=_TOKENS)
        other = replace(other, throughput=rate, unit=_TOKENS, text=text, run=theirs)
        return run, other, (f"{other.name}: {note}",)
    if _counts_tokens(other.unit) and (found := _tokens(run.recipe, run.unit, run.throughput)) is not None:
        rate, note = found
        return replace(run, throughput=rate, unit=_TOKENS), other, (f"{run.name}: {note}",)
    return run, other, ()


_TOKENS = "tokens/s"


def _counts_tokens(unit: str | None) -> bool:
    return unit is not None and same_unit(unit, _TOKENS)


def _tokens(recipe: StatedRecipe, unit: str | None, rate: float | None) -> tuple[float, str] | None:
    """Return a rate of sequences as one of tokens, with the arithmetic; None for another unit or an unknown length."""
    length = recipe.value(RecipeAxis.SEQUENCE_LENGTH)
    if unit is None or rate is None or not isinstance(length, int) or not same_unit(unit, "sequences/s"):
        return None
    return rate * length, f"{rate:.6g} {unit} x {length} tokens of a sequence"


def _of_tables(
    axis: AxisName,
    here: StatedRecipe,
    there: StatedRecipe,
    effects: Sequence[Effect],
    figures: Sequence[Reference],
) -> Iterator[Effect]:
    """Yield what pairs of published figures show of an axis and no entry of the evidence does already."""
    known = {
        frozenset((one.before.reference, one.after.reference))
        for one in effects
        if one.before is not None and one.after is not None
    }
    for effect in published_pairs(axis, here, there, figures):
        assert effect.before is not None
        assert effect.after is not None
        if frozenset((effect.before.reference, effect.after.reference)) not in known:
            yield effect


def _fact_differences(run: ExplainedRun, other: OtherSide, *, commands: bool) -> Iterator[RecipeDifference]:
    """Yield the differences of programs and machines that two results recorded; their effects are unknown."""
    if other.run is None:
        return
    here, there = run.facts, other.run.facts
    frameworks = {side.recipe.value(Condition.FRAMEWORK) for side in (run, other.run)} - {None}
    programs = program_differences(here, there, commands=commands, one_framework=len(frameworks) < 2)
    for of, found in (
        (DifferenceOf.PROGRAM, programs),
        (DifferenceOf.MACHINE, machine_differences(here, there)),
    ):
        yield from (_of_fact(of, fact, run, other.run) for fact in found)


def _of_fact(
    of: DifferenceOf, fact: FactDifference, run: ExplainedRun, other: ExplainedRun
) -> RecipeDifference:
    """Return the difference of a fact; CPUs in use limit what a number of threads can explain."""
    readings = Reading(fact.here, fact.where), Reading(fact.there, fact.where)
    cores = run.facts.values("cores"), other.facts.values("cores")
    if "thread" not in fact.name.lower() or not all(cores) or run.facts.on_gpu:
        return RecipeDifference(fact.name, *readings, Basis.UNKNOWN, None, None, None, (), Change(), of)
    in_use = [sum(values) / len(values) for values in cores]
    factor = in_use[1] / in_use[0] if min(in_use) > 0 else 1.0
    sentence = (
        f"{in_use[0]:.2f} CPUs in use here and {in_use[1]:.2f} there, which is the limit of what threads do"
    )
    low, high = min(1.0, factor), max(1.0, factor)
    return RecipeDifference(fact.name, *readings, Basis.PHYSICS, low, high, None, (), Change(), of, sentence)


def _with_remainder(
    differences: Sequence[RecipeDifference], ratio: float, noise: float, *, one_result: bool
) -> list[RecipeDifference]:
    """Return the differences; what is open is the effect of a difference if that is the only one left.

    In ``one_result`` the runs of both sides took turns on one machine, so that this is a measurement.
    """
    found = list(differences)
    left = [
        number
        for number, one in enumerate(found)
        if (one_result or not one.is_sized)
        and one.basis is not Basis.REASONED
        and one.of is not DifferenceOf.RECORDS
    ]
    if one_result and len(left) == 1 and found[left[0]].axis not in LOADING:
        # What was measured here comes before what others measured elsewhere.
        found[left[0]] = replace(found[left[0]], basis=Basis.UNKNOWN, low=None, high=None)
    bounded_by_records = any(not one.is_sized and one.of is DifferenceOf.RECORDS for one in found)
    known = [math.sqrt(one.low * one.high) for one in found if one.is_sized and one.low and one.high]
    rest = ratio / math.prod(known)
    if len(left) != 1 or bounded_by_records or abs(math.log(rest)) <= max(NO_GAP, noise):
        return found
    only = found[left[0]]
    if only.basis in _LIMITED and not _within(rest, noise, only):
        return found
    measured = one_result and only.of is DifferenceOf.RECIPE
    found[left[0]] = replace(
        only,
        basis=Basis.OWN if measured else Basis.REMAINDER,
        low=rest * math.exp(-noise),
        high=rest * math.exp(noise),
        says="both are cases of one result, whose runs took turns, and nothing else differs"
        if measured
        else None,
    )
    return found


_LIMITED = (Basis.PHYSICS, Basis.BOUNDED, Basis.BUNDLED)


def _within(rest: float, noise: float, limited: RecipeDifference) -> bool:
    """Return whether a factor is within the limits of a difference, as far as the noise shows."""
    if limited.low is None or limited.high is None:
        return True
    return limited.low * math.exp(-noise) <= rest <= limited.high * math.exp(noise)


def _shared(differences: Sequence[RecipeDifference], ratio: float) -> list[RecipeDifference]:
    """Return the differences with their shares of the gap; the lower ends sum to at most 1.

    If the known effects claim more than the gap, none of them is certain to have any part of it.
    """
    counted = {*ACCOUNTING, Basis.BOUNDED, Basis.REMAINDER}
    spans = {
        number: _share((found.low, found.high), ratio)
        for number, found in enumerate(differences)
        if found.low is not None and found.high is not None and found.basis in counted
    }
    least = {
        number: max(low, 0.0) if differences[number].is_sized else 0.0 for number, (low, _) in spans.items()
    }
    if sum(least.values()) > 1 + _ROUNDING:
        least = dict.fromkeys(least, 0.0)
    total = sum(least.values())
    shared = list(differences)
    for number, (_, high) in spans.items():
        if high > 0:  # else it has the opposite effect
            most = max(least[number], min(high, 1 - (total - least[number])))
            shared[number] = replace(differences[number], share=(min(1.0, least[number]), min(1.0, most)))
    return shared


_ROUNDING = 5e-3
"""A sum of shares above 1 by less is that of numbers as printed."""


def _check_same_work(run: ExplainedRun, other: OtherSide) -> None:
    if run.unit is not None and other.unit is not None and not same_unit(run.unit, other.unit):
        raise InputError(f"{run.name} is in {run.unit}, but {other.name} is in {other.unit}")
    here, there = run.recipe.value(Condition.MODEL), other.recipe.value(Condition.MODEL)
    if here is not None and there is not None and not _may_be_one(here, there):
        kind = "is for" if other.figure is not None else "trains"
        raise InputError(f"{run.name} trains {here}, but {other.name} {kind} {there}")


def _may_be_one(model: AxisValue, other: AxisValue) -> bool:
    """Return whether two names may mean one model: ``bert`` has any size, ``bert-base-uncased`` is a ``bert_base``."""
    words, other_words = (re.split(r"[-_]", str(name).partition("_v")[0]) for name in (model, other))
    shared = min(len(words), len(other_words))
    return same_model(model, other) or (
        len(words) != len(other_words) and words[:shared] == other_words[:shared]
    )


def _equal(axis: AxisName, one: StatedRecipe, other: StatedRecipe) -> bool:
    here, there = one.value(axis), other.value(axis)
    if axis == Condition.MODEL and here is not None and there is not None:
        return _may_be_one(here, there)
    if axis == RecipeAxis.LOADER and "dali" in (here, there):
        return str(here).startswith("dali") and str(there).startswith("dali")
    numbers = (int, float)
    if isinstance(here, numbers) and isinstance(there, numbers):
        return math.isclose(here, there, rel_tol=1e-6)
    return here == there


def _difference(
    axis: AxisName,
    run: ExplainedRun,
    there: StatedRecipe,
    device: str | None,
    effects: Sequence[Effect],
) -> RecipeDifference:
    found = matches(effects, axis, run.recipe, there, device)
    limit = physical_limit(axis, run.recipe, there, device)
    basis, span = _basis(axis, found, run.data_wait, limit)
    implied = _follows_from_devices(axis, run.recipe, there) if span is None else None
    if implied is not None:
        basis = Basis.REASONED
    return RecipeDifference(
        axis=axis,
        here=run.recipe.readings[axis],
        there=there.readings[axis],
        basis=basis,
        low=span[0] if span else None,
        high=span[1] if span else None,
        share=None,
        evidence=found,
        change=change_of(axis, run.recipe, there),
        says=limit.sentence if limit is not None and basis is Basis.PHYSICS else implied,
    )


_PER_DEVICE = (RecipeAxis.GLOBAL_BATCH, RecipeAxis.DATA_PARALLEL, RecipeAxis.FSDP_SHARDS)
"""Axes that grow with the number of devices if each device does the same."""


def _follows_from_devices(axis: AxisName, here: StatedRecipe, there: StatedRecipe) -> str | None:
    """Return a sentence if the values of an axis differ only because the numbers of devices do; None otherwise."""
    values = here.value(axis), there.value(axis)
    devices = here.value(Condition.DEVICES), there.value(Condition.DEVICES)
    if axis not in _PER_DEVICE or not all(isinstance(one, int) and one > 0 for one in (*values, *devices)):
        return None
    each = [float(value or 0) / float(count or 1) for value, count in zip(values, devices, strict=True)]
    if devices[0] == devices[1] or not math.isclose(each[0], each[1]):
        return None
    return f"It follows from the number of devices: {each[0]:g} a device on both sides."


def _basis(
    axis: AxisName, found: Sequence[Match], data_wait: float | None, limit: Limit | None
) -> tuple[Basis, tuple[float, float] | None]:
    if axis in LOADING and data_wait is not None:
        return Basis.BOUNDED, (1.0, 1 / (1 - data_wait))
    for basis, strengths in (
        (Basis.ISOLATED, (Strength.ISOLATED, Strength.CLAIMED)),
        (Basis.BUNDLED, (Strength.BUNDLED,)),
    ):
        for nearness in (Nearness.SAME, Nearness.NEAR):
            chosen = [m for m in found if m.nearness is nearness and m.effect.strength in strengths]
            if chosen:
                return basis, _span(chosen)
    if limit is not None:
        return Basis.PHYSICS, (limit.low, limit.high)
    measured = [match for match in found if match.low is not None]
    if measured:
        nearest = max(match.nearness for match in measured)
        return Basis.ELSEWHERE, _span(match for match in measured if match.nearness is nearest)
    return (Basis.REASONED if found else Basis.UNKNOWN), None


def _span(found: Iterable[Match]) -> tuple[float, float]:
    ends = [end for match in found for end in (match.low, match.high) if end is not None]
    return min(ends), max(ends)


def _share(span: tuple[float, float], ratio: float) -> tuple[float, float]:
    shares = sorted(math.log(end) / math.log(ratio) for end in span)
    return shares[0], shares[1]


def _is_opposite(difference: RecipeDifference, ratio: float) -> bool:
    """Return whether an effect of known size or limit is against the gap."""
    ends = [end for end in (difference.low, difference.high) if end]
    return bool(ends) and all(math.log(end) * math.log(ratio) <= 0 for end in ends) and set(ends) != {1.0}


def _weight(difference: RecipeDifference) -> tuple[int, float, int, int, str]:
    """Return the sort key: effects of known size first, by size; then unknown ones, by their subject.

    Effects against the gap come last but for those that nobody measured because no work changes.
    """
    basis = list(Basis).index(difference.basis)
    ends = [end for end in (difference.low, difference.high) if end]
    size = max((abs(math.log(end)) for end in ends), default=0.0)
    subject = list(DifferenceOf).index(difference.of)
    group = 3 if difference.basis is Basis.REASONED else 0 if difference.basis in RANKED else 1
    group = 2 if difference.opposite else group
    return group, -size, basis, subject, difference.axis


def _accounted(differences: Iterable[RecipeDifference]) -> tuple[float, float]:
    """Return the explained factor: the product of the effects of known size."""
    sized = [
        (found.low, found.high)
        for found in differences
        if found.is_sized and found.low is not None and found.high is not None
    ]
    return math.prod(low for low, _ in sized), math.prod(high for _, high in sized)


def _nearer(
    run: ExplainedRun, reference: Reference, count: int, others: Iterable[Reference]
) -> tuple[Nearer, ...]:
    """Return figures of the reference's case, device and program whose recipes are closer to the run's."""
    return tuple(
        Nearer(other, differences)
        for other in others
        if other.id != reference.id
        and other.value is not None
        and _case(other) == _case(reference)
        and other.software.program == reference.software.program
        and other.recipe
        and len(differences := tuple(_contradictions(run.recipe, recipe_of(other)))) < count
    )


def _case(reference: Reference) -> tuple[object, ...]:
    hardware = reference.hardware
    return (
        reference.framework,
        reference.model,
        reference.precision,
        reference.devices,
        reference.nodes,
        hardware.device,
        hardware.device_memory_gb,
        hardware.system,
    )


def _contradictions(one: StatedRecipe, other: StatedRecipe) -> Iterator[AxisName]:
    for axis in all_axes():
        if axis in one.readings and axis in other.readings and not _equal(axis, one, other):
            yield axis
