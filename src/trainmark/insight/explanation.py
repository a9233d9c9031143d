"""Why is this number not that number: the differences of two recipes, ranked by what is known of their effect.

Effects multiply, so shares of a gap are taken of logarithms: a factor f accounts for ln f / ln(gap) of it. An
effect gets a share only where the run's own records show it, or somebody saw it on the same device architecture,
framework, model and precision; what was seen elsewhere shows the direction and gets none, but stands where its size
puts it. Shares are never more than the gap: where causes would make more of it, they are scaled down together.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from trainmark.errors import InputError
from trainmark.insight.evidence import (
    Effect,
    Match,
    Nearness,
    Strength,
    matches,
    published_device_ratios,
)
from trainmark.insight.programs import Change, change_of
from trainmark.insight.recipe import Reading, StatedRecipe, recipe_of
from trainmark.logs.plausibility import Stall
from trainmark.reference import Reference
from trainmark.schema.recipe import AxisName, AxisValue, Condition, RecipeAxis
from trainmark.tasks import all_axes, axes_of_model, same_model, same_unit

NO_GAP = 0.01
"""Two numbers that differ by less than this share are not told apart: nothing is to be explained."""

_SAME_NUMBER = 1e-4
_LEAST_WAIT = 1e-3

LOADING = (RecipeAxis.LOADER, RecipeAxis.WORKERS, RecipeAxis.PREFETCH)
"""The axes that act on throughput by making the device wait for data."""


class Basis(StrEnum):
    """What a difference's effect rests on, the strongest first."""

    OWN = "own"
    ISOLATED = "isolated"
    BUNDLED = "bundled"
    BOUNDED = "bounded"
    ELSEWHERE = "elsewhere"
    REASONED = "reasoned"
    UNKNOWN = "unknown"


ACCOUNTING = frozenset({Basis.OWN, Basis.ISOLATED, Basis.BUNDLED})
"""What counts towards the part of the gap that is accounted for."""
RANKED = (*(Basis.OWN, Basis.ISOLATED, Basis.BUNDLED), Basis.BOUNDED, Basis.ELSEWHERE)


class OwnCause(StrEnum):
    """A cause that is no axis of a recipe: it stands in the run's own records."""

    STALL = "stall"
    DATA_WAIT = "data_wait"
    STATISTIC = "statistic"


@dataclass(frozen=True, slots=True)
class PublishedRule:
    """What the run's log gives by the rule of somebody who publishes such logs."""

    by: str
    rule: str
    value: float


@dataclass(frozen=True, slots=True)
class ExplainedRun:
    """A run to be explained. ``throughput`` is in ``unit`` over all devices; none when it cannot be had.

    ``data_wait`` is the share of the step in which the run's own records say that it waited for data (0 to 1).
    ``doubts`` are sentences about the number: why there is none, or why it is suspect. ``noise`` is the share by which
    the number is uncertain from its own records; ``stall`` what held it up, and ``by_publishers`` what it would be by
    the rules of those who publish such logs.
    """

    name: str
    recipe: StatedRecipe
    throughput: float | None
    unit: str | None
    rule: str | None = None
    data_wait: float | None = None
    doubts: tuple[str, ...] = ()
    noise: float = 0.0
    stall: Stall | None = None
    by_publishers: tuple[PublishedRule, ...] = ()


