"""Section on what each case was bound by, and the same as lines for the terminal."""

from trainmark.insight.bound import bound_details, bound_line
from trainmark.report.blocks import Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.report.numbers import percent
from trainmark.schema.bound import Bound, BoundFinding
from trainmark.schema.results import CaseResult


def section(context: Context) -> Section | None:
    """Return the section, or None if no case has a number."""
    found = _found(context)
    if not found:
        return None
    say = context.say
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_bound"), numeric=False),
        Column(say("column_bound_share")),
        Column(say("column_evidence"), numeric=False),
    )
    rows = tuple(_row(context, case, bound) for case, bound in found)
    return Section(
        "bound", say("bound_title"), (Paragraph(plain(say("bound_caption"))), Table("", columns, rows))
    )


def lines(context: Context) -> list[str]:
    """Return one paragraph: a title, and a line for each case that has a number; none if no case has one."""
    found = [
        context.say("bound_by", case=context.axes.label(case.case), what=bound_line(bound))
        for case, bound in _found(context)
    ]
    return ["\n".join([context.say("bound_title"), *found])] if found else []


def _found(context: Context) -> list[tuple[CaseResult, BoundFinding]]:
    by_case = {bound.case: bound for bound in context.findings.bounds}
    return [(case, by_case[case.id]) for case in context.results.cases if case.id in by_case]


def _row(context: Context, case: CaseResult, found: BoundFinding) -> tuple[Cell, ...]:
    some = context.say("in_runs", times=found.runs, n=found.of) if found.runs < found.of else ""
    share = found.share if found.bound is not Bound.COMPUTE else None
    return (
        cell(context.axes.label(case.case)),
        cell(context.say(f"bound_{found.bound.value.replace('-', '_')}"), some),
        cell("-" if share is None else percent(share)),
        cell(bound_details(found)),
    )
