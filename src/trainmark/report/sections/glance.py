"""The first screen: the most important cases with interval, ratio to a baseline and limit, and reasons for doubt."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainmark.measure import ratio
from trainmark.report.blocks import Bar, Bullets, Cell, Column, Section, Span, Table, cell, plain
from trainmark.report.context import (
    DEVICES,
    FRAMEWORK,
    MODEL,
    PRECISION,
    WORKLOAD,
    Aspect,
    Context,
    Mark,
    by_unit,
    marks,
)
from trainmark.report.language import decimals, interval, number, percent
from trainmark.report.sections.equivalence import equality
from trainmark.report.sections.overview import inspection_sentence, trained
from trainmark.report.sections.resources import energy_cell
from trainmark.schema.findings import Bound, EqualityFinding
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult

ANCHOR = "glance"

MOST_ROWS = 8
"""The number of cases that fit on the first screen; the tables have all."""

MOST_REASONS = 5
"""The number of reasons for doubt that fit on the first screen."""

_GROUPS = (
    (WORKLOAD, MODEL, FRAMEWORK, PRECISION, DEVICES),
    (WORKLOAD, MODEL, FRAMEWORK, PRECISION),
    (WORKLOAD, MODEL, FRAMEWORK),
    (MODEL, FRAMEWORK),
    (MODEL,),
)
"""The aspects of which each value has a row if not all cases fit, the finest first."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """A case with the baseline of its model and unit."""

    case: CaseResult
    baseline: CaseResult


def section(context: Context) -> Section:
    """Return the section: a table with bars if something was measured, and what to distrust."""
    say = context.say
    compared = _compared(context)
    blocks: list[Table | Bullets] = []
    if compared:
        blocks.append(_table(context, compared))
    blocks.append(Bullets(tuple(_distrust(context)), say("distrust_title")))
    return Section(ANCHOR, say("glance_title"), tuple(blocks))


def _compared(context: Context) -> list[_Compared]:
    """Return every measured case with its baseline: the requested one, else its group's first measured case."""
    found = []
    for cases in by_unit(context.results.cases).values():
        groups: dict[str, list[CaseResult]] = {}
        for case in cases:
            if case.estimate is not None:
                groups.setdefault(trained(case), []).append(case)
        for group in groups.values():
            base = next((case for case in group if case.id in context.baselines), group[0])
            found += [_Compared(case, base) for case in group]
    return found


@dataclass(frozen=True, slots=True)
class _Selection:
    """The rows of the first screen, and the aspects by which they were chosen; all that vary if every case fits."""

    rows: Sequence[_Compared]
    aspects: tuple[Aspect, ...]


def _selected(context: Context, compared: Sequence[_Compared]) -> _Selection:
    """Return at most ``MOST_ROWS`` rows, in the order of the suite.

    If not all cases fit, each framework, precision and number of devices has one row if these fit, else the same for
    the smallest and the largest number of devices, else each framework, else each model: the case that differs from its
    baseline in the fewest aspects.
    """
    if len(compared) <= MOST_ROWS:
        return _Selection(compared, context.axes.varying)
    sizes = [one.case.case.world_size for one in compared]
    ends = [one for one in compared if one.case.case.world_size in (min(sizes), max(sizes))]
    chosen: list[_Compared] = []
    aspects: tuple[Aspect, ...] = ()
    for among, aspects in ((compared, _GROUPS[0]), (ends, _GROUPS[0]), *((compared, a) for a in _GROUPS[1:])):
        chosen = _nearest(context, among, aspects)
        if len(chosen) <= MOST_ROWS:
            break
    return _Selection(chosen[:MOST_ROWS], aspects)


def _nearest(context: Context, among: Sequence[_Compared], aspects: tuple[Aspect, ...]) -> list[_Compared]:
    """Return one case for each value of ``aspects``: the one that is the most like its baseline."""
    groups: dict[tuple[str, ...], list[_Compared]] = {}
    for one in among:
        key = (one.baseline.id, *context.axes.key(one.case.case, aspects))
        groups.setdefault(key, []).append(one)
    return [min(group, key=lambda one: _distance(context, one)) for group in groups.values()]


def _distance(context: Context, one: _Compared) -> int:
    axes = context.axes
    return sum(
        axes.value(one.case.case, aspect) != axes.value(one.baseline.case, aspect) for aspect in axes.varying
    )


