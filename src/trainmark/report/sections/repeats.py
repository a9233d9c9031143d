"""Section on the number of runs of each case in an adaptive campaign, and the gain of more runs."""

from trainmark.report.blocks import Cell, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context
from trainmark.report.numbers import percent
from trainmark.schema.measurement import Sampling
from trainmark.schema.results import CaseResult, Expected, Repeats, sound


def section(context: Context) -> Section | None:
    """Return the section, or None if the number of runs was fixed or an older trainmark wrote the results."""
    results, say = context.results, context.say
    cases = [case for case in results.cases if case.repeats is not None and case.estimate is not None]
    if results.protocol.sampling is Sampling.FIXED or not cases:
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
                cell(_runs(context, case, found)),
                cell(say(f"ended_{ended}")),
                cell("-" if found.half_width is None else f"±{percent(found.half_width)}"),
                cell("-" if found.to_target is None else str(found.to_target.runs)),
                _expected(context, found.twice),
                _expected(context, found.dlperf),
            )
        )
    caption = say("repeats_caption", protocol=results.protocol.name.value, target=target)
    return Section(
        "repeats", say("repeats_title"), (Paragraph(plain(caption)), Table("", columns, tuple(rows)))
    )


def _runs(context: Context, case: CaseResult, found: Repeats) -> str:
    if not found.spoiled:
        return context.say("runs_alone", runs=found.runs)
    # If the machine disturbed every run, the disturbed runs are the ones that count.
    counted = "runs_and_spoiled" if sound(case.runs) else "runs_all_spoiled"
    return context.say(counted, runs=found.runs, spoiled=found.spoiled)


def _expected(context: Context, found: Expected | None) -> Cell:
    if found is None:
        return cell("-")
    if found.half_width is None:
        return cell(context.say("runs_alone", runs=found.runs))
    return cell(context.say("runs_half_width", runs=found.runs, half=percent(found.half_width)))
