"""Ratios: speedup over devices, real to synthetic data, published figures, and the factors of ``explain --test``."""

from collections.abc import Iterable

from pydantic import ValidationError

from trainmark.insight.experiment import closing_sentence
from trainmark.insight.published import PublishedFigure, published_figures
from trainmark.report.blocks import Block, Cell, Chart, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.charts import scaling_chart, waterfall_bars, waterfall_chart
from trainmark.report.context import DATA, DEVICES, Context, UnitPart, footnotes, marks, marks_of_ratio, shown
from trainmark.report.language import decimals, interval, number, percent
from trainmark.report.sections.throughput import heading_of, throughput
from trainmark.schema.decomposition import Decomposition, TestedFactor
from trainmark.schema.findings import RatioFinding, RatioKind
from trainmark.schema.measurement import Interval, Ratio
from trainmark.schema.names import DECOMPOSITION
from trainmark.schema.results import CaseResult

WATERFALL = "waterfall"


def scaling(context: Context) -> Section | None:
    """Return the section, or None if no case runs on more than one device."""
    if not _is_scaled(context.results.cases):
        return None
    say = context.say
    blocks: list[Block] = [Paragraph(plain(say("scaling_caption")))]
    for part in context.parts:
        if not _is_scaled(part.cases):
            continue
        blocks.append(_scaling(context, part))
        drawing = scaling_chart(context, part)
        if drawing is not None:
            text = say("scaling_chart_caption")
            blocks.append(Chart(part.name("scaling"), say("scaling_chart"), text, drawing))
    return Section("scaling", say("scaling_title"), tuple(blocks))


def _scaling(context: Context, part: UnitPart) -> Table:
    say, axes, unit = context.say, part.axes, part.unit
    aspects = tuple(a for a in axes.varying if a != DEVICES)
    groups: dict[tuple[str, ...], list[CaseResult]] = {}
    for case in part.cases:
        groups.setdefault(axes.key(case.case, aspects), []).append(case)
    places = decimals(c.estimate.median for c in part.cases if c.estimate)
    rows = [
        (*(cell(word) for word in key), *_row(context, case, places))
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


def data(context: Context) -> Section | None:
    """Return the section, or None if no two cases differ only in their data."""
    found = [ratio for ratio in context.findings.ratios if ratio.kind is RatioKind.REAL_TO_SYNTHETIC]
    if not found:
        return None
    tables = []
    for part in context.parts:
        ids = {case.id for case in part.cases}
        if ours := [ratio for ratio in found if ratio.case in ids]:
            tables.append(_data(context, part, ours))
    return Section(
        "data", context.say("data_title"), (Paragraph(plain(context.say("data_caption"))), *tables)
    )


def _data(context: Context, part: UnitPart, found: list[RatioFinding]) -> Table:
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
    rows = tuple(_published_row(context, one) for one in found)
    caption = Paragraph(plain(say("published_caption")))
    return Section("published", say("published_title"), (caption, Table("", columns, rows)))


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
        rows.append(_decomposition_joint(say("decomposition_interaction"), found.joint))
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
