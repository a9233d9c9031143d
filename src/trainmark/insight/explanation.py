"""Explanation of the gap between two numbers: the differences of their recipes, ranked by their known effects.

Effects multiply, so shares of a gap are computed on logarithms: a factor f accounts for ln f / ln(gap) of it. An effect
gets a share only if the run's own records show it, or if it was observed on the same device architecture, framework,
model and precision. An effect observed elsewhere is ranked by its size but gets no share: only its direction is known.
Shares never exceed the gap: if the causes would explain more, they are scaled down jointly.
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
from trainmark.schema.bound import RunBound
from trainmark.schema.recipe import AxisName, AxisValue, Condition, RecipeAxis
from trainmark.tasks import all_axes, axes_of_model, same_model, same_unit

NO_GAP = 0.01
"""Two numbers that differ by less than this share count as equal, with nothing to explain."""

_SAME_NUMBER = 1e-4
_LEAST_WAIT = 1e-3

LOADING = (RecipeAxis.LOADER, RecipeAxis.WORKERS, RecipeAxis.PREFETCH)
"""The axes that affect throughput by making the device wait for data."""


class Basis(StrEnum):
    """The basis of a difference's effect, the strongest first."""

    OWN = "own"
    ISOLATED = "isolated"
    BUNDLED = "bundled"
    BOUNDED = "bounded"
    ELSEWHERE = "elsewhere"
    REASONED = "reasoned"
    UNKNOWN = "unknown"


ACCOUNTING = frozenset({Basis.OWN, Basis.ISOLATED, Basis.BUNDLED})
"""The bases that count towards the explained part of the gap."""
RANKED = (*(Basis.OWN, Basis.ISOLATED, Basis.BUNDLED), Basis.BOUNDED, Basis.ELSEWHERE)


class OwnCause(StrEnum):
    """A cause in the run's own records, which is not an axis of a recipe."""

    STALL = "stall"
    DATA_WAIT = "data_wait"
    STATISTIC = "statistic"


@dataclass(frozen=True, slots=True)
class PublishedRule:
    """The value of the run's log by the rule of a publisher of such logs."""

    by: str
    rule: str
    value: float


