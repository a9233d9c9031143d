"""Section on the published figures of the measured cases, with the deviation from them."""

from trainmark.insight.published import PublishedFigure, published_figures
from trainmark.report.blocks import Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context, marks
from trainmark.report.numbers import number
from trainmark.schema.measurement import Interval


def section(context: Context) -> Section | None:
    """Return the section; None if no measured case has a published figure."""
    found = list(published_figures(context.results))
    if not found:
        return None
    say = context.say
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_measured")),
        Column(say("column_published")),
        Column(say("column_deviation")),
        Column(say("column_source"), numeric=False),
    )
    rows = tuple(_row(context, one) for one in found)
    caption = Paragraph(plain(say("published_caption")))
    return Section("published", say("published_title"), (caption, Table("", columns, rows)))


def _row(context: Context, one: PublishedFigure) -> tuple[Cell, ...]:
    estimate, value = one.case.estimate, one.figure.value
    assert estimate is not None
    assert value is not None
    bounds = estimate.interval
    signs = "".join(marks(context, one.case))
    return (
        cell(context.axes.label(one.case.case)),
        cell(f"{number(estimate.median)}{signs} {one.case.unit}"),
        cell(one.figure.text),
        cell(_share(one.deviation), "" if bounds is None else _shares(bounds, value)),
        cell(one.figure.id, one.figure.source.document),
    )


def _share(deviation: float) -> str:
    return f"{deviation * 100:+.1f} %"


def _shares(bounds: Interval, value: float) -> str:
    return f"[{(bounds.low / value - 1) * 100:+.1f}, {(bounds.high / value - 1) * 100:+.1f}]"
