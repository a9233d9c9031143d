"""Every run by itself: the numbers that the results above were made from, and its log."""

from collections.abc import Iterator

from trainmark.report.blocks import Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.report.marks import Mark
from trainmark.report.numbers import GIB, decimals, number, percent
from trainmark.report.sections.throughput import units
from trainmark.store import RunResult


def section(context: Context) -> Section | None:
    """Return the section, or None when nothing ran."""
    runs = context.runs()
    if not runs:
        return None
    say, found = context.say, units(context.results)
    figures = [list(_figures(run)) for _, run in runs]
    places = [
        decimals(value for value in column if value is not None) for column in zip(*figures, strict=True)
    ]
    doubted = {(doubt.case, doubt.repeat) for doubt in context.findings.doubts}
    rows = []
    for (case, run), values in zip(runs, figures, strict=True):
        cells = [
            cell("-" if value is None else number(value, p)) for value, p in zip(values, places, strict=True)
        ]
        cells[0] = _throughput(
            context, run, places[0], several_units=len(found) > 1, doubted=(case.id, run.repeat) in doubted
        )
        name, wait, log = context.axes.label(case.case), _wait(run), Cell(context.log(run, "train.log"))
        rows.append((cell(name), cell(str(run.repeat)), *cells, wait, log))
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_repeat")),
        Column(say("column_throughput", unit=found[0]) if len(found) == 1 else say("throughput_title")),
        Column(say("column_window")),
        Column(say("column_step_p50")),
        Column(say("column_step_p99")),
        Column(say("column_first_step")),
        Column(say("column_peak_memory")),
        Column(say("column_data_wait")),
        Column(say("column_log"), numeric=False),
    )
    caption = Paragraph(plain(say("runs_caption")))
    return Section("runs", say("runs_title"), (caption, Table("", columns, tuple(rows))), folded=True)


def _figures(run: RunResult) -> Iterator[float | None]:
    """Yield throughput, window (s), median and 99th percentile of the steps (ms), first step (s), memory (GiB)."""
    measured = run.measurement
    times = measured.step_times if measured else None
    yield measured.throughput if measured else None
    yield measured.window_s if measured else None
    yield times.p50 * 1000 if times else None
    yield times.p99 * 1000 if times else None
    yield measured.first_step_s if measured else None
    yield max(measured.peak_memory_bytes) / GIB if measured and any(measured.peak_memory_bytes) else None


def _throughput(context: Context, run: RunResult, places: int, several_units: bool, doubted: bool) -> Cell:
    if run.measurement is None:
        return cell(context.say.outcome(run.outcome))
    unit = f" {run.measurement.unit}" if several_units else ""
    sign = Mark.DOUBT.value if doubted else ""
    return cell(f"{number(run.measurement.throughput, places)}{unit}{sign}")


def _wait(run: RunResult) -> Cell:
    share = run.measurement.data_wait if run.measurement else None
    return cell("-" if share is None else percent(share))
