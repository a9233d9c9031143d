"""Real data against synthetic data: what share of the training speed the loading of real samples leaves."""

from collections.abc import Iterator

from trainmark.measure import ratio
from trainmark.report.axes import Aspect
from trainmark.report.blocks import Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.report.marks import footnotes, marks
from trainmark.report.numbers import decimals, interval, number, percent
from trainmark.store import CaseResult

SYNTHETIC = "synthetic"


def section(context: Context) -> Section | None:
    """Return the section, or None where no two cases differ in nothing but their data."""
    pairs = list(_pairs(context))
    if not pairs:
        return None
    say, axes = context.say, context.axes
    aspects = tuple(a for a in axes.varying if a is not Aspect.DATA)
    places = decimals(side.estimate.median for pair in pairs for side in pair if side.estimate)
    rows = tuple(
        (
            *(cell(word) for word in axes.key(real.case, aspects)),
            cell(axes.value(real.case, Aspect.DATA)),
            *(_throughput(side, places) for side in (real, synthetic)),
            _ratio(real, synthetic),
            _wait(real),
        )
        for real, synthetic in pairs
    )
    unit = next((side.unit for pair in pairs for side in pair if side.unit), "")
    columns = (
        *(Column(say(f"aspect_{aspect}"), numeric=False) for aspect in (*aspects, Aspect.DATA)),
        Column(say("column_real", unit=unit)),
        Column(say("column_synthetic", unit=unit)),
        Column(say("column_real_share")),
        Column(say("column_data_wait")),
    )
    notes = footnotes([side for pair in pairs for side in pair], say, blanks=False)
    caption = Paragraph(plain(say("data_caption")))
    return Section("data", say("data_title"), (caption, Table("", columns, rows, tuple(notes))))


def _pairs(context: Context) -> Iterator[tuple[CaseResult, CaseResult]]:
    """Yield (real, synthetic) for each two measured cases that differ in their data alone."""
    measured = [case for case in context.results.cases if case.estimate]
    others = tuple(a for a in Aspect if a is not Aspect.DATA)
    synthetic = {context.axes.key(c.case, others): c for c in measured if c.case.data == SYNTHETIC}
    for case in measured:
        other = synthetic.get(context.axes.key(case.case, others))
        if case.case.data != SYNTHETIC and other is not None:
            yield case, other


def _throughput(side: CaseResult, places: int) -> Cell:
    if side.estimate is None:
        return cell("-")
    return cell(
        number(side.estimate.median, places) + "".join(marks(side)), interval(side.estimate.interval, places)
    )


def _ratio(real: CaseResult, synthetic: CaseResult) -> Cell:
    share = ratio(_throughputs(real), _throughputs(synthetic))
    return cell(percent(share.value), interval(share.interval, 1, 100)) if share else cell("-")


def _throughputs(result: CaseResult) -> list[float]:
    return [run.measurement.throughput for run in result.runs if run.measurement]


def _wait(real: CaseResult) -> Cell:
    waits = [
        r.measurement.data_wait for r in real.runs if r.measurement and r.measurement.data_wait is not None
    ]
    if not waits:
        return cell("-")
    low, high = percent(min(waits)), percent(max(waits))
    return cell(low if low == high else f"{low} – {high}")
