"""Sections on what a case was limited by and what it used: bound, energy, counters and peaks, profiled steps."""

from collections.abc import Iterator, Sequence
from statistics import median

from trainmark.insight.bound import bound_line, other_causes
from trainmark.insight.profiles import ProfiledSide, is_distant, profiled_side
from trainmark.measure.energy import joules_text
from trainmark.report.blocks import Block, Cell, Column, Paragraph, Section, Span, Style, Table, cell, plain
from trainmark.report.context import Context, by_unit, marks, of_marks
from trainmark.report.language import Language, decimals, number, percent
from trainmark.schema.energy import EnergyFinding
from trainmark.schema.findings import Bound, BoundFinding
from trainmark.schema.measurement import Measurement
from trainmark.schema.profile import StepProfile, WorkKind
from trainmark.schema.results import CaseResult, pooled

_LONGEST = 60
"""Names of kernels can have hundreds of characters."""


def bound_section(context: Context) -> Section | None:
    """Return the section, or None if no case has a number."""
    found = _bound_found(context)
    if not found:
        return None
    say = context.say
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_bound"), numeric=False),
        Column(say("column_bound_share")),
        Column(say("column_evidence"), numeric=False),
    )
    rows = tuple(_bound_row(context, case, bound) for case, bound in found)
    return Section(
        "bound", say("bound_title"), (Paragraph(plain(say("bound_caption"))), Table("", columns, rows))
    )


def bound_lines(context: Context) -> list[str]:
    """Return one paragraph: a title, and a line for each case that has a number; none if no case has one."""
    found = [
        context.say("bound_by", case=context.axes.label(case.case), what=_line(context, bound))
        for case, bound in _bound_found(context)
    ]
    return ["\n".join([context.say("bound_title"), *found])] if found else []


def _bound_found(context: Context) -> list[tuple[CaseResult, BoundFinding]]:
    by_case = {bound.case: bound for bound in context.findings.bounds}
    return [(case, by_case[case.id]) for case in context.results.cases if case.id in by_case]


def _line(context: Context, found: BoundFinding) -> str:
    """Return the answer in one line: the cause, and the evidence with its share."""
    if context.say.language is Language.EN:
        return bound_line(found)
    some = context.say("in_runs", times=found.runs, n=found.of) if found.runs < found.of else ""
    cause = context.say(f"bound_{found.bound.value.replace('-', '_')}")
    return context.say("colon").join(filter(None, (cause, some, _details(context, found))))


def _details(context: Context, found: BoundFinding) -> str:
    """Return the evidence, in brackets that of other causes, and how to find out more."""
    say = context.say
    text = say.translated(found.sentence)
    if others := other_causes(found):
        text = say("bound_others", text=text, others=say("semicolon").join(map(say.translated, others)))
    if found.settle is None:
        return text
    known = found.bound is not Bound.UNKNOWN
    settle = say.translated(found.settle, "; or ")
    return say("bound_settle_more" if known else "bound_settle", text=text, settle=settle)


def _bound_row(context: Context, case: CaseResult, found: BoundFinding) -> tuple[Cell, ...]:
    some = context.say("in_runs", times=found.runs, n=found.of) if found.runs < found.of else ""
    share = found.share if found.bound is not Bound.COMPUTE else None
    return (
        cell(context.axes.label(case.case)),
        cell(context.say(f"bound_{found.bound.value.replace('-', '_')}"), some),
        cell("-" if share is None else percent(share)),
        cell(_details(context, found)),
    )


def energy_section(context: Context) -> Section | None:
    """Return the section; None if no case has an energy."""
    by_case = {found.case: found for found in context.findings.energy}
    found = [(case, by_case[case.id]) for case in context.results.cases if case.id in by_case]
    if not found:
        return None
    say = context.say
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_joules")),
        Column(say("column_watts")),
        Column(say("column_energy_of"), numeric=False),
    )
    rows = tuple(_energy_row(context, case, energy) for case, energy in found)
    return Section(
        "energy", say("energy_title"), (Paragraph(plain(say("energy_caption"))), Table("", columns, rows))
    )


def _energy_row(context: Context, case: CaseResult, found: EnergyFinding) -> tuple[Cell, ...]:
    return (
        cell(context.axes.label(case.case)),
        energy_cell(found),
        cell(f"{found.watts:.0f} W"),
        cell(context.say(f"energy_{found.source.value.replace('-', '_')}", n=found.devices)),
    )


def energy_cell(found: EnergyFinding | None) -> Cell:
    """Return the joules of one unit of work with their interval; a dash where they were not measured."""
    if found is None:
        return cell("-")
    bounds = found.interval
    detail = "" if bounds is None else f"[{joules_text(bounds.low)}, {joules_text(bounds.high)}]"
    return cell(f"{joules_text(found.per_unit_j)} / {found.unit}", detail)


def work_section(context: Context) -> Section | None:
    """Return the section with one table per headline unit, or None if no case has further counters or a peak."""
    say = context.say
    reported = [
        case for case in context.results.cases if any(_has_more(found) for found in _work_measured(case))
    ]
    if not reported:
        return None
    tables: list[Block] = [_work_table(context, cases) for cases in by_unit(reported).values()]
    return Section("work", say("work_title"), (Paragraph(plain(say("work_caption"))), *tables))


def _work_measured(case: CaseResult) -> list[Measurement]:
    return [run.measurement for run in pooled(case.runs) if run.measurement is not None]


def _has_more(found: Measurement) -> bool:
    return len(found.work) > 1 or bool(found.mfu) or _is_above_its_peak(found)