def _table(context: Context, compared: list[_Compared]) -> Table:
    say, selection = context.say, _selected(context, compared)
    rows = selection.rows
    ends = _ends(rows)
    units = {one.case.unit for one in rows}
    several = any(one.case.id != one.baseline.id for one in rows)
    title = say("column_throughput", unit=next(iter(units))) if len(units) == 1 else say("column_throughputs")
    columns = [Column(say("column_case"), numeric=False), Column(title)]
    columns += [Column(say("column_ratio"))] if several else []
    joules = {found.case: found for found in context.findings.energy}
    has_energy = any(one.case.id in joules for one in rows)
    columns += [Column(say("column_joules"))] if has_energy else []
    columns.append(Column(say("column_bound"), numeric=False))
    places = {
        unit: decimals(
            one.case.estimate.median for one in rows if one.case.estimate and one.case.unit == unit
        )
        for unit in units
    }
    digits = _ratio_decimals(rows)
    body = []
    for one in rows:
        unit = one.case.unit
        cells = [cell(context.axes.label(one.case.case))]
        cells.append(_number(context, one.case, places[unit], "" if len(units) == 1 else f" {unit}"))
        cells += [_ratio(context, one, digits)] if several else []
        cells += [energy_cell(joules.get(one.case.id))] if has_energy else []
        cells.append(_bound(context, one.case))
        body.append(tuple(cells))
    bars = tuple(_bar(one.case, ends[one.case.unit or ""]) for one in rows)
    note = say("glance_bars" if len(units) == 1 else "glance_bars_of_units")
    return Table(
        "",
        tuple(columns),
        tuple(body),
        tuple(_notes(context, compared, selection)),
        bars=bars,
        bars_note=note,
    )


def _notes(context: Context, compared: Sequence[_Compared], selection: _Selection) -> Iterator[str]:
    say, rows = context.say, selection.rows
    labels = {one.baseline.id: context.axes.label(one.baseline.case) for one in rows}
    bases = [labels[name] for name in labels if sum(one.baseline.id == name for one in rows) > 1]
    note = []
    if any(one.case.estimate is not None and one.case.estimate.interval is not None for one in rows):
        note.append(say("glance_intervals"))
    if bases:
        note.append(say("glance_ratio", bases=say("semicolon").join(bases)))
    if len(rows) < len(compared):
        note.append(say("glance_some", n=len(rows), of=len(compared)))
    note += _unlike(context, selection)
    if note:
        yield say("space").join(note)
    topologies = (one.case.case.topology for one in rows)
    shown = " ".join(context.axes.label(one.case.case) for one in rows).split()
    named = next((topology for topology in topologies if topology in shown), None)
    if named is not None:
        yield say("glance_topology", label=named)


def _unlike(context: Context, selection: _Selection) -> Iterator[str]:
    """Yield a sentence for each row that differs from its baseline in more than that by which the rows were chosen."""
    axes = context.axes
    chosen_by = {*selection.aspects, *axes.of_framework()}
    for one in selection.rows:
        sides = one.case.case, one.baseline.case
        differing = [
            aspect for aspect in axes.varying if len({axes.value(side, aspect) for side in sides}) > 1
        ]
        others = [context.aspect(aspect) for aspect in differing if aspect not in chosen_by]
        if others:
            yield context.say("glance_unlike", case=axes.label(sides[0]), aspects=context.say.joined(others))


def _number(context: Context, case: CaseResult, places: int, unit: str) -> Cell:
    assert case.estimate is not None
    signs = "".join(marks(context, case))
    return cell(
        f"{number(case.estimate.median, places)}{signs}{unit}", interval(case.estimate.interval, places)
    )


def _ratio_decimals(rows: Sequence[_Compared]) -> int:
    """Return the decimals of the ratios: 2, or more if an interval would be rounded to one number."""
    found = [
        ratio(one.case.estimate, one.baseline.estimate) for one in rows if one.case.id != one.baseline.id
    ]
    bounds = [one.interval for one in found if one is not None and one.interval is not None]
    narrowest = min((each.high - each.low for each in bounds), default=1.0)
    return next((places for places in (2, 3) if narrowest >= 2 * 10**-places), 4)


def _ratio(context: Context, one: _Compared, places: int) -> Cell:
    if one.case.id == one.baseline.id:
        return cell("1", context.say("is_baseline"))
    found = ratio(one.case.estimate, one.baseline.estimate)
    if found is None:
        return cell("-")
    doubtful = {one.case.id, one.baseline.id} & context.doubted
    return cell(
        f"{number(found.value, places)}{Mark.DOUBT.value * bool(doubtful)}", interval(found.interval, places)
    )


def _bound(context: Context, case: CaseResult) -> Cell:
    found = context.findings.bound(case.id)
    if found is None:
        return cell("-")
    share = found.share if found.bound is not Bound.COMPUTE else None
    name = context.say(f"bound_{found.bound.value.replace('-', '_')}")
    return cell(name, "" if share is None else percent(share))


