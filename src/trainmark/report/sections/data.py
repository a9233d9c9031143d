"""Real data against synthetic data: what share of the training speed the loading of real samples leaves."""

from trainmark.report.axes import Aspect
from trainmark.report.blocks import Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.report.marks import footnotes, marks_of_ratio
from trainmark.report.numbers import decimals, interval, percent
from trainmark.report.sections.throughput import throughput
from trainmark.store import CaseResult
from trainmark.words.findings import RatioFinding, RatioKind


def section(context: Context) -> Section | None:
    """Return the section, or None where no two cases differ in nothing but their data."""
    found = [ratio for ratio in context.findings.ratios if ratio.kind is RatioKind.REAL_TO_SYNTHETIC]
    if not found:
        return None
    say, axes = context.say, context.axes
    cases = {case.id: case for case in context.results.cases}
    pairs = [(cases[ratio.case], cases[ratio.against]) for ratio in found]
    aspects = tuple(a for a in axes.varying if a is not Aspect.DATA)
    places = decimals(side.estimate.median for pair in pairs for side in pair if side.estimate)
    rows = tuple(
        (
            *(cell(word) for word in axes.key(real.case, aspects)),
            cell(axes.value(real.case, Aspect.DATA)),
            *(throughput(context, side, places) for side in (real, synthetic)),
            _share(ratio),
            _wait(real),
        )
        for ratio, (real, synthetic) in zip(found, pairs, strict=True)
    )
    unit = next((side.unit for pair in pairs for side in pair if side.unit), "")
    columns = (
        *(Column(say(f"aspect_{aspect}"), numeric=False) for aspect in (*aspects, Aspect.DATA)),
        Column(say("column_real", unit=unit)),
        Column(say("column_synthetic", unit=unit)),
        Column(say("column_real_share")),
        Column(say("column_data_wait")),
    )
    notes = footnotes(context, [side for pair in pairs for side in pair], blanks=False, ratios=found)
    caption = Paragraph(plain(say("data_caption")))
    return Section("data", say("data_title"), (caption, Table("", columns, rows, tuple(notes))))


def _share(found: RatioFinding) -> Cell:
    text = percent(found.ratio.value) + "".join(marks_of_ratio(found))
    return cell(text, interval(found.ratio.interval, 1, 100))


def _wait(real: CaseResult) -> Cell:
    waits = [
        r.measurement.data_wait for r in real.runs if r.measurement and r.measurement.data_wait is not None
    ]
    if not waits:
        return cell("-")
    low, high = percent(min(waits)), percent(max(waits))
    return cell(low if low == high else f"{low} – {high}")
