"""Throughputs and their ratios: the main tables, equal work, speedup over devices, real data, published figures.

The main tables are devices by precision and batch, or by framework, as in the tables published in this field.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import ValidationError

from trainmark.insight.experiment import closing_sentence
from trainmark.insight.published import PublishedFigure, published_figures
from trainmark.report.blocks import Block, Cell, Chart, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.charts import scaling_chart, throughput_chart, waterfall_bars, waterfall_chart
from trainmark.report.context import (
    DATA,
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
    marks_of_ratio,
    shown,
)
from trainmark.report.language import decimals, interval, number, percent
from trainmark.schema.case import UNKNOWN
from trainmark.schema.decomposition import Decomposition, TestedFactor
from trainmark.schema.measurement import Interval, Ratio
from trainmark.schema.names import DECOMPOSITION
from trainmark.schema.precision import Precision
from trainmark.schema.results import (
    CaseResult,
    Difference,
    EqualityFinding,
    RatioFinding,
    RatioKind,
    Verdict,
    Work,
    fastest,
)
from trainmark.tasks import TASKS, task_of_model

NOT_EQUAL = "≠"
"""The mark of a framework whose work was compared and found different."""

_MOST_SIZES = 3
"""Of more sizes of an axis, only the smallest and the largest are named."""


def throughput_section(context: Context) -> Section:
    """Return the section with the main tables, and a chart of all cases of each unit."""
    say = context.say
    blocks: list[Block] = [Paragraph(plain(caption(context)))]
    blocks += [Paragraph(plain(text), alert=alert) for text, alert in equality(context)]
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


def equality(context: Context) -> Iterator[tuple[str, bool]]:
    """Yield the sentences on equal work, and whether each is an alert.

    For each model and device: the work is equal, or it differs and where, or for which columns it is unknown.
    """
    found = context.findings.equality
    for comparison in found:
        yield from _sentences(context, comparison, alone=len(found) == 1)
        if comparison.unchecked_sizes:
            yield _unchecked_sizes(context, comparison), False
    precisions = {result.case.precision for result in context.results.cases if result.estimate}
    compared = {comparison.precision for comparison in found}
    others = sorted(precision.value for precision in precisions - compared - {Precision.FP32})
    if others and any(_claimed(comparison) for comparison in found):
        yield context.say("only_fp32_compared", precisions=context.say.joined(others)), False


def _sentences(context: Context, comparison: EqualityFinding, alone: bool) -> Iterator[tuple[str, bool]]:
    say = context.say
    model = comparison.model
    low = comparison.precision is not Precision.FP32
    rules = [*comparison.rules, *([comparison.precision.value] if low else [])]
    if rules:
        model = say("work", name=model, way=say.joined(rules))
    what = subject_matter(context, model, comparison.devices)
    differences = [_difference(context, found) for found in comparison.differences]
    if differences:
        reported = say("semicolon").join(dict.fromkeys(differences))
        yield say("certificate_fails", what=what, differences=reported), True
    unseen = comparison.with_verdict(Verdict.UNSEEN)
    if unseen:
        yield say("certificate_lacks", what=what, names=_joined(context, unseen)), True
    if low and comparison.golden and not differences:
        names, precision = say.joined(list(comparison.golden)), comparison.precision.value
        yield say("certificate_rounded", what=what, names=names, precision=precision), False
        yield from _rest(context, comparison, what)
        return
    if comparison.golden and len({work.framework for work in comparison.works}) < 2:
        yield say("certificate_golden", what=what, names=say.joined(list(comparison.golden))), False
        return
    if comparison.holds:
        key = "certificate_holds_variants" if comparison.by_variant else "certificate_holds"
        yield say(key, what=what, names=say.joined(list(comparison.observed))), False
        return
    # With only one framework for these rules, there is nothing to compare.
    variants = {work.framework for work in comparison.with_verdict(Verdict.VARIANT)}
    if not (differences or unseen or len(variants) > 1 or _claimed(comparison)):
        yield (say("no_certificate") if alone else say("no_certificate_for", what=what)), False
        return
    if _claimed(comparison):
        yield say("certificate_observed", what=what, names=say.joined(list(comparison.observed))), False
    yield from _rest(context, comparison, what)


def _unchecked_sizes(context: Context, comparison: EqualityFinding) -> str:
    """Return that nothing was compared at the sizes of the cases, and at which sizes it was."""
    say, labels = context.say, TASKS[task_of_model(comparison.model)].labels

    def named(axis: str, *sizes: int) -> str:
        label = labels.get(axis)
        name = say("aspect_batch") if label is None else getattr(label, say.language.value)
        values = [label.value.format(size) if label is not None else str(size) for size in sizes]
        shown = values if len(values) <= _MOST_SIZES else [say("range", low=values[0], high=values[-1])]
        return say("aspect_is", aspect=name, value=say.joined(shown))

    return say(
        "certificate_sizes",
        what=subject_matter(context, comparison.model, comparison.devices),
        sizes=say("semicolon").join(named(size.axis, *size.of_cases) for size in comparison.unchecked_sizes),
        checked=say("semicolon").join(named(size.axis, size.checked) for size in comparison.unchecked_sizes),
    )


def _rest(context: Context, comparison: EqualityFinding, what: str) -> Iterator[tuple[str, bool]]:
    """Yield the sentences on the works that the certificate does not cover."""
    for verdict in (Verdict.PROGRAM, Verdict.FRAMEWORK, Verdict.VARIANT):
        if rest := comparison.with_verdict(verdict):
            yield (
                context.say(f"certificate_without_{verdict}", what=what, names=_joined(context, rest)),
                False,
            )


def _claimed(comparison: EqualityFinding) -> bool:
    return len(comparison.observed) > 1 or bool(comparison.golden)


def subject_matter(context: Context, model: str, devices: Sequence[str]) -> str:
    """Return a model with the devices on which it was trained, if known."""
    if not devices:
        return model
    return context.say("model_on", model=model, devices=context.say.joined(list(devices)))


def _difference(context: Context, found: Difference) -> str:
    say, subject = context.say, context.say(f"subject_{found.check.subject.value}")
    way = say.joined([*found.way, *found.rules])
    names = [say("work", name=name, way=way) if way else name for name in found.frameworks]
    if found.way:
        return say("not_as_observed", name=names[0], subject=subject)
    if len(names) == 1:
        return say("not_as_described", name=names[0], subject=subject)
    return say("not_equal_at", names=say.joined(names), subject=subject)


def _joined(context: Context, works: Iterable[Work]) -> str:
    return context.say.joined(list(dict.fromkeys(_label(context, work) for work in works)))


def _label(context: Context, work: Work) -> str:
    return context.say("work", name=work.name, way=context.say.joined(work.way))


WATERFALL = "waterfall"


def scaling_section(context: Context) -> Section | None:
    """Return the section, or None if no case runs on more than one device."""
    if not _is_scaled(context.results.cases):
        return None
    say = context.say
    blocks: list[Block] = [Paragraph(plain(say("scaling_caption")))]
    for part in context.parts:
        if not _is_scaled(part.cases):
            continue
        blocks.append(_scaling_table(context, part))
        drawing = scaling_chart(context, part)
        if drawing is not None:
            text = say("scaling_chart_caption")
            blocks.append(Chart(part.name("scaling"), say("scaling_chart"), text, drawing))
    return Section("scaling", say("scaling_title"), tuple(blocks))


def _scaling_table(context: Context, part: UnitPart) -> Table:
    say, axes, unit = context.say, part.axes, part.unit
    aspects = tuple(a for a in axes.varying if a != DEVICES)
    groups: dict[tuple[str, ...], list[CaseResult]] = {}
    for case in part.cases:
        groups.setdefault(axes.key(case.case, aspects), []).append(case)
    places = decimals(c.estimate.median for c in part.cases if c.estimate)
    rows = [
        (*(cell(word) for word in key), *_scaling_row(context, case, places))
        for key, cases in groups.items()
        if _is_scaled(cases)
        for case in sorted(cases, key=lambda c: (c.case.world_size, c.case.nodes))
    ]
    columns = [Column(context.aspect(aspect), numeric=False) for aspect in aspects]
    columns += [
        Column(say("nodes")),
        Column(say("aspect_devices")),
        Column(say("column_throughput", unit=unit)),
        Column(say("column_speedup")),
        Column(say("column_efficiency")),
    ]
    missing = any(c.estimate and not c.speedup and c.case.world_size > 1 for c in part.cases)
    kinds = (RatioKind.SPEEDUP, RatioKind.EFFICIENCY)
    in_table = [case for cases in groups.values() if _is_scaled(cases) for case in cases]
    ids = {case.id for case in in_table}
    ratios = [found for found in context.findings.ratios if found.kind in kinds and found.case in ids]
    notes = footnotes(context, in_table, blanks=False, ratios=ratios)
    if missing:
        notes.append(say("no_baseline"))
    return Table(
        heading_of(context, part, {}), tuple(columns), tuple(rows), tuple(notes), keys=len(aspects) + 2
    )


def _is_scaled(cases: Iterable[CaseResult]) -> bool:
    return any(case.case.world_size > 1 for case in cases)


def _scaling_row(context: Context, result: CaseResult, places: int) -> Iterable[Cell]:
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


def data_section(context: Context) -> Section | None:
    """Return the section, or None if no two cases differ only in their data."""
    found = [ratio for ratio in context.findings.ratios if ratio.kind is RatioKind.REAL_TO_SYNTHETIC]
    if not found:
        return None
    tables = []
    for part in context.parts:
        ids = {case.id for case in part.cases}
        if ours := [ratio for ratio in found if ratio.case in ids]:
            tables.append(_data_table(context, part, ours))
    return Section(
        "data", context.say("data_title"), (Paragraph(plain(context.say("data_caption"))), *tables)
    )


def _data_table(context: Context, part: UnitPart, found: list[RatioFinding]) -> Table:
    say, axes, unit = context.say, part.axes, part.unit
    cases = {case.id: case for case in part.cases}
    pairs = [(cases[ratio.case], cases[ratio.against]) for ratio in found]
    aspects = tuple(a for a in axes.varying if a != DATA)
    places = decimals(side.estimate.median for pair in pairs for side in pair if side.estimate)
    rows = tuple(
        (
            *(cell(word) for word in axes.key(real.case, aspects)),
            cell(axes.value(real.case, DATA)),
            *(throughput(context, side, places) for side in (real, synthetic)),
            _share(ratio),
            _wait(real),
        )
        for ratio, (real, synthetic) in zip(found, pairs, strict=True)
    )
    columns = (
        *(Column(context.aspect(aspect), numeric=False) for aspect in (*aspects, DATA)),
        Column(say("column_real", unit=unit)),
        Column(say("column_synthetic", unit=unit)),
        Column(say("column_real_share")),
        Column(say("column_data_wait")),
    )
    notes = footnotes(context, [side for pair in pairs for side in pair], blanks=False, ratios=found)
    return Table(heading_of(context, part, {}), columns, rows, tuple(notes), keys=len(aspects) + 1)


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


def published_section(context: Context) -> Section | None:
    """Return the section; None if no measured case has a published figure: each is for a framework."""
    has_framework = any(map(_may_state_framework, context.results.cases))
    found = list(published_figures(context.results)) if has_framework else []
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
    rows = tuple(_published_row(context, one) for one in found)
    caption = Paragraph(plain(say("published_caption")))
    return Section("published", say("published_title"), (caption, Table("", columns, rows)))


def _may_state_framework(found: CaseResult) -> bool:
    """Return whether a case has a framework, or options or reported parameters that can name one."""
    reported = any(run.parameters.reported() for run in found.runs)
    return found.case.framework != UNKNOWN or bool(found.case.options) or reported


def _published_row(context: Context, one: PublishedFigure) -> tuple[Cell, ...]:
    estimate, value = one.case.estimate, one.figure.value
    assert estimate is not None
    assert value is not None
    bounds = estimate.interval
    signs = "".join(marks(context, one.case))
    return (
        cell(context.axes.label(one.case.case)),
        cell(f"{number(estimate.median)}{signs} {one.case.unit}"),
        cell(one.figure.text),
        cell(_published_share(one.deviation), "" if bounds is None else _published_shares(bounds, value)),
        cell(one.figure.id, one.figure.source.document),
    )


def _published_share(deviation: float) -> str:
    return f"{deviation * 100:+.1f} %"


def _published_shares(bounds: Interval, value: float) -> str:
    return f"[{(bounds.low / value - 1) * 100:+.1f}, {(bounds.high / value - 1) * 100:+.1f}]"


def decomposition_section(context: Context) -> Section | None:
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
        _decomposition_table(context, found),
    ]
    bars = waterfall_bars(found, "A", "B", say("decomposition_interaction"))
    drawing = waterfall_chart(bars, found.unit or "")
    if drawing is not None:
        caption = say("decomposition_chart_caption")
        blocks.append(Chart(WATERFALL, say("decomposition_title"), caption, drawing))
    return Section("decomposition", say("decomposition_title"), tuple(blocks))


def _decomposition_table(context: Context, found: Decomposition) -> Table:
    say = context.say
    columns = (
        Column(say("column_factor"), numeric=False),
        Column("A", numeric=False),
        Column("B", numeric=False),
        Column(say("column_added")),
        Column(say("column_left_out")),
    )
    rows = [_decomposition_row(factor) for factor in found.factors]
    if len(found.factors) > 1:
        rows.append(_decomposition_joint(say("decomposition_interaction"), found.interaction))
    rows.append(_decomposition_joint("B / A", found.measured))
    if found.gap is not None:
        rows.append(_decomposition_joint(say("decomposition_recorded"), found.gap))
        rows.append(_decomposition_joint(say("decomposition_open"), found.open))
    notes = tuple(factor.reason for factor in found.factors if factor.reason)
    return Table(say("decomposition_table", a=found.a, b=found.b), columns, tuple(rows), notes)


def _decomposition_row(factor: TestedFactor) -> tuple[Cell, ...]:
    return (
        cell(factor.name),
        cell(factor.here),
        cell(factor.there),
        _decomposition_ratio(factor.added),
        _decomposition_ratio(factor.left_out),
    )


def _decomposition_joint(name: str, value: Ratio | None) -> tuple[Cell, ...]:
    return cell(name), cell(""), cell(""), _decomposition_ratio(value), cell("")


def _decomposition_ratio(value: Ratio | None) -> Cell:
    return cell("-") if value is None else cell(f"{value.value:.3f}", interval(value.interval, 3))