def _ends(rows: Sequence[_Compared]) -> dict[str, float]:
    """Return the end of the bars' common axis for each unit."""
    ends: dict[str, float] = {}
    for one in rows:
        assert one.case.estimate is not None
        unit = one.case.unit or ""
        ends[unit] = max(ends.get(unit, 0.0), one.case.estimate.maximum)
    highs = dict(ends)
    for one in rows:
        found, unit = one.case.estimate, one.case.unit or ""
        if found is not None and found.interval is not None:
            highs[unit] = max(highs[unit], min(found.interval.high, 1.25 * ends[unit]))
    return highs


def _bar(case: CaseResult, end: float) -> Bar:
    assert case.estimate is not None
    bounds = case.estimate.interval
    scale = 1 / end if end > 0 else 0.0
    return Bar(
        value=case.estimate.median * scale,
        low=None if bounds is None else bounds.low * scale,
        high=None if bounds is None else min(bounds.high * scale, 1.0),
    )


def _distrust(context: Context) -> Iterator[tuple[Span, ...]]:
    """Yield the reasons to distrust the numbers, the most serious first; a sentence if no check found one."""
    found = list(_reasons(context))
    for text, anchor in found[:MOST_REASONS]:
        yield (Span(text, href=f"#{anchor}"),) if anchor else plain(text)
    if len(found) > MOST_REASONS:
        yield plain(context.say("and_more_reasons", n=len(found) - MOST_REASONS))
    if not found:
        yield plain(context.say("nothing_to_distrust"))
        for sentence in inspection_sentence(context):
            yield plain(sentence)


def _reasons(context: Context) -> Iterator[tuple[str, str]]:
    """Yield each reason and the anchor of the section with the details."""
    results, say = context.results, context.say
    if not results.complete:
        yield say("incomplete"), ""
    outcomes = Counter(run.outcome for _, run in context.runs() if run.outcome is not Outcome.OK)
    unmeasured = Counter(
        case.outcome for case in results.cases if not case.runs and case.outcome is not Outcome.OK
    )
    if outcomes:
        words = [f"{n} {say.outcome(outcome)}" for outcome, n in outcomes.items()]
        reasons = {run.reason for _, run in context.runs() if run.outcome is not Outcome.OK}
        if len(reasons) == 1 and (reason := reasons.pop()):
            yield (
                say(
                    "distrust_outcomes_reason", what=say.joined(words), reason=_short(say.translated(reason))
                ),
                "outcomes",
            )
        else:
            yield say("distrust_outcomes", what=say.joined(words)), "outcomes"
    if unmeasured:
        words = [f"{n} {say.outcome(outcome)}" for outcome, n in unmeasured.items()]
        yield say("distrust_cases", what=say.joined(words)), "outcomes"
    if any(alert for _, alert in equality(context)):
        yield say("distrust_different_work"), "equivalence"
    elif any(_is_unverified(found) for found in context.findings.equality):
        yield say("distrust_work"), "throughput"
    yield from _doubts(context)
    few = [case for case in results.cases if case.estimate and case.estimate.interval is None]
    if few:
        yield say("distrust_no_interval", n=len(few)), "throughput"
    if len(results.manifests) > 1:
        yield say("distrust_environments", n=len(results.manifests)), "environment"
    unknown = sum(run.measurement is not None and run.identity is None for _, run in context.runs())
    if unknown:
        yield say.count("distrust_identity", unknown), ""
    if results.gates_off:
        yield say("gates_off", names=say.joined([gate.value for gate in results.gates_off])), ""
    unseen = [
        run for _, run in context.runs() if run.measurement and run.inspection and not run.inspection.is_whole
    ]
    if unseen:
        yield say("distrust_not_checked", n=len(unseen)), "runs"


def _is_unverified(found: EqualityFinding) -> bool:
    """Return whether frameworks are compared without evidence of equal work."""
    return not found.holds and len({work.framework for work in found.works}) > 1


def _doubts(context: Context) -> Iterator[tuple[str, str]]:
    """Yield the doubts by their code, the most frequent first, each with the sentence of one of them."""
    cases: dict[str, dict[str, str]] = {}
    for doubt in context.findings.doubts:
        cases.setdefault(doubt.code, {}).setdefault(doubt.case, doubt.sentence)
    for code, sentences in sorted(cases.items(), key=lambda item: -len(item[1])):
        text = _short(context.say.doubt(code, next(iter(sentences.values()))))
        yield f"{context.say.count('distrust_doubt', len(sentences))}{text} ({code})", "suspect"


def _short(text: str, most: int = 140) -> str:
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + " …"
