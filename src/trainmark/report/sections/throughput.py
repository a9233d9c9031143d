"""The main tables: devices by precision and batch, or by framework, as published tables of this field have them."""

from trainmark.report.axes import NOTHING, Aspect, Grid, Key, actual_batch
from trainmark.report.blocks import Block, Cell, Chart, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.charts.throughput import throughput_chart
from trainmark.report.context import Context
from trainmark.report.language import Catalogue
from trainmark.report.marks import footnotes, marks, shown
from trainmark.report.numbers import decimals, interval, number
from trainmark.report.sections.equivalence import NOT_EQUAL, equality
from trainmark.store import CaseResult, Results


def section(context: Context) -> Section:
    """Return the section with the main tables and the chart of all cases."""
    say = context.say
    blocks: list[Block] = [Paragraph(plain(caption(context.results, say)))]
    blocks += [Paragraph(plain(text), alert=alert) for text, alert in said_of_work(context)]
    blocks += tables(context)
    specification = throughput_chart(context)
    if specification is not None:
        blocks.append(
            Chart("throughput", say("throughput_chart"), say("throughput_chart_caption"), specification)
        )
    return Section("throughput", say("throughput_title"), tuple(blocks))


def caption(results: Results, say: Catalogue) -> str:
    """Return what the numbers of the tables are, with their unit."""
    found = units(results)
    return say("throughput_caption", unit=say.joined(found)) if found else say("throughput_caption_empty")


def said_of_work(context: Context) -> list[tuple[str, bool]]:
    """Return what is known of the frameworks' work where several stand side by side; with true, an alert."""
    return list(equality(context)) if Aspect.FRAMEWORK in context.axes.varying else []


def units(results: Results) -> list[str]:
    """Return the units of the throughputs, as a rule one."""
    return list(dict.fromkeys(case.unit for case in results.cases if case.unit))


def tables(context: Context) -> list[Table]:
    """Return one table a grid, as text."""
    return [_table(context, grid) for grid in context.axes.grids()]


def _table(context: Context, grid: Grid) -> Table:
    say = context.say
    in_row = {key: next(c for (row, _), c in grid.cells.items() if row == key) for key in grid.rows}
    by_devices = grid.row_aspects == (Aspect.DEVICES,)
    several_nodes = by_devices and any(c.case.nodes > 1 for c in in_row.values())
    if by_devices:
        sides = [say("nodes"), say("aspect_devices")] if several_nodes else [say("aspect_devices")]
    else:
        sides = [say(f"aspect_{aspect}") for aspect in grid.row_aspects]
    columns = [Column(side, numeric=by_devices) for side in sides]
    against = _spoken_against(context, grid)
    contents = []
    for column in grid.columns:
        held = [grid.cells.get((row, column)) for row in grid.rows]
        columns.append(Column(_column_title(context, grid, column, held, against)))
        contents.append(_column_cells(context, held))
    rows = []
    for i, row in enumerate(grid.rows):
        case = in_row[row].case
        if by_devices:
            words = [str(case.nodes), str(case.world_size)] if several_nodes else [str(case.world_size)]
        else:
            words = list(row)
        rows.append((*(cell(word) for word in words), *(content[i] for content in contents)))
    heading = say.joined(
        [say("aspect_is", aspect=say(f"aspect_{a}"), value=v) for a, v in grid.of.items() if v != NOTHING]
    )
    blanks = len(grid.cells) < len(grid.rows) * len(grid.columns)
    notes = footnotes(context, list(grid.cells.values()), blanks)
    if any(column.title.endswith(NOT_EQUAL) for column in columns):
        notes.append(say("not_equal_note", mark=NOT_EQUAL))
    return Table(heading, tuple(columns), tuple(rows), tuple(notes))


def _column_title(
    context: Context, grid: Grid, column: Key, held: list[CaseResult | None], against: frozenset[str]
) -> str:
    say = context.say
    if grid.column_aspects == (Aspect.FRAMEWORK,):
        first = next(result.case for result in held if result is not None)
        sign = any(result.id in against for result in held if result is not None)
        return context.axes.framework(first) + (f" {NOT_EQUAL}" if sign else "")
    precision, batch = column
    became = {actual_batch(result) for result in held if result is not None} - {None}
    if len(became) == 1:
        batch = f"{batch} ({became.pop()})"
    return say("column_precision_batch", precision=precision, batch=batch)


def _column_cells(context: Context, held: list[CaseResult | None]) -> list[Cell]:
    places = decimals(result.estimate.median for result in held if result and result.estimate)
    batches = {actual_batch(result) for result in held if result is not None} - {None}
    return [_cell(context, result, places, say_batch=len(batches) > 1) for result in held]


def _cell(context: Context, result: CaseResult | None, places: int, say_batch: bool) -> Cell:
    if result is None:
        return cell("-")
    found = throughput(context, result, places)
    if say_batch and result.estimate and (batch := actual_batch(result)):
        said = context.say("batch_in_cell", batch=batch)
        return Cell(found.spans, f"{found.detail} {said}".strip())
    return found


def throughput(context: Context, result: CaseResult, places: int) -> Cell:
    """Return a case's number with its signs and its interval, or the outcome that it has instead."""
    if result.estimate is None:
        return cell(shown(result, context.say) or "-")
    text = number(result.estimate.median, places) + "".join(marks(context, result))
    return cell(text, interval(result.estimate.interval, places))


def _spoken_against(context: Context, grid: Grid) -> frozenset[str]:
    """Return the ids of the table's cases against whose work a certificate speaks, where others stand beside them."""
    shown = {result.id: result.case for result in grid.cells.values() if result.estimate}
    return frozenset(
        case
        for found in context.findings.equality
        if len({shown[case].framework for work in found.works for case in work.cases if case in shown}) > 1
        for work in found.works
        if work.verdict.speaks_against
        for case in work.cases
    )
