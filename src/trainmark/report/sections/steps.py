"""Warm-up and steps: how long the first step took, and whether the steps were steady when measuring began."""

from collections.abc import Iterable
from statistics import median

from trainmark.report.blocks import Block, Cell, Chart, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.charts.steps import steps_chart
from trainmark.report.context import Context
from trainmark.report.numbers import decimals, number, percent
from trainmark.report.series import MOST_CASES
from trainmark.words.measurement import Measurement
from trainmark.words.results import CaseResult


def section(context: Context) -> Section | None:
    """Return the section, or None when nothing was measured."""
    measured = [case for case in context.results.cases if case.estimate]
    if not measured:
        return None
    say = context.say
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_warmup_steps")),
        Column(say("column_first_step")),
        Column(say("column_compile")),
        Column(say("column_steady"), numeric=False),
    )
    first_steps = [_median(m.first_step_s for m in _measurements(case)) for case in measured]
    compile_times = [_median(m.compile_s for m in _measurements(case)) for case in measured]
    first_places = decimals(time for time in first_steps if time is not None)
    compile_places = decimals(time for time in compile_times if time is not None)
    rows = tuple(
        (
            cell(context.axes.label(case.case)),
            cell(str(max(m.warmup_steps for m in _measurements(case)))),
            _seconds(first, first_places),
            _seconds(compiled, compile_places),
            cell(_verdict(context, case)),
        )
        for case, first, compiled in zip(measured, first_steps, compile_times, strict=True)
    )
    blocks: list[Block] = [Paragraph(plain(say("steps_caption"))), Table("", columns, rows)]
    drawn = steps_chart(context)
    if drawn is not None:
        caption = [say("steps_chart_caption")]
        if drawn.cut:
            caption.append(say("steps_chart_cut"))
        if len(measured) > MOST_CASES:
            caption.append(say("steps_chart_first", n=MOST_CASES, of=len(measured)))
        blocks.append(Chart("steps", say("steps_chart"), say("space").join(caption), drawn.specification))
    return Section("steps", say("steps_title"), tuple(blocks))


def _measurements(case: CaseResult) -> list[Measurement]:
    return [run.measurement for run in case.runs if run.measurement]


def _median(times: Iterable[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return median(known) if known else None


def _seconds(time: float | None, places: int) -> Cell:
    return cell("-" if time is None else number(time, places))


def _verdict(context: Context, case: CaseResult) -> str:
    say = context.say
    tested = [run for run in case.runs if run.measurement and run.measurement.steadiness.steady is not None]
    if not tested:
        return say("steady_unknown")
    late = [run for run in tested if run.measurement and run.measurement.steadiness.steady is False]
    if not late:
        return say("steady_yes")
    worst = max(
        (run.measurement.steadiness for run in late if run.measurement), key=lambda s: abs(s.bias or 0)
    )
    if any(run.measurement.steadiness.settled_after is None for run in late if run.measurement):
        return say("steady_never", late=len(late), of=len(tested))
    return say(
        "steady_no", late=len(late), of=len(tested), after=worst.settled_after, bias=percent(worst.bias or 0)
    )
