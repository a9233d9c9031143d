"""Sections on how a case was measured: warm-up and steps, number of runs, short trial runs, `trainmark check`."""

from collections import Counter
from collections.abc import Iterable
from statistics import median

from pydantic import ValidationError

from trainmark.report.blocks import Block, Cell, Chart, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.charts import steps_chart
from trainmark.report.context import MOST_CASES, Context, by_unit
from trainmark.report.language import decimals, number, percent
from trainmark.schema.check import CheckFinding, CheckReport, Level
from trainmark.schema.measurement import CannotSay, Measurement, Sampling, Steadiness
from trainmark.schema.names import CHECK
from trainmark.schema.results import CaseResult, Expected, Repeats, fastest, sound

CACHE_HITS = "compile_cache_hits"
"""How many programs a run took from the compiler's cache, in what the worker reports of itself."""
TAKEN = "✓"
_CHECK_ORDER = (Level.FAILURE, Level.WARNING, Level.NOTE, Level.OK)


def steps_section(context: Context) -> Section | None:
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
            _steps_seconds(first, first_places),
            _compilation(context, *compiled, compile_places),
            cell(_steps_verdict(context, case)),
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


def _steps_seconds(time: float | None, places: int) -> Cell:
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
        return _steps_seconds(anew, places)
    from_cache = context.say("compiled_from_cache", seconds=number(cached, places))
    return cell(from_cache if anew is None else f"{number(anew, places)}; {from_cache}")


def _steps_verdict(context: Context, case: CaseResult) -> str:
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


def repeats_section(context: Context) -> Section | None:
    """Return the section; None if the number of runs was fixed, or nothing is known of how it came about."""
    results, say = context.results, context.say
    cases = [case for case in results.cases if case.repeats is not None and case.estimate is not None]
    is_known = any(
        case.repeats is not None
        and (case.repeats.ended_by is not None or case.repeats.half_width is not None)
        for case in cases
    )
    if results.protocol.sampling is Sampling.FIXED or not is_known:
        return None
    target = f"{(results.protocol.target_half_width or 0) * 100:g} %"
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_runs"), numeric=False),
        Column(say("column_ended_by"), numeric=False),
        Column(say("column_half_width")),
        Column(say("column_to_target", target=target)),
        Column(say("column_twice")),
        Column(say("column_dlperf")),
    )
    rows = []
    for case in cases:
        found = case.repeats
        assert found is not None
        ended = found.ended_by.value.replace("-", "_") if found.ended_by else "not_yet"
        rows.append(
            (
                cell(context.axes.label(case.case)),
                cell(_repeats_runs(context, case, found)),
                cell(say(f"ended_{ended}")),
                cell("-" if found.half_width is None else f"±{percent(found.half_width)}"),
                cell("-" if found.to_target is None else str(found.to_target.runs)),
                _repeats_expected(context, found.twice),
                _repeats_expected(context, found.dlperf),
            )
        )
    caption = say("repeats_caption", protocol=results.protocol.name.value, target=target)
    return Section(
        "repeats", say("repeats_title"), (Paragraph(plain(caption)), Table("", columns, tuple(rows)))
    )


def _repeats_runs(context: Context, case: CaseResult, found: Repeats) -> str:
    if not found.spoiled:
        return context.say("runs_alone", runs=found.runs)
    # If the machine disturbed every run, the disturbed runs are the ones that count.
    counted = "runs_and_spoiled" if sound(case.runs) else "runs_all_spoiled"
    return context.say(counted, runs=found.runs, spoiled=found.spoiled)


def _repeats_expected(context: Context, found: Expected | None) -> Cell:
    if found is None:
        return cell("-")
    if found.half_width is None:
        return cell(context.say("runs_alone", runs=found.runs))
    return cell(context.say("runs_half_width", runs=found.runs, half=percent(found.half_width)))


def trials_section(context: Context) -> Section | None:
    """Return the section with one table per unit, or None if no case has open axes."""
    say = context.say
    groups = by_unit([result for result in context.results.cases if result.trials])
    if not groups:
        return None
    tables: list[Block] = [_trials_table(context, unit, results) for unit, results in groups.items()]
    return Section("trials", say("trials_title"), (Paragraph(plain(say("trials_caption"))), *tables))


def _trials_table(context: Context, unit: str, results: list[CaseResult]) -> Table:
    say = context.say
    places = decimals(trial.throughput for result in results for trial in result.trials if trial.throughput)
    rows = tuple(
        (
            cell(context.axes.label(result.case)),
            cell(", ".join(f"{axis} {value}" for axis, value in trial.axes.items())),
            cell(
                f"{say.outcome(trial.outcome)}: {trial.reason}"
                if trial.throughput is None
                else number(trial.throughput, places)
            ),
            cell(TAKEN if trial is fastest(result.trials) else ""),
        )
        for result in results
        for trial in result.trials
    )
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_tried"), numeric=False),
        Column(say("column_throughput", unit=unit)),
        Column(say("column_chosen"), numeric=False),
    )
    return Table("", columns, rows)


def check_section(context: Context) -> Section | None:
    """Return the section with all findings, the worst first; None if nothing was checked."""
    path, say = context.directory / CHECK, context.say
    if not path.is_file():
        return None
    title = say("check_title")
    try:
        report = CheckReport.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return Section("check", title, (Paragraph(plain(say("check_unreadable"))),), folded=True)
    lead = say(
        "check_fit" if report.fit else "check_not_fit",
        hosts=say.count("check_hosts", len(report.hosts)),
        when=report.checked.strftime("%Y-%m-%d %H:%M %Z").strip(),
    )
    blocks: list[Block] = [Paragraph(plain(lead), alert=not report.fit), _check_table(context, report)]
    return Section("check", title, tuple(blocks), folded=True)


def _check_table(context: Context, report: CheckReport) -> Table:
    say = context.say
    names = ("check_level", "check_host", "check_name", "check_found", "check_others", "check_remedy")
    found = sorted(report.findings, key=lambda finding: _CHECK_ORDER.index(finding.level))
    columns = tuple(Column(say(name), numeric=False) for name in names)
    return Table("", columns, tuple(tuple(map(cell, _check_row(context, finding))) for finding in found))


def _check_row(context: Context, finding: CheckFinding) -> tuple[str, ...]:
    return (
        finding.level.value,
        context.say.joined(finding.hosts),
        finding.check,
        finding.found,
        finding.others or "",
        finding.remedy or "",
    )