def _is_above_its_peak(found: Measurement) -> bool:
    return found.peak_operations_per_s is not None and not found.mfu


def _work_table(context: Context, cases: Sequence[CaseResult]) -> Table:
    say = context.say
    floors = [_median([one.roofline for one in _work_measured(case) if one.roofline]) for case in cases]
    has_floor = any(floors)
    counters = list(
        dict.fromkeys(name for case in cases for found in _work_measured(case) for name in found.work)
    )
    conventions = list(
        dict.fromkeys(name for case in cases for found in _work_measured(case) for name in found.mfu)
    )
    rates = {name: [_work_rate(case, name) for case in cases] for name in counters}
    places = {name: decimals(rate for rate in column if rate) for name, column in rates.items()}
    rows = []
    for index, case in enumerate(cases):
        shares = (_work_share(case, name) for name in conventions)
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
    above = [case for case in cases if any(_is_above_its_peak(found) for found in _work_measured(case))]
    notes = of_marks(context, cases)
    notes += [say("above_the_peak", case=context.axes.label(case.case)) for case in above]
    return Table("", columns, tuple(rows), tuple(notes))


def _work_rate(case: CaseResult, counter: str) -> float | None:
    """Return the median over the runs of a counter's amount over the window."""
    return _median(
        [
            found.work[counter] / found.window_s
            for found in _work_measured(case)
            if found.window_s and counter in found.work
        ]
    )


def _work_share(case: CaseResult, convention: str) -> float | None:
    """Return the median share of the peak, for the highest peak that any of the runs measured.

    A peak is what the devices can reach: a disturbed measurement of it is too low and makes the share too high.
    """
    reported = [
        (found.mfu[convention], found.peak_operations_per_s)
        for found in _work_measured(case)
        if convention in found.mfu
    ]
    highest = max((peak for _, peak in reported if peak), default=0.0)
    return _median([share * peak / highest if peak else share for share, peak in reported])


def _median(values: list[float]) -> float | None:
    return median(values) if values else None


def profile_section(context: Context) -> Section | None:
    """Return the section with two tables for each profiled case; None if no case has a profiled run."""
    cases = [case for case in context.results.cases if case.profile is not None]
    if not cases:
        return None
    blocks: list[Block] = [Paragraph(plain(context.say("profile_caption")))]
    for case in cases:
        blocks += _profile_blocks(context, case)
    return Section("profile", context.say("profile_title"), tuple(blocks), folded=len(cases) > 2)


def _profile_blocks(context: Context, case: CaseResult) -> Iterator[Block]:
    side, label = profiled_side(case), context.axes.label(case.case)
    if side is None:
        assert case.profile is not None
        outcome, reason = context.say.outcome(case.profile.outcome), case.profile.reason or ""
        yield Paragraph(plain(context.say("profile_none", case=label, outcome=outcome, reason=reason)))
        return
    yield Paragraph(plain(_profile_steps(context, label, side)))
    if is_distant(side):
        yield Paragraph(plain(context.say("profile_distant")))
    yield _profile_kinds(context, label, side.profile)
    if side.profile.operations:
        yield _profile_operations(context, side.profile)


def _profile_steps(context: Context, label: str, side: ProfiledSide) -> str:
    say = context.say
    known = (
        ("profile_step", side.profile.step_s),
        ("profile_plain_step", side.case.plain_step_s),
        ("profile_measured_step", side.measured_step_s),
    )
    steps = [say(key, seconds=_milliseconds(seconds)) for key, seconds in known if seconds is not None]
    return say("profile_steps", case=label, steps=say("comma").join(steps), n=side.profile.steps)


def _profile_kinds(context: Context, label: str, profile: StepProfile) -> Table:
    say = context.say
    columns = (
        Column(say("column_kind"), numeric=False),
        Column(say("column_step_ms")),
        Column(say("column_step_share")),
    )
    places = decimals([profile.step_s * 1e3])
    order = sorted(profile.kinds.items(), key=lambda item: -item[1])
    rows: list[tuple[Cell, ...]] = [
        _profile_row(context, kind, seconds, profile, places) for kind, seconds in order
    ]
    rows.append((cell(say("profile_sum")), cell(number(profile.step_s * 1e3, places)), cell(percent(1.0))))
    hidden = (
        ("profile_hidden_communication", profile.communication_hidden_s),
        ("profile_hidden_copies", profile.copy_hidden_s),
    )
    notes = tuple(say(key, seconds=_milliseconds(seconds)) for key, seconds in hidden if seconds)
    return Table(label, columns, tuple(rows), footnotes=notes)


def _profile_row(
    context: Context, kind: WorkKind, seconds: float, profile: StepProfile, places: int
) -> tuple[Cell, ...]:
    name = context.say(f"kind_{kind.value.replace('-', '_')}")
    return cell(name), cell(number(seconds * 1e3, places)), cell(percent(seconds / profile.step_s))


def _profile_operations(context: Context, profile: StepProfile) -> Table:
    say = context.say
    columns = (
        Column(say("column_operation"), numeric=False),
        Column(say("column_kind"), numeric=False),
        Column(say("column_step_ms")),
        Column(say("column_step_share")),
    )
    rows = tuple(
        (
            Cell((Span(one.name[:_LONGEST], Style.CODE),)),
            cell(say(f"kind_{one.kind.value.replace('-', '_')}")),
            cell(number(one.seconds * 1e3)),
            cell(percent(one.seconds / profile.step_s)),
        )
        for one in profile.operations
    )
    return Table("", columns, rows)


def _milliseconds(seconds: float) -> str:
    return f"{number(seconds * 1e3)} ms"