@dataclass(frozen=True, slots=True)
class RecipeDifference:
    """One axis on which run and reference differ, or a cause in the run's own records (``OwnCause`` as its axis).

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

    ``ratio`` is reference / run. ``accounted`` is the factor that the run's own records and isolated and bundled
    evidence account for, never more than the ratio; ``open`` what stays (ratio / accounted), each lowest and highest;
    none without a throughput. ``in_noise`` is set where the gap is no larger than the run's own noise.
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
    in_noise: bool = False


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
    in_noise = ratio is not None and abs(ratio - 1) < max(NO_GAP, run.noise)
    others = tuple(others)
    effects = (*effects, *published_device_ratios(run.recipe, reference, others))
    named = run.recipe.value(Condition.DEVICE) or there.value(Condition.DEVICE)
    device = str(named) if named else None
    both = [axis for axis in all_axes() if axis in run.recipe.readings and axis in there.readings]
    differing = [axis for axis in both if not _equal(axis, run.recipe, there)]
    of_recipes = [_difference(axis, run, there, device, effects) for axis in differing]
    causes = list(_own_causes(run, reference, waits_counted=any(axis in LOADING for axis in differing)))
    differences = sorted([*causes, *of_recipes], key=_weight)
    if ratio is not None and not in_noise:
        differences = _shared(differences, ratio)
    accounted = _accounted(differences, ratio) if ratio is not None else None
    return Explanation(
        run=run,
        reference=reference,
        ratio=ratio,
        differences=tuple(differences),
        accounted=accounted,
        open=(ratio / accounted[1], ratio / accounted[0]) if ratio is not None and accounted else None,
        same=tuple(axis for axis in both if axis not in differing),
        only_here=tuple(a for a in all_axes() if a in run.recipe.readings and a not in there.readings),
        only_there=tuple(a for a in all_axes() if a not in run.recipe.readings and a in there.readings),
        neither=tuple(
            axis
            for axis in axes_of_model(reference.model)
            if axis not in run.recipe.readings and axis not in there.readings
        ),
        nearer=_nearer(run, reference, len(differing), others),
        assumed_device=None if run.recipe.value(Condition.DEVICE) else reference.hardware.device,
        in_noise=in_noise,
    )


def _own_causes(
    run: ExplainedRun, reference: Reference, *, waits_counted: bool
) -> Iterator[RecipeDifference]:
    """Yield what the run's own records show: a stall, waiting for data, and what the reference's rule would give."""
    factor = run.stall.factor if run.stall else 1.0
    if run.stall:
        where = f"record {run.stall.record}"
        if run.stall.count > 1:
            where = f"{run.stall.count} records, the worst {where}"
        here = Reading(f"{run.stall.share:.0%} of the window", where)
        yield _own(OwnCause.STALL, here, Reading("none", "what the other records take"), Basis.OWN, factor)
    if run.data_wait is not None and run.data_wait > _LEAST_WAIT and not waits_counted:
        here = Reading(f"{run.data_wait:.1%} of a step", "the log's own times of waiting for data")
        there = Reading("not stated", "")
        yield _own(OwnCause.DATA_WAIT, here, there, Basis.BOUNDED, 1 / (1 - run.data_wait))
    theirs = next((rule for rule in run.by_publishers if _publishes(rule.by, reference)), None)
    if theirs and run.throughput and theirs.rule != run.rule:
        by_rule = theirs.value / run.throughput
        # A mean of rates hardly sees a stall: what the stall accounts for is not counted twice.
        by_rule = by_rule / factor if by_rule > factor else min(by_rule, 1.0)
        if abs(by_rule - 1) > _SAME_NUMBER:
            there = Reading(f"{theirs.rule}: {theirs.value:.6g}", f"{theirs.by}; {reference.statistic}")
            here = Reading(f"{run.rule}: {run.throughput:.6g}", "the rule of the run's number")
            yield _own(OwnCause.STATISTIC, here, there, Basis.OWN, by_rule)


def _own(cause: OwnCause, here: Reading, there: Reading, basis: Basis, factor: float) -> RecipeDifference:
    low = 1.0 if basis is Basis.BOUNDED else factor
    return RecipeDifference(cause.value, here, there, basis, low, factor, None, (), Change())


def _publishes(by: str, reference: Reference) -> bool:
    """Say whether ``by`` (``PaddlePaddle/Perf``, ``NVIDIA and others``) published the figure."""
    name = by.split(maxsplit=1)[0].removesuffix("'s").casefold()
    source = reference.source
    return name in f"{source.publisher or ''} {source.document} {source.url or ''}".casefold()


def _shared(differences: Sequence[RecipeDifference], ratio: float) -> list[RecipeDifference]:
    """Give those that count their shares of the gap: each at most what the others leave, together at most all of it."""
    spans = {
        number: _share((found.low, found.high), ratio)
        for number, found in enumerate(differences)
        if found.low is not None and found.high is not None and found.basis in {*ACCOUNTING, Basis.BOUNDED}
    }
    known = {n: span for n, span in spans.items() if differences[n].basis in ACCOUNTING}
    least = sum(max(low, 0.0) for low, _ in known.values())
    scale = 1 / least if least > 1 else 1.0
    shared = list(differences)
    for number, (low, high) in spans.items():
        if high <= 0:
            continue  # it works the other way
        least_here = max(low, 0.0) * scale if number in known else 0.0
        others = least * scale - least_here if number in known else 0.0
        most_here = max(least_here, min(high * scale, 1 - others))
        shared[number] = replace(differences[number], share=(least_here, most_here))
    return shared


def _check_same_work(run: ExplainedRun, reference: Reference) -> None:
    if run.unit is not None and not same_unit(run.unit, reference.unit):
        raise InputError(f"{run.name} counts {run.unit}, {reference.id} counts {reference.unit}")
    model = run.recipe.value(Condition.MODEL)
    if model is not None and not _may_be_one(model, reference.model):
        raise InputError(f"{run.name} trains {model}, {reference.id} is {reference.model}")


def _may_be_one(model: AxisValue, other: AxisValue) -> bool:
    """Say whether two models can be one: ``bert`` may be of any size, and ``bert-base-uncased`` is a ``bert_base``."""
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
    basis, span = _basis(axis, found, run.data_wait)
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


def _share(span: tuple[float, float], ratio: float) -> tuple[float, float]:
    shares = sorted(math.log(end) / math.log(ratio) for end in span)
    return shares[0], shares[1]


def _weight(difference: RecipeDifference) -> tuple[int, float, int, str]:
    """The order of the list: effects of a known size by that size, wherever it was seen; then reasoned and unknown."""
    basis = list(Basis).index(difference.basis)
    ends = [end for end in (difference.low, difference.high) if end is not None]
    size = max((abs(math.log(end)) for end in ends), default=0.0)
    return 0 if difference.basis in RANKED else basis, -size, basis, difference.axis


def _accounted(differences: Iterable[RecipeDifference], ratio: float) -> tuple[float, float]:
    """Return the factor that is accounted for, within 1 and ``ratio``: no cause explains more than there is."""
    low = high = 1.0
    for difference in differences:
        if difference.basis in ACCOUNTING and difference.low is not None and difference.high is not None:
            low, high = low * difference.low, high * difference.high
    least, most = sorted((1.0, ratio))
    ends = sorted(min(max(end, least), most) for end in (low, high))
    return ends[0], ends[1]


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
