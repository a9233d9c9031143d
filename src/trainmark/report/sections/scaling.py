"""Speedup over one device and scaling efficiency, each with its interval; nothing where the baseline is missing."""

from collections.abc import Iterable

from trainmark.measure import Ratio
from trainmark.report.axes import Aspect
from trainmark.report.blocks import Block, Cell, Chart, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.charts.scaling import scaling_chart
from trainmark.report.context import Context
from trainmark.report.marks import marks, shown
from trainmark.report.numbers import decimals, interval, number
from trainmark.store import CaseResult


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
        if any(case.case.world_size > 1 for case in cases)
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
    return Table("", tuple(columns), tuple(rows), (say("no_baseline"),) if missing else ())


def _row(context: Context, result: CaseResult, places: int) -> Iterable[Cell]:
    yield cell(str(result.case.nodes))
    yield cell(str(result.case.world_size))
    if result.estimate is None:
        yield cell(shown(result, context.say) or "-")
    else:
        yield cell(number(result.estimate.median, places) + "".join(marks(result)))
    if result.speedup is not None and result.speedup.baseline == result.id:
        yield cell("1", context.say("is_baseline"))
        yield cell("100 %")
        return
    yield _ratio(result.speedup.speedup if result.speedup else None)
    yield _ratio(result.speedup.efficiency if result.speedup else None, percent=True)


def _ratio(value: Ratio | None, percent: bool = False) -> Cell:
    if value is None:
        return cell("-")
    if percent:
        return cell(f"{number(value.value * 100, 1)} %", interval(value.interval, 1, 100))
    return cell(number(value.value, 2), interval(value.interval, 2))
