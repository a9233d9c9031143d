"""The main tables: devices by precision and batch, or by framework, as in the tables published in this field."""

from collections.abc import Iterator, Mapping

from trainmark.report.blocks import Block, Cell, Chart, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.charts import throughput_chart
from trainmark.report.context import (
    DEVICES,
    FRAMEWORK,
    MODEL,
    NOTHING,
    WORKLOAD,
    Context,
    Grid,
    Key,
    UnitPart,
    footnotes,
    marks,
    shown,
)
from trainmark.report.language import decimals, interval, number
from trainmark.report.sections.equivalence import NOT_EQUAL, equality
from trainmark.schema.case import UNKNOWN
from trainmark.schema.results import CaseResult, fastest


def section(context: Context) -> Section:
    """Return the section with the main tables, and a chart of all cases of each unit."""
    say = context.say
    blocks: list[Block] = [Paragraph(plain(caption(context)))]
    blocks += [Paragraph(plain(text), alert=alert) for text, alert in work_sentence(context)]
    blocks += [Paragraph(plain(text)) for text in _power_sentence(context)]
    for part in context.parts:
        blocks += _tables(context, part)
        drawing = throughput_chart(context, part)
        if drawing is not None:
            text = say("throughput_chart_caption")
            blocks.append(Chart(part.name("throughput"), say("throughput_chart"), text, drawing))
    return Section("throughput", say("throughput_title"), tuple(blocks))


def devices_section(context: Context) -> Section | None:
    """Return the section with the rate of one device, or None if no case has several."""
    found = per_device(context)
    return Section("per-device", context.say("per_device_title"), tuple(found)) if found else None


def per_device(context: Context) -> list[Table]:
    """Return a table with the rate of one device beside that of all, for the cases on several; none without one."""
    say = context.say
    cases = {case.id: case for case in context.results.cases}
    rows = []
    for found in context.findings.per_device:
        case = cases[found.case]
        estimate = case.estimate
        if estimate is None:
            continue
        ends = () if found.low is None or found.high is None else (found.low, found.high)
        places = decimals([found.value, *ends])
        within = f"[{', '.join(number(end, places) for end in ends)}]" if ends else ""
        rows.append(
            (
                cell(context.axes.label(case.case)),
                cell(str(found.devices)),
                cell(number(found.value, places), within),
                cell(number(estimate.median, None)),
                cell(case.unit or ""),
            )
        )
    if not rows:
        return []
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("aspect_devices")),
        Column(say("column_per_device")),
        Column(say("column_all_devices")),
        Column(say("column_unit"), numeric=False),
    )
    return [Table("", columns, tuple(rows))]


def caption(context: Context) -> str:
    """Return the meaning of the tables' numbers, with their unit."""
    say, found = context.say, context.units()
    if not found:
        return say("throughput_caption_empty")
    return say("throughput_caption", unit=found[0] if len(found) == 1 else say("each_its_unit"))


def work_sentence(context: Context) -> list[tuple[str, bool]]:
    """Return the findings on equal work, and whether each is an alert."""
    return list(equality(context))


def _power_sentence(context: Context) -> Iterator[str]:
    """Yield a sentence with the cases whose GPUs were at their power limit, if there are any."""
    say, held = context.say, context.findings.power
    if not held:
        return
    by_id = {result.id: result.case for result in context.results.cases}
    names = []
    for found in held[:MOST_NAMED]:
        reported = [
            f"{number(value, 0)} {unit}"
            for value, unit in ((found.sm_clock_mhz, "MHz"), (found.power_w, "W"))
            if value is not None
        ]
        label = context.axes.label(by_id[found.case])
        names.append(say("work", name=label, way=say.joined(reported)) if reported else label)
    more = len(held) - len(names)
    yield say("held_by_power", names=say.joined([*names, *([say("and_more", n=more)] if more else [])]))


MOST_NAMED = 8
"""The largest number of cases named in a sentence; of more, it gives the number."""


def tables(context: Context) -> list[Table]:
    """Return one table per unit and grid, as text."""
    return [table for part in context.parts for table in _tables(context, part)]


def _tables(context: Context, part: UnitPart) -> list[Table]:
    return [_table(context, part, grid) for grid in part.axes.grids()]


def heading_of(context: Context, part: UnitPart, of: Mapping[str, str]) -> str:
    """Return the heading of a table; if there are several units, with the aspects that are constant in this one."""
    same = {} if part.alone else {a: v for a, v in part.axes.constant().items() if a in _of_part(context)}
    words = [
        context.say("aspect_is", aspect=context.aspect(a), value=v)
        for a, v in {**same, **of}.items()
        if v != NOTHING
    ]
    return context.say.joined([*words, *([] if part.alone else [part.unit])])


def _of_part(context: Context) -> tuple[str, ...]:
    return tuple(a for a in (WORKLOAD, FRAMEWORK, MODEL) if a in context.axes.varying)


