"""Single runs and their ranks: failed and suspect runs with the reasons, all figures, commands, slow ranks."""

from collections.abc import Iterator, Sequence

from trainmark.insight.ranks import shown_ranks
from trainmark.report.blocks import Block, Cell, Code, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context, Mark, UnitPart
from trainmark.report.language import GIB, decimals, number, percent
from trainmark.report.sections.environment import named
from trainmark.schema.findings import Doubt, RanksFinding
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.names import LOG
from trainmark.schema.outcome import Outcome
from trainmark.schema.ranks import RankSpeed
from trainmark.schema.results import CaseResult, RunResult

MIB = 1 << 20
MOST_RANKS = 16
"""The largest number of ranks of a case that are shown by their logs."""


def not_ok(context: Context) -> Section:
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


def doubts(context: Context) -> Section:
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


def every_run(context: Context) -> Section | None:
    """Return the section, or None if nothing ran."""
    runs = {case.id: case.runs for case in context.results.cases}
    if not any(runs.values()):
        return None
    tables = [_runs(context, part) for part in context.parts if any(case.runs for case in part.cases)]
    caption = Paragraph(plain(context.say("runs_caption")))
    return Section("runs", context.say("runs_title"), (caption, *tables), folded=True)


def _runs(context: Context, part: UnitPart) -> Table:
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


def commands(context: Context) -> Section | None:
    """Return the section, or None if no run was started."""
    blocks = [block for case in context.results.cases for block in _blocks(context, case)]
    if not blocks:
        return None
    caption: Block = Paragraph(plain(context.say("commands_caption")))
    return Section("commands", context.say("commands_title"), (caption, *blocks), folded=True)


def _blocks(context: Context, case: CaseResult) -> list[Block]:
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
