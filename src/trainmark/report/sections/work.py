"""Section on a case's further counters, and its share of the measured peaks."""

from collections.abc import Sequence
from statistics import median

from trainmark.report.axes import by_unit
from trainmark.report.blocks import Block, Column, Paragraph, Section, Table, cell, plain
from trainmark.report.context import Context, marks, of_marks
from trainmark.report.numbers import decimals, number, percent
from trainmark.schema.measurement import Measurement
from trainmark.schema.results import CaseResult, pooled


def section(context: Context) -> Section | None:
    """Return the section with one table per headline unit, or None if no case has further counters or a peak."""
    say = context.say
    reported = [case for case in context.results.cases if any(_has_more(found) for found in _measured(case))]
    if not reported:
        return None
    tables: list[Block] = [_table(context, cases) for cases in by_unit(reported).values()]
    return Section("work", say("work_title"), (Paragraph(plain(say("work_caption"))), *tables))


def _measured(case: CaseResult) -> list[Measurement]:
    return [run.measurement for run in pooled(case.runs) if run.measurement is not None]


def _has_more(found: Measurement) -> bool:
    return len(found.work) > 1 or bool(found.mfu) or _is_above_its_peak(found)


def _is_above_its_peak(found: Measurement) -> bool:
    return found.peak_operations_per_s is not None and not found.mfu


def _table(context: Context, cases: Sequence[CaseResult]) -> Table:
    say = context.say
    floors = [_median([one.roofline for one in _measured(case) if one.roofline]) for case in cases]
    has_floor = any(floors)
    counters = list(dict.fromkeys(name for case in cases for found in _measured(case) for name in found.work))
    conventions = list(
        dict.fromkeys(name for case in cases for found in _measured(case) for name in found.mfu)
    )
    rates = {name: [_rate(case, name) for case in cases] for name in counters}
    places = {name: decimals(rate for rate in column if rate) for name, column in rates.items()}
    rows = []
    for index, case in enumerate(cases):
        shares = (_share(case, name) for name in conventions)
        of_counters = ((rates[name][index], places[name]) for name in counters)
        signs = "".join(marks(context, case))
        rows.append(
            (
                cell(context.axes.label(case.case)),
                *(
                    cell("-" if rate is None else number(rate, digits) + signs)
                    for rate, digits in of_counters
                ),
                *(
                    cell("-" if share is None else percent(share) + signs)
                    for share in (*shares, *([floors[index]] if has_floor else []))
                ),
            )
        )
    columns = (
        Column(say("column_case"), numeric=False),
        *(Column(f"{name.replace('_', ' ')}/s") for name in counters),
        *(Column(say("column_mfu", convention=name)) for name in conventions),
        *([Column(say("column_roofline"))] if has_floor else []),
    )
    above = [case for case in cases if any(_is_above_its_peak(found) for found in _measured(case))]
    notes = of_marks(context, cases)
    notes += [say("above_the_peak", case=context.axes.label(case.case)) for case in above]
    return Table("", columns, tuple(rows), tuple(notes))


def _rate(case: CaseResult, counter: str) -> float | None:
    """Return the median over the runs of a counter's amount over the window."""
    return _median(
        [
            found.work[counter] / found.window_s
            for found in _measured(case)
            if found.window_s and counter in found.work
        ]
    )


def _share(case: CaseResult, convention: str) -> float | None:
    """Return the median share of the peak, for the highest peak that any of the runs measured.

    A peak is what the devices can reach: a disturbed measurement of it is too low and makes the share too high.
    """
    reported = [
        (found.mfu[convention], found.peak_operations_per_s)
        for found in _measured(case)
        if convention in found.mfu
    ]
    highest = max((peak for _, peak in reported if peak), default=0.0)
    return _median([share * peak / highest if peak else share for share, peak in reported])


def _median(values: list[float]) -> float | None:
    return median(values) if values else None