def _table(context: Context, part: UnitPart, grid: Grid) -> Table:
    say = context.say
    in_row = {key: next(c for (row, _), c in grid.cells.items() if row == key) for key in grid.rows}
    by_devices = grid.row_aspects == (DEVICES,)
    several_nodes = by_devices and any(c.case.nodes > 1 for c in in_row.values())
    if by_devices:
        sides = [say("nodes"), say("aspect_devices")] if several_nodes else [say("aspect_devices")]
    else:
        sides = [context.aspect(aspect) for aspect in grid.row_aspects]
    columns = [Column(side, numeric=by_devices) for side in sides]
    against = _spoken_against(context, grid)
    contents = []
    for column in grid.columns:
        held = [grid.cells.get((row, column)) for row in grid.rows]
        columns.append(Column(_column_title(context, part, grid, column, held, against)))
        contents.append(_column_cells(context, held))
    rows = []
    for i, row in enumerate(grid.rows):
        case = in_row[row].case
        if by_devices:
            words = [str(case.nodes), str(case.world_size)] if several_nodes else [str(case.world_size)]
        else:
            words = list(row)
        rows.append((*(cell(word) for word in words), *(content[i] for content in contents)))
    blanks = len(grid.cells) < len(grid.rows) * len(grid.columns)
    notes = footnotes(context, list(grid.cells.values()), blanks)
    notes += _chosen(context, grid)
    if any(column.title.endswith(NOT_EQUAL) for column in columns):
        notes.append(say("not_equal_note", mark=NOT_EQUAL))
    return Table(
        heading_of(context, part, grid.of), tuple(columns), tuple(rows), tuple(notes), keys=len(sides)
    )


def _chosen(context: Context, grid: Grid) -> list[str]:
    """Return the values that short runs chose for the cases of a table, as one footnote; none if none were chosen."""
    by_column: dict[Key, dict[str, list[str]]] = {}
    for (row, column), result in grid.cells.items():
        chosen = fastest(result.trials)
        if result.estimate is None or chosen is None:
            continue
        words = by_column.setdefault(column, {})
        words.setdefault(context.say.joined(list(chosen.axes.values())), []).append(" ".join(row))
    named = []
    for column, choices in by_column.items():
        name = " ".join(column)
        for chosen_values, rows in choices.items():
            where = "" if len(choices) == 1 else f" ({context.say.joined(rows)})"
            named.append(f"{name}{where}{context.say('colon')}{chosen_values}")
    return [context.say("chosen_note", what=context.say("semicolon").join(named))] if named else []


def _column_title(
    context: Context,
    part: UnitPart,
    grid: Grid,
    column: Key,
    held: list[CaseResult | None],
    against: frozenset[str],
) -> str:
    say = context.say
    if grid.column_aspects == (FRAMEWORK,):
        first = next(result.case for result in held if result is not None)
        sign = any(result.id in against for result in held if result is not None)
        return part.axes.framework(first) + (f" {NOT_EQUAL}" if sign else "")
    precision, batch = column
    became = {result.largest_batch for result in held if result is not None} - {None}
    if len(became) == 1:
        batch = f"{batch} ({became.pop()})"
    if UNKNOWN not in (precision, batch):
        return say("column_precision_batch", precision=precision, batch=batch)
    if batch != UNKNOWN:
        return say("column_of_batch", batch=batch)
    return say("column_throughputs") if precision == UNKNOWN else precision


def _column_cells(context: Context, held: list[CaseResult | None]) -> list[Cell]:
    places = decimals(result.estimate.median for result in held if result and result.estimate)
    batches = {result.largest_batch for result in held if result is not None} - {None}
    return [_cell(context, result, places, say_batch=len(batches) > 1) for result in held]


def _cell(context: Context, result: CaseResult | None, places: int, say_batch: bool) -> Cell:
    if result is None:
        return cell("-")
    found = throughput(context, result, places)
    reported = [found.detail]
    if say_batch and result.estimate and (batch := result.largest_batch):
        reported.append(context.say("batch_in_cell", batch=batch))
    return Cell(found.spans, " ".join(reported).strip())


def throughput(context: Context, result: CaseResult, places: int) -> Cell:
    """Return a case's number with its signs and its interval, or its outcome."""
    if result.estimate is None:
        return cell(shown(result, context.say) or "-")
    text = number(result.estimate.median, places) + "".join(marks(context, result))
    return cell(text, interval(result.estimate.interval, places))


def _spoken_against(context: Context, grid: Grid) -> frozenset[str]:
    """Return the ids of the table's cases that a certificate finds different from others in the table."""
    shown = {result.id: result.case for result in grid.cells.values() if result.estimate}
    return frozenset(
        case
        for found in context.findings.equality
        if len({shown[case].framework for work in found.works for case in work.cases if case in shown}) > 1
        for work in found.works
        if work.verdict.speaks_against
        for case in work.cases
    )
