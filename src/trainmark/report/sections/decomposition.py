"""Section on an experiment of ``explain --test``: the gap as a product of tested factors, with a waterfall."""

from pydantic import ValidationError

from trainmark.insight.experiment import closing_sentence
from trainmark.report.blocks import Block, Cell, Chart, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.charts.waterfall import bars_of, waterfall_chart
from trainmark.report.context import Context
from trainmark.report.numbers import interval
from trainmark.schema.decomposition import Decomposition, TestedFactor
from trainmark.schema.measurement import Ratio
from trainmark.schema.names import DECOMPOSITION

WATERFALL = "waterfall"


def section(context: Context) -> Section | None:
    """Return the section; None for results that are no experiment."""
    path, say = context.directory / DECOMPOSITION, context.say
    if not path.is_file():
        return None
    try:
        found = Decomposition.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    blocks: list[Block] = [
        Paragraph(plain(closing_sentence(found)), alert=not found.closes),
        _table(context, found),
    ]
    bars = bars_of(found, "A", "B", say("decomposition_interaction"))
    drawing = waterfall_chart(bars, found.unit or "")
    if drawing is not None:
        caption = say("decomposition_chart_caption")
        blocks.append(Chart(WATERFALL, say("decomposition_title"), caption, drawing))
    return Section("decomposition", say("decomposition_title"), tuple(blocks))


def _table(context: Context, found: Decomposition) -> Table:
    say = context.say
    columns = (
        Column(say("column_factor"), numeric=False),
        Column("A", numeric=False),
        Column("B", numeric=False),
        Column(say("column_added")),
        Column(say("column_left_out")),
    )
    rows = [_row(factor) for factor in found.factors]
    if len(found.factors) > 1:
        rows.append(_joint(say("decomposition_interaction"), found.interaction))
    rows.append(_joint("B / A", found.measured))
    if found.gap is not None:
        rows.append(_joint(say("decomposition_recorded"), found.gap))
        rows.append(_joint(say("decomposition_open"), found.open))
    notes = tuple(factor.reason for factor in found.factors if factor.reason)
    return Table(say("decomposition_table", a=found.a, b=found.b), columns, tuple(rows), notes)


def _row(factor: TestedFactor) -> tuple[Cell, ...]:
    return (
        cell(factor.name),
        cell(factor.here),
        cell(factor.there),
        _ratio(factor.added),
        _ratio(factor.left_out),
    )


def _joint(name: str, value: Ratio | None) -> tuple[Cell, ...]:
    return cell(name), cell(""), cell(""), _ratio(value), cell("")


def _ratio(value: Ratio | None) -> Cell:
    return cell("-") if value is None else cell(f"{value.value:.3f}", interval(value.interval, 3))
