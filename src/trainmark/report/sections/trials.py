"""Section on the short runs of cases that request an axis' best value: candidates and choice."""

from trainmark.report.axes import by_unit
from trainmark.report.blocks import Block, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.report.numbers import decimals, number
from trainmark.schema.results import CaseResult, fastest

TAKEN = "✓"


def section(context: Context) -> Section | None:
    """Return the section with one table per unit, or None if no case has open axes."""
    say = context.say
    groups = by_unit([result for result in context.results.cases if result.trials])
    if not groups:
        return None
    tables: list[Block] = [_table(context, unit, results) for unit, results in groups.items()]
    return Section("trials", say("trials_title"), (Paragraph(plain(say("trials_caption"))), *tables))


def _table(context: Context, unit: str, results: list[CaseResult]) -> Table:
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