@dataclass(frozen=True, slots=True)
class ExplainedRun:
    """A run to be explained. ``throughput`` is in ``unit`` over all devices; None if it is unknown.

    ``data_wait`` is the share of a step spent waiting for data according to the run's records (0 to 1). ``doubts`` are
    sentences about the number: why it is missing or suspect. ``noise`` is the relative uncertainty of the number from
    its own records, ``stall`` the stalls in it, and ``by_publishers`` its values by the rules of publishers of such
    logs. ``bound`` is what the run was bound by.
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
    bound: RunBound | None = None


@dataclass(frozen=True, slots=True)
class OtherSide:
    """The side that a run is explained against: a published figure, or another run.

    ``throughput`` is in ``unit`` over all devices, ``text`` the number as it is shown.
    """

    name: str
    recipe: StatedRecipe
    throughput: float | None
    unit: str | None
    text: str
    figure: Reference | None = None
    run: ExplainedRun | None = None


def side_of_figure(figure: Reference) -> OtherSide:
    """Return a published figure as the other side."""
    return OtherSide(figure.id, recipe_of(figure), figure.value, figure.unit, figure.text, figure=figure)


def side_of_run(run: ExplainedRun) -> OtherSide:
    """Return another run as the other side."""
    text = "no throughput" if run.throughput is None else f"{run.throughput:.2f} {run.unit or ''}".rstrip()
    return OtherSide(run.name, run.recipe, run.throughput, run.unit, text, run=run)


@dataclass(frozen=True, slots=True)
class RecipeDifference:
    """One axis on which the two sides differ, or a cause in the runs' own records (``OwnCause`` as its axis).

    ``low`` and ``high`` bound the factor by which throughput is expected to change if the run took the other side's
    value; ``share`` is the corresponding share of the gap (0.5 is half). They are None if unknown.
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
    """A published figure of the same case whose recipe differs from the run's on fewer axes."""

    reference: Reference
    differences: tuple[AxisName, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The differences in the order of their effect, and the unexplained rest of the gap.

    ``ratio`` is the other side over the run. ``accounted`` is the factor explained by the runs' own records and by
    isolated and bundled evidence, never more than the ratio; ``open`` is the rest (ratio / accounted). Both are
    (lowest, highest), and None without a throughput. ``in_noise`` is true if the gap is no larger than ``noise``, the
    relative uncertainty of the two by their own records. ``assumed_device`` is the other side's device if the run does
    not name its own.
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


def explain(
    run: ExplainedRun, other: OtherSide, effects: Sequence[Effect], figures: Iterable[Reference]
) -> Explanation:
    """Return the ranked differences between ``run`` and the other side.

    ``figures`` are the published figures searched for one with a more similar recipe. Raises ``InputError`` if the two
    have different models or units.
    """
    there = other.recipe
    _check_same_work(run, other)
    ratio = None
    if run.throughput is not None and other.throughput is not None:
        ratio = other.throughput / run.throughput
    noise = math.hypot(run.noise, 0.0 if other.run is None else other.run.noise)
    in_noise = ratio is not None and abs(ratio - 1) < max(NO_GAP, noise)
    figures = tuple(figures)
    if other.figure is not None:
        effects = (*effects, *published_device_ratios(run.recipe, other.figure, figures))
    here_device, there_device = run.recipe.value(Condition.DEVICE), there.value(Condition.DEVICE)
    named = here_device or there_device
    device = str(named) if named else None
    both = [axis for axis in all_axes() if axis in run.recipe.readings and axis in there.readings]
    differing = [axis for axis in both if not _equal(axis, run.recipe, there)]
    of_recipes = [_difference(axis, run, there, device, effects) for axis in differing]
    causes = list(_own_causes(run, other, waits_counted=any(axis in LOADING for axis in differing)))
    differences = sorted([*causes, *of_recipes], key=_weight)
    if ratio is not None and not in_noise:
        differences = _shared(differences, ratio)
    accounted = _accounted(differences, ratio) if ratio is not None else None
    return Explanation(
        run=run,
        other=other,
        ratio=ratio,
        differences=tuple(differences),
        accounted=accounted,
        open=(ratio / accounted[1], ratio / accounted[0]) if ratio is not None and accounted else None,
        same=tuple(axis for axis in both if axis not in differing),
        only_here=tuple(a for a in all_axes() if a in run.recipe.readings and a not in there.readings),
        only_there=tuple(a for a in all_axes() if a not in run.recipe.readings and a in there.readings),
        neither=tuple(
            axis
            for axis in axes_of_model(str(there.value(Condition.MODEL) or run.recipe.value(Condition.MODEL)))
            if axis not in run.recipe.readings and axis not in there.readings
        ),
        nearer=() if other.figure is None else _nearer(run, other.figure, len(differing), figures),
        assumed_device=str(there_device) if there_device and not here_device else None,
        in_noise=in_noise,
        noise=noise,
    )


def _own_causes(run: ExplainedRun, other: OtherSide, *, waits_counted: bool) -> Iterator[RecipeDifference]:
    """Yield the causes in the runs' own records: a stall, waiting for data, and a publisher's other rule."""
    factor = run.stall.factor if run.stall else 1.0
    if run.stall:
        where = f"record {run.stall.record}"
        if run.stall.count > 1:
            where = f"{run.stall.count} records, the worst {where}"
        here = Reading(f"{run.stall.share:.0%} of the window", where)
        yield _own(OwnCause.STALL, here, Reading("none", "the time of the other records"), Basis.OWN, factor)
    yield from _waits(run, other, waits_counted=waits_counted)
    figure = other.figure
    theirs = None
    if figure is not None:
        theirs = next((rule for rule in run.by_publishers if _publishes(rule.by, figure)), None)
    if theirs and figure and run.throughput and theirs.rule != run.rule:
        by_rule = theirs.value / run.throughput
        # A stall hardly changes a mean of rates: its part must not be counted twice.
        by_rule = by_rule / factor if by_rule > factor else min(by_rule, 1.0)
        if abs(by_rule - 1) > _SAME_NUMBER:
            there = Reading(f"{theirs.rule}: {theirs.value:.6g}", f"{theirs.by}; {figure.statistic}")
            here = Reading(f"{run.rule}: {run.throughput:.6g}", "the rule of the run's number")
            yield _own(OwnCause.STATISTIC, here, there, Basis.OWN, by_rule)


def _waits(run: ExplainedRun, other: OtherSide, *, waits_counted: bool) -> Iterator[RecipeDifference]:
    """Yield the wait for data: its part of the gap if both runs recorded it, else what it can account for at most."""
    if run.data_wait is None:
        return
    where = "the run's own data-wait times"
    here = Reading(f"{run.data_wait:.1%} of a step", where)
    if other.run is not None and other.run.data_wait is not None:
        there_wait = other.run.data_wait
        if abs(run.data_wait - there_wait) > _LEAST_WAIT:
            there = Reading(f"{there_wait:.1%} of a step", where)
            yield _own(OwnCause.DATA_WAIT, here, there, Basis.OWN, (1 - there_wait) / (1 - run.data_wait))
    elif run.data_wait > _LEAST_WAIT and not waits_counted:
        there = Reading("not stated", "")
        yield _own(OwnCause.DATA_WAIT, here, there, Basis.BOUNDED, 1 / (1 - run.data_wait))


def _own(cause: OwnCause, here: Reading, there: Reading, basis: Basis, factor: float) -> RecipeDifference:
    low = 1.0 if basis is Basis.BOUNDED else factor
    return RecipeDifference(cause.value, here, there, basis, low, factor, None, (), Change())


def _publishes(by: str, reference: Reference) -> bool:
    """Return whether ``by`` (``PaddlePaddle/Perf``, ``NVIDIA and others``) published the figure."""
    name = by.split(maxsplit=1)[0].removesuffix("'s").casefold()
    source = reference.source
    return name in f"{source.publisher or ''} {source.document} {source.url or ''}".casefold()


def _shared(differences: Sequence[RecipeDifference], ratio: float) -> list[RecipeDifference]:
    """Return the differences with their shares of the gap; the lower ends sum to at most 1."""
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
            continue  # it has the opposite effect
        least_here = max(low, 0.0) * scale if number in known else 0.0
        others = least * scale - least_here if number in known else 0.0
        most_here = max(least_here, min(high * scale, 1 - others))
        shared[number] = replace(differences[number], share=(least_here, most_here))
    return shared


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
    """Return the sort key: effects of known size first, by size; then reasoned and unknown ones."""
    basis = list(Basis).index(difference.basis)
    ends = [end for end in (difference.low, difference.high) if end is not None]
    size = max((abs(math.log(end)) for end in ends), default=0.0)
    return 0 if difference.basis in RANKED else basis, -size, basis, difference.axis


def _accounted(differences: Iterable[RecipeDifference], ratio: float) -> tuple[float, float]:
    """Return the explained factor, limited to between 1 and ``ratio``."""
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
