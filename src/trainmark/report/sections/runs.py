"""Sections on the runs of a case: outcomes, doubts, figures, commands and ranks, and how the case was measured.

How it was measured: warm-up and steps, number of runs, short trial runs, `trainmark check`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from pydantic import ValidationError

from trainmark.insight.ranks import shown_ranks
from trainmark.report.blocks import Block, Cell, Chart, Code, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.charts import steps_chart
from trainmark.report.context import MOST_DRAWN, Context, Mark, UnitPart, by_unit
from trainmark.report.language import GIB, decimals, number, percent
from trainmark.report.sections.machine import named
from trainmark.schema.check import CheckFinding, CheckReport, Level
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.measurement import CannotSay, Measurement, Sampling, Steadiness
from trainmark.schema.names import CHECK, LOG
from trainmark.schema.outcome import Outcome
from trainmark.schema.ranks import RankSpeed
from trainmark.schema.results import (
    CaseResult,
    Doubt,
    Expected,
    RanksFinding,
    Repeats,
    RunResult,
    fastest,
    sound,
)

MIB = 1 << 20
MOST_RANKS = 16
"""The largest number of ranks of a case that are shown by their logs."""


def outcomes_section(context: Context) -> Section:
    """Return the section of the runs without a number."""
    say = context.say
    rows = []
    fitting = {found.case: found.batch for found in context.findings.fitting}
    for result in context.results.cases:
        name = context.axes.label(result.case)
        fits = say("batch_that_fits", batch=fitting[result.id]) if result.id in fitting else ""
        if not result.runs:
            rows.append(
                (
                    cell(name),
                    cell("-"),
                    cell(say.outcome(result.outcome)),
                    cell(say.translated(result.reason or "-")),
                    cell("-"),
                )
            )
        rows += [
            (
                cell(name),
                cell(str(run.repeat)),
                cell(say.outcome(run.outcome)),
                cell(say.translated(run.reason or "-") + (fits if run.outcome is Outcome.OOM else "")),
                Cell(context.log(run, LOG)),
            )
            for run in result.runs
            if run.outcome is not Outcome.OK
        ]
    if not rows:
        return Section("outcomes", say("outcomes_title"), (Paragraph(plain(say("all_ok"))),))
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_repeat")),
        Column(say("column_outcome"), numeric=False),
        Column(say("column_reason"), numeric=False),
        Column(say("column_log"), numeric=False),
    )
    blocks = (Paragraph(plain(say("outcomes_caption"))), Table("", columns, tuple(rows)))
    return Section("outcomes", say("outcomes_title"), blocks)


def doubts_section(context: Context) -> Section:
    """Return the section of the runs with a number that are marked as suspect."""
    say = context.say
    names = {result.id: context.axes.label(result.case) for result in context.results.cases}
    repeats: dict[tuple[str, str, str], list[str]] = {}
    for doubt in context.findings.doubts:
        text = f"{say.doubt(doubt.code, doubt.sentence)} ({doubt.code}){_causes(context, doubt)}"
        key = (names[doubt.case], say(f"about_{doubt.about.value}"), text)
        repeats.setdefault(key, []).append(str(doubt.repeat) if doubt.repeat else say("all_repeats"))
    rows = tuple(
        (cell(name), cell(", ".join(dict.fromkeys(numbers))), cell(about), Cell(plain(text)))
        for (name, about, text), numbers in repeats.items()
    )
    if not rows:
        return Section("suspect", say("suspect_title"), (Paragraph(plain(say("none_suspect"))),))
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_repeat")),
        Column(say("column_about"), numeric=False),
        Column(say("column_doubt"), numeric=False),
    )
    blocks = (Paragraph(plain(say("suspect_caption"))), Table("", columns, rows))
    return Section("suspect", say("suspect_title"), blocks)


def _causes(context: Context, doubt: Doubt) -> str:
    """Return the causes that may explain a doubt, as the end of its sentence."""
    say = context.say
    return say("caused_by", codes=say.joined(list(doubt.caused_by))) if doubt.caused_by else ""


def runs_section(context: Context) -> Section | None:
    """Return the section, or None if nothing ran."""
    runs = {case.id: case.runs for case in context.results.cases}
    if not any(runs.values()):
        return None
    tables = [_runs_table(context, part) for part in context.parts if any(case.runs for case in part.cases)]
    caption = Paragraph(plain(context.say("runs_caption")))
    return Section("runs", context.say("runs_title"), (caption, *tables), folded=True)


def _runs_table(context: Context, part: UnitPart) -> Table:
    say = context.say
    runs = [(case, run) for case in part.cases for run in case.runs]
    figures = [list(_figures(run)) for _, run in runs]
    places = [
        decimals(value for value in column if value is not None) for column in zip(*figures, strict=True)
    ]
    doubted = {(doubt.case, doubt.repeat) for doubt in context.findings.doubts}
    on_hosts = any(host != LOCALHOST for _, run in runs for host in run.hosts)
    on_cpus = any(run.cpu_s_per_sample is not None for _, run in runs)
    gates = any(run.inspection is not None for _, run in runs)
    rows = []
    for (case, run), values in zip(runs, figures, strict=True):
        cells = [
            cell("-" if value is None else number(value, p)) for value, p in zip(values, places, strict=True)
        ]
        cells[0] = _throughput(context, run, places[0], doubted=(case.id, run.repeat) in doubted)
        name, wait, log = context.axes.label(case.case), _wait(run), Cell(context.log(run, LOG))
        where = (cell(named(run.hosts) or "-"),) if on_hosts else ()
        more = (*((_cpu(run),) if on_cpus else ()), *((inspected(context, run),) if gates else ()))
        rows.append((cell(name), cell(str(run.repeat)), *where, *cells, wait, *more, log))
    measured = any(run.measurement for _, run in runs)
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_repeat")),
        *((Column(say("column_hosts"), numeric=False),) if on_hosts else ()),
        Column(say("column_throughput", unit=part.unit) if measured else say("throughput_title")),
        Column(say("column_window")),
        Column(say("column_step_p50")),
        Column(say("column_step_p99")),
        Column(say("column_first_step")),
        Column(say("column_peak_memory")),
        Column(say("column_data_wait")),
        *((Column(say("column_cpu")),) if on_cpus else ()),
        *((Column(say("column_looked"), numeric=False),) if gates else ()),
        Column(say("column_log"), numeric=False),
    )
    return Table("" if part.alone else part.unit, columns, tuple(rows), keys=2)


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


def _throughput(context: Context, run: RunResult, places: int, doubted: bool) -> Cell:
    if run.measurement is None:
        return cell(context.say.outcome(run.outcome))
    sign = Mark.DOUBT.value if doubted else ""
    return cell(f"{number(run.measurement.throughput, places)}{sign}")


def inspected(context: Context, run: RunResult) -> Cell:
    """Return how much the gates about the machine looked at during a run, or that they did not look."""
    found, say = run.inspection, context.say
    if found is None:
        return cell("-")
    parts = []
    if found.samples is not None and found.seconds is not None:
        parts.append(say("looked_at", samples=found.samples, seconds=f"{found.seconds:.3g}"))
    if found.unchecked:
        names = say.joined([check.gate.value for check in found.unchecked])
        parts.append(say("not_looked") if not parts else say("not_looked_by", names=names))
    return cell(say.joined(parts))


def _cpu(run: RunResult) -> Cell:
    return cell("-" if run.cpu_s_per_sample is None else f"{run.cpu_s_per_sample * 1000:.3g}")


def _wait(run: RunResult) -> Cell:
    share = run.measurement.data_wait if run.measurement else None
    return cell("-" if share is None else percent(share))


def commands_section(context: Context) -> Section | None:
    """Return the section, or None if no run was started."""
    blocks = [block for case in context.results.cases for block in _command_blocks(context, case)]
    if not blocks:
        return None
    caption: Block = Paragraph(plain(context.say("commands_caption")))
    return Section("commands", context.say("commands_title"), (caption, *blocks), folded=True)


def _command_blocks(context: Context, case: CaseResult) -> list[Block]:
    name, say, started = context.axes.label(case.case), context.say, runs_with_commands(case)
    different = runs_with_different_commands(case)
    key = "commands_of_all" if len(different) < len(started) else "commands_of_one"
    return [
        Code(say(key, case=name, n=len(started), repeat=run.repeat), "\n".join(run.commands))
        for run in different
    ]


def runs_with_commands(case: CaseResult) -> list[RunResult]:
    """Return the runs of a case that were started."""
    return [run for run in case.runs if run.commands]


def runs_with_different_commands(case: CaseResult) -> list[RunResult]:
    """Return the started runs of a case, or only the first if their commands differ at most in the repeat."""
    started = runs_with_commands(case)
    return started[:1] if len(started) > 1 and _differ_in_repeat_alone(started) else started


def _differ_in_repeat_alone(runs: Sequence[RunResult]) -> bool:
    """Return whether the runs' commands differ only in their folders and in words that end in the repeat's number.

    Such a word is the seed: ``--seed=3`` of the third repeat.
    """
    held = [_words(run) for run in runs]
    if len({len(words) for words in held}) > 1:
        return False
    for column in zip(*held, strict=True):
        stems = {word.removesuffix(str(run.repeat)) for word, run in zip(column, runs, strict=True)}
        counted = all(word.endswith(str(run.repeat)) for word, run in zip(column, runs, strict=True))
        if len(set(column)) > 1 and not (counted and len(stems) == 1):
            return False
    return True


def _words(run: RunResult) -> list[str]:
    """Return the commands' words, with a placeholder for the repeat's folder."""
    return [word for command in run.commands for word in command.replace(run.directory, "\0").split(" ")]


def ranks_section(context: Context) -> Section | None:
    """Return the section, or None if no case has several ranks with recorded times or with logs."""
    blocks = (*_by_events(context), *_by_logs(context))
    return Section("ranks", context.say("ranks_title"), blocks) if blocks else None


def _by_events(context: Context) -> tuple[Block, ...]:
    found = {finding.case: finding for finding in context.findings.ranks}
    cases = [case for case in context.results.cases if case.id in found]
    if not cases:
        return ()
    say = context.say
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("nodes")),
        Column(say("aspect_devices")),
        Column(say("column_slowest"), numeric=False),
        Column(say("column_slower_by")),
        Column(say("column_waits")),
        Column(say("column_all_reduce")),
        Column(say("column_all_reduce_share")),
        Column(say("column_began")),
    )
    rows = tuple(_ranks_row(context, case, found[case.id]) for case in cases)
    return (Paragraph(plain(say("ranks_caption"))), Table("", columns, rows))


def _by_logs(context: Context) -> tuple[Block, ...]:
    """Return the ranks of other projects' programs, by the last run of each case that has logs of several."""
    say = context.say
    rows: list[tuple[Cell, ...]] = []
    for case in context.results.cases:
        run = next((run for run in reversed(case.runs) if run.rank_logs is not None), None)
        if run is None or run.rank_logs is None:
            continue
        label = context.axes.label(case.case)
        rows += (_log_row(label, one) for one in shown_ranks(run.rank_logs, MOST_RANKS))
    if not rows:
        return ()
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_rank")),
        Column(say("column_host"), numeric=False),
        Column(say("column_rank_step")),
        Column(say("column_rank_data")),
        Column(say("column_rank_rate")),
        Column(say("column_rank_slower")),
    )
    caption = Paragraph(plain(say("rank_logs_caption", most=MOST_RANKS)))
    return (caption, Table("", columns, tuple(rows)))


