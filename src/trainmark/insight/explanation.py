"""Why is this number not that number: the differences of two recipes, ranked by what is known of their effect.

Effects multiply, so shares of a gap are taken of logarithms: a factor f accounts for ln f / ln(gap) of it. An
effect gets a share only where somebody saw it on the same device architecture, framework, model and precision;
what was seen elsewhere shows the direction and gets none.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from trainmark.errors import InputError
from trainmark.insight.evidence import Effect, Match, Nearness, Strength, matches
from trainmark.insight.programs import Change, change_of
from trainmark.insight.recipe import Reading, StatedRecipe, recipe_of
from trainmark.reference import Reference
from trainmark.tasks import all_axes, same_model, same_unit
from trainmark.words.recipe import AxisName, Condition, RecipeAxis

NO_GAP = 0.01
"""Two numbers that differ by less than this share are not told apart: nothing is to be explained."""

LOADING = (RecipeAxis.LOADER, RecipeAxis.WORKERS, RecipeAxis.PREFETCH)
"""The axes that act on throughput by making the device wait for data."""


class Basis(StrEnum):
    """What a difference's effect rests on, the strongest first."""

    ISOLATED = "isolated"
    BUNDLED = "bundled"
    BOUNDED = "bounded"
    ELSEWHERE = "elsewhere"
    REASONED = "reasoned"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ExplainedRun:
    """A run to be explained. ``throughput`` is in ``unit`` over all devices; none when it cannot be had.

    ``data_wait`` is the share of the step in which the run's own records say that it waited for data (0 to 1).
    ``doubts`` are sentences about the number: why there is none, or why it is suspect.
    """

    name: str
    recipe: StatedRecipe
    throughput: float | None
    unit: str | None
    rule: str | None = None
    data_wait: float | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecipeDifference:
    """One axis on which run and reference differ.

    ``low`` and ``high`` are the factor by which throughput is expected to change when the run takes the
    reference's value; ``share`` is what that makes of the gap (0.5 is half), where both can be said.
    """

    axis: AxisName
    here: Reading
    there: Reading
    basis: Basis
    low: float | None
    high: float | None
    share: tuple[float, float] | None
    evidence: tuple[Match, ...]
    change: Change


@dataclass(frozen=True, slots=True)
class Nearer:
    """A published figure of the same case whose recipe contradicts the run's on fewer axes."""

    reference: Reference
    differences: tuple[AxisName, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The differences in the order of their effect, and what they leave open.

    ``ratio`` is reference / run. ``accounted`` is the factor that isolated and bundled evidence accounts for,
    ``open`` what stays (ratio / accounted), each lowest and highest; none without a throughput.
    ``assumed_device`` is set when the run does not name its device and the reference's is taken for it.
    """

    run: ExplainedRun
    reference: Reference
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


def explain(
    run: ExplainedRun, reference: Reference, effects: Sequence[Effect], others: Iterable[Reference]
) -> Explanation:
    """Lay ``run`` beside ``reference`` and rank their differences.

    ``others`` are the published figures among which a nearer one is looked for. Raises ``InputError`` when
    the two trained other models or count other things.
    """
    there = recipe_of(reference)
    _check_same_work(run, reference)
    ratio = None
    if run.throughput is not None and reference.value is not None:
        ratio = reference.value / run.throughput
    named = run.recipe.value(Condition.DEVICE) or there.value(Condition.DEVICE)
    device = str(named) if named else None
    both = [axis for axis in all_axes() if axis in run.recipe.readings and axis in there.readings]
    differing = [axis for axis in both if not _equal(axis, run.recipe, there)]
    found = (_difference(axis, run, there, ratio, device, effects) for axis in differing)
    differences = sorted(found, key=_weight)
    accounted = _accounted(differences)
    return Explanation(
        run=run,
        reference=reference,
        ratio=ratio,
        differences=tuple(differences),
        accounted=accounted if ratio is not None else None,
        open=(ratio / accounted[1], ratio / accounted[0]) if ratio is not None else None,
        same=tuple(axis for axis in both if axis not in differing),
        only_here=tuple(a for a in all_axes() if a in run.recipe.readings and a not in there.readings),
        only_there=tuple(a for a in all_axes() if a not in run.recipe.readings and a in there.readings),
        neither=tuple(a for a in all_axes() if a not in run.recipe.readings and a not in there.readings),
        nearer=_nearer(run, reference, len(differing), others),
        assumed_device=None if run.recipe.value(Condition.DEVICE) else reference.hardware.device,
    )


def _check_same_work(run: ExplainedRun, reference: Reference) -> None:
    if run.unit is not None and not same_unit(run.unit, reference.unit):
        raise InputError(f"{run.name} counts {run.unit}, {reference.id} counts {reference.unit}")
    model = run.recipe.value(Condition.MODEL)
    if model is not None and not same_model(model, reference.model):
        raise InputError(f"{run.name} trains {model}, {reference.id} is {reference.model}")


def _equal(axis: AxisName, one: StatedRecipe, other: StatedRecipe) -> bool:
    here, there = one.value(axis), other.value(axis)
    if axis == Condition.MODEL and here is not None and there is not None:
        return same_model(here, there)
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
    ratio: float | None,
    device: str | None,
    effects: Sequence[Effect],
) -> RecipeDifference:
    found = matches(effects, axis, run.recipe, there, device)
    basis, span = _basis(axis, found, run.data_wait)
    counts = basis in (Basis.ISOLATED, Basis.BUNDLED, Basis.BOUNDED)
    return RecipeDifference(
        axis=axis,
        here=run.recipe.readings[axis],
        there=there.readings[axis],
        basis=basis,
        low=span[0] if span else None,
        high=span[1] if span else None,
        share=_share(span, ratio) if span and counts else None,
        evidence=found,
        change=change_of(axis, run.recipe, there),
    )


def _basis(
    axis: AxisName, found: Sequence[Match], data_wait: float | None
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
    measured = [match for match in found if match.low is not None]
    if measured:
        return Basis.ELSEWHERE, _span(measured)
    return (Basis.REASONED if found else Basis.UNKNOWN), None


def _span(found: Iterable[Match]) -> tuple[float, float]:
    ends = [end for match in found for end in (match.low, match.high) if end is not None]
    return min(ends), max(ends)


def _share(span: tuple[float, float], ratio: float | None) -> tuple[float, float] | None:
    if ratio is None or abs(ratio - 1) < NO_GAP:
        return None
    shares = sorted(math.log(end) / math.log(ratio) for end in span)
    return shares[0], shares[1]


def _weight(difference: RecipeDifference) -> tuple[int, float, str]:
    """The order of the list: known effects by their size, then what is bounded, seen elsewhere, reasoned, unknown."""
    known = difference.basis in (Basis.ISOLATED, Basis.BUNDLED)
    rank = 0 if known else list(Basis).index(difference.basis)
    ends = [end for end in (difference.low, difference.high) if end is not None]
    size = max((abs(math.log(end)) for end in ends), default=0.0)
    return rank, -size, difference.axis


def _accounted(differences: Iterable[RecipeDifference]) -> tuple[float, float]:
    low = high = 1.0
    for difference in differences:
        known = difference.basis in (Basis.ISOLATED, Basis.BUNDLED)
        if known and difference.low is not None and difference.high is not None:
            low, high = low * difference.low, high * difference.high
    return low, high


def _nearer(
    run: ExplainedRun, reference: Reference, count: int, others: Iterable[Reference]
) -> tuple[Nearer, ...]:
    """Figures of the reference's own case, device and publisher's program that fit the run's recipe better."""
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
