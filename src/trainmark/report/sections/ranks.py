"""Section on the ranks: slow and waiting ones, the time of the gradient exchange, the starts of windows."""

from trainmark.report.blocks import Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.report.numbers import number, percent
from trainmark.schema.findings import RanksFinding
from trainmark.schema.results import CaseResult

MIB = 1 << 20


def section(context: Context) -> Section | None:
    """Return the section, or None if no case has several ranks with recorded times."""
    found = {finding.case: finding for finding in context.findings.ranks}
    cases = [case for case in context.results.cases if case.id in found]
    if not cases:
        return None
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
    caption = Paragraph(plain(say("ranks_caption")))
    return Section("ranks", say("ranks_title"), (caption, Table("", columns, rows)))


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
