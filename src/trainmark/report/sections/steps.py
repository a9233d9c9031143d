"""Warm-up and steps: the time of the first step, and whether the steps were steady in the measured window."""

from collections import Counter
from collections.abc import Iterable
from statistics import median

from trainmark.report.blocks import Block, Cell, Chart, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.charts.steps import steps_chart
from trainmark.report.context import Context
from trainmark.report.numbers import decimals, number, percent
from trainmark.report.series import MOST_CASES
from trainmark.schema.measurement import CannotSay, Measurement, Steadiness
from trainmark.schema.results import CaseResult

CACHE_HITS = "compile_cache_hits"
"""How many programs a run took from the compiler's cache, in what the worker reports of itself."""


def section(context: Context) -> Section | None:
    """Return the section, or None if nothing was measured."""
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
    compile_times = [_compile_times(case) for case in measured]
    first_places = decimals(time for time in first_steps if time is not None)
    compile_places = decimals(time for times in compile_times for time in times if time is not None)
    rows = tuple(
        (
            cell(context.axes.label(case.case)),
            cell(str(max(m.warmup_steps for m in _measurements(case)))),
            _seconds(first, first_places),
            _compilation(context, *compiled, compile_places),
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
        blocks.append(Chart("steps", say("steps_chart"), say("space").join(caption), drawn.drawing))
    return Section("steps", say("steps_title"), tuple(blocks))


def _measurements(case: CaseResult) -> list[Measurement]:
    return [run.measurement for run in case.runs if run.measurement]


def _median(times: Iterable[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return median(known) if known else None


def _seconds(time: float | None, places: int) -> Cell:
    return cell("-" if time is None else number(time, places))


def _compile_times(case: CaseResult) -> tuple[float | None, float | None]:
    """Return the median seconds of compiling anew, and of taking the programs from the cache of an earlier run."""
    times = [
        (run.measurement.compile_s, bool((run.parameters.actual or {}).get(CACHE_HITS)))
        for run in case.runs
        if run.measurement
    ]
    return _median(time for time, hit in times if not hit), _median(time for time, hit in times if hit)


def _compilation(context: Context, anew: float | None, cached: float | None, places: int) -> Cell:
    if cached is None:
        return _seconds(anew, places)
    from_cache = context.say("compiled_from_cache", seconds=number(cached, places))
    return cell(from_cache if anew is None else f"{number(anew, places)}; {from_cache}")


def _verdict(context: Context, case: CaseResult) -> str:
    say = context.say
    verdicts = [run.measurement.steadiness for run in case.runs if run.measurement]
    tested = [found for found in verdicts if found.steady is not None]
    if not tested:
        return say(f"cannot_say_{_reason(verdicts)}")
    late = [found for found in tested if not found.steady]
    if not late:
        observed = [found.detectable for found in tested if found.detectable is not None]
        return say("steady_to", power=percent(max(observed))) if observed else say("steady_yes")
    worst = max(late, key=lambda found: abs(found.bias or 0))
    shape = "levels" if worst.shape is None else worst.shape.value
    words = say(f"shape_{shape.replace('-', '_')}", after=worst.settled_after, of=_steps(worst))
    because = say(f"cause_{worst.cause.value}") if worst.cause else ""
    if worst.shape is None and worst.settled_after is not None:  # written by an older trainmark
        words = say("shape_settled", after=worst.settled_after)
    return say(
        "steady_no", late=len(late), of=len(tested), how=words + because, bias=percent(worst.bias or 0)
    )


def _reason(verdicts: list[Steadiness]) -> str:
    reasons = [found.cannot_say or CannotSay.TOO_FEW_STEPS for found in verdicts]
    return Counter(reasons).most_common(1)[0][0].value.replace("-", "_")


def _steps(found: Steadiness) -> str:
    """Return the range of the steps that differ from the longest part."""
    if not found.levels:
        return ""
    other = found.levels[-1] if len(found.levels) == 2 else found.levels[1]
    return f"{other.first}–{other.first + other.steps}"
