"""Section on the ranks: slow and waiting ones, the gradient exchange, the starts of windows; ranks by their logs."""

from trainmark.insight.ranks import shown_ranks
from trainmark.report.blocks import Block, Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.report.numbers import number, percent
from trainmark.schema.findings import RanksFinding
from trainmark.schema.ranks import RankSpeed
from trainmark.schema.results import CaseResult

MIB = 1 << 20


MOST_RANKS = 16
"""The largest number of ranks of a case that are shown by their logs."""


def section(context: Context) -> Section | None:
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
    rows = tuple(_row(context, case, found[case.id]) for case in cases)
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


def _row(context: Context, case: CaseResult, found: RanksFinding) -> tuple[Cell, ...]:
    return (
        cell(context.axes.label(case.case)),
        cell(str(case.case.nodes)),
        cell(str(case.case.world_size)),
        _slowest(context, found),
        cell("-" if found.slower_by is None else percent(found.slower_by)),
        cell("-" if found.waits is None else percent(found.waits)),
        _exchange(context, found),
        cell("-" if found.all_reduce_share is None else percent(found.all_reduce_share)),
        cell(*_began(found)),
    )


def _slowest(context: Context, found: RanksFinding) -> Cell:
    if found.slowest is None:
        return cell("-")
    of = context.say("rank_of_host", rank=found.slowest, host=found.host or "-")
    return cell(of, context.say("in_runs", times=found.times, n=found.told))


def _exchange(context: Context, found: RanksFinding) -> Cell:
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
