"""Speedup over one device and scaling efficiency, each with its interval; nothing where the baseline is missing."""

from collections.abc import Iterable

from trainmark.report.axes import Aspect
from trainmark.report.blocks import Block, Cell, Chart, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.charts.scaling import scaling_chart
from trainmark.report.context import Context
from trainmark.report.marks import footnotes, marks, marks_of_ratio, shown
from trainmark.report.numbers import decimals, interval, number
from trainmark.store import CaseResult
from trainmark.words.findings import RatioFinding, RatioKind


def section(context: Context) -> Section | None:
    """Return the section, or None when no case runs on more than one device."""
    if all(case.case.world_size == 1 for case in context.results.cases):
        return None
    say = context.say
    blocks: list[Block] = [Paragraph(plain(say("scaling_caption"))), _table(context)]
    specification = scaling_chart(context)
    if specification is not None:
        blocks.append(Chart("scaling", say("scaling_chart"), say("scaling_chart_caption"), specification))
    return Section("scaling", say("scaling_title"), tuple(blocks))


def _table(context: Context) -> Table:
    say, axes = context.say, context.axes
    aspects = tuple(a for a in axes.varying if a is not Aspect.DEVICES)
    groups: dict[tuple[str, ...], list[CaseResult]] = {}
    for case in context.results.cases:
        groups.setdefault(axes.key(case.case, aspects), []).append(case)
    places = decimals(c.estimate.median for c in context.results.cases if c.estimate)
    rows = [
        (*(cell(word) for word in key), *_row(context, case, places))
        for key, cases in groups.items()
        if _is_scaled(cases)
        for case in sorted(cases, key=lambda c: (c.case.world_size, c.case.nodes))
    ]
    columns = [Column(say(f"aspect_{aspect}"), numeric=False) for aspect in aspects]
    unit = next((case.unit for case in context.results.cases if case.unit), None)
    columns += [
        Column(say("nodes")),
        Column(say("aspect_devices")),
        Column(say("column_throughput", unit=unit) if unit else say("throughput_title")),
        Column(say("column_speedup")),
        Column(say("column_efficiency")),
    ]
    missing = any(c.estimate and not c.speedup and c.case.world_size > 1 for c in context.results.cases)
    kinds = (RatioKind.SPEEDUP, RatioKind.EFFICIENCY)
    ratios = [found for found in context.findings.ratios if found.kind in kinds]
    in_table = [case for cases in groups.values() if _is_scaled(cases) for case in cases]
    notes = footnotes(context, in_table, blanks=False, ratios=ratios)
    return Table("", tuple(columns), tuple(rows), (*notes, *([say("no_baseline")] if missing else [])))


def _is_scaled(cases: Iterable[CaseResult]) -> bool:
    return any(case.case.world_size > 1 for case in cases)


def _row(context: Context, result: CaseResult, places: int) -> Iterable[Cell]:
    yield cell(str(result.case.nodes))
    yield cell(str(result.case.world_size))
    if result.estimate is None:
        yield cell(shown(result, context.say) or "-")
    else:
        yield cell(number(result.estimate.median, places) + "".join(marks(context, result)))
    if result.speedup is not None and result.speedup.baseline == result.id:
        yield cell("1", context.say("is_baseline"))
        yield cell("100 %")
        return
    yield _ratio(context.findings.ratio(RatioKind.SPEEDUP, result.id))
    yield _ratio(context.findings.ratio(RatioKind.EFFICIENCY, result.id))


def _ratio(found: RatioFinding | None) -> Cell:
    if found is None:
        return cell("-")
    value, bounds, signs = found.ratio.value, found.ratio.interval, "".join(marks_of_ratio(found))
    if found.kind is RatioKind.EFFICIENCY:
        return cell(f"{number(value * 100, 1)} %{signs}", interval(bounds, 1, 100))
    return cell(f"{number(value, 2)}{signs}", interval(bounds, 2))
