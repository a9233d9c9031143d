"""What did not end ok, with the reason and the log; and what is kept but doubted, with the doubt."""

from trainmark.report.blocks import Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.suite import Outcome


def not_ok(context: Context) -> Section:
    """Return the section of the runs that gave no number."""
    say = context.say
    rows = []
    for result in context.results.cases:
        name = context.axes.label(result.case)
        if not result.runs:
            rows.append(
                (
                    cell(name),
                    cell("-"),
                    cell(say.outcome(result.outcome)),
                    cell(result.reason or "-"),
                    cell("-"),
                )
            )
        rows += [
            (
                cell(name),
                cell(str(run.repeat)),
                cell(say.outcome(run.outcome)),
                cell(run.reason or "-"),
                Cell(context.log(run, "train.log")),
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
    """Return the section of the runs whose number stands, marked as suspect."""
    say = context.say
    names = {result.id: context.axes.label(result.case) for result in context.results.cases}
    rows = tuple(
        (
            cell(names[doubt.case]),
            cell(str(doubt.repeat)),
            cell(say(f"about_{doubt.about.value}")),
            Cell((*plain(doubt.sentence), *plain(f" ({doubt.code})"))),
        )
        for doubt in context.findings.doubts
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