def _log_row(label: str, one: RankSpeed) -> tuple[Cell, ...]:
    interval = "" if one.interval is None else f"[{one.interval[0]:+.1%}, {one.interval[1]:+.1%}]"
    return (
        cell(label),
        cell(str(one.rank)),
        cell(one.host or "-"),
        cell("-" if one.step_time_s is None else f"{number(one.step_time_s, None)} s"),
        cell("-" if one.data_time_s is None else f"{number(one.data_time_s, None)} s"),
        cell("-" if one.rate is None else number(one.rate, None)),
        cell("-" if one.slower_by is None else f"{one.slower_by:+.1%}", interval),
    )


def _ranks_row(context: Context, case: CaseResult, found: RanksFinding) -> tuple[Cell, ...]:
    return (
        cell(context.axes.label(case.case)),
        cell(str(case.case.nodes)),
        cell(str(case.case.world_size)),
        _ranks_slowest(context, found),
        cell("-" if found.slower_by is None else percent(found.slower_by)),
        cell("-" if found.waits is None else percent(found.waits)),
        _ranks_exchange(context, found),
        cell("-" if found.all_reduce_share is None else percent(found.all_reduce_share)),
        cell(*_began(found)),
    )


def _ranks_slowest(context: Context, found: RanksFinding) -> Cell:
    if found.slowest is None:
        return cell("-")
    of = context.say("rank_of_host", rank=found.slowest, host=found.host or "-")
    return cell(of, context.say("in_runs", times=found.times, n=found.told))


def _ranks_exchange(context: Context, found: RanksFinding) -> Cell:
    if found.all_reduce_s is None or found.all_reduce_bytes is None:
        return cell("-")
    size = f"{number(found.all_reduce_bytes / MIB, None)} MiB"
    rate = found.all_reduce_bus_bytes_per_s
    return cell(
        context.say("all_reduce_of", ms=number(found.all_reduce_s * 1e3, None), size=size),
        "" if rate is None else f"({number(rate / 1e9, None)} GB/s)",
    )


def _began(found: RanksFinding) -> tuple[str, str]:
    error = found.clock_error_s
    return f"{number(found.began_within_s * 1e3, 1)} ms", f"± {number(error * 1e3, 1)} ms" if error else ""


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
        if len(measured) > MOST_DRAWN:
            caption.append(say("steps_chart_first", n=MOST_DRAWN, of=len(measured)))
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
        (run.measurement.compile_s, run.parameters.from_compile_cache) for run in case.runs if run.measurement
    ]
    anew = _median(time for time, hit in times if not hit)
    return case.compiled_ahead_s if anew is None else anew, _median(time for time, hit in times if hit)


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
