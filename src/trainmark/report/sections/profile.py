"""Section on the profiled runs: the seconds of a step by kind of operation, and the most expensive operations."""

from collections.abc import Iterator

from trainmark.insight.profiles import ProfiledSide, is_distant, profiled_side
from trainmark.report.blocks import Block, Cell, Column, Paragraph, Section, Span, Style, Table, cell, plain
from trainmark.report.context import Context
from trainmark.report.numbers import decimals, number, percent
from trainmark.schema.profile import StepProfile, WorkKind
from trainmark.schema.results import CaseResult


def section(context: Context) -> Section | None:
    """Return the section with two tables for each profiled case; None if no case has a profiled run."""
    cases = [case for case in context.results.cases if case.profile is not None]
    if not cases:
        return None
    blocks: list[Block] = [Paragraph(plain(context.say("profile_caption")))]
    for case in cases:
        blocks += _blocks(context, case)
    return Section("profile", context.say("profile_title"), tuple(blocks), folded=len(cases) > 2)


def _blocks(context: Context, case: CaseResult) -> Iterator[Block]:
    side, label = profiled_side(case), context.axes.label(case.case)
    if side is None:
        assert case.profile is not None
        outcome, reason = context.say.outcome(case.profile.outcome), case.profile.reason or ""
        yield Paragraph(plain(context.say("profile_none", case=label, outcome=outcome, reason=reason)))
        return
    yield Paragraph(plain(_steps(context, label, side)))
    if is_distant(side):
        yield Paragraph(plain(context.say("profile_distant")))
    yield _kinds(context, label, side.profile)
    if side.profile.operations:
        yield _operations(context, side.profile)


def _steps(context: Context, label: str, side: ProfiledSide) -> str:
    say = context.say
    known = (
        ("profile_step", side.profile.step_s),
        ("profile_plain_step", side.case.plain_step_s),
        ("profile_measured_step", side.measured_step_s),
    )
    steps = [say(key, seconds=_milliseconds(seconds)) for key, seconds in known if seconds is not None]
    return say("profile_steps", case=label, steps=say("comma").join(steps), n=side.profile.steps)


def _kinds(context: Context, label: str, profile: StepProfile) -> Table:
    say = context.say
    columns = (
        Column(say("column_kind"), numeric=False),
        Column(say("column_step_ms")),
        Column(say("column_step_share")),
    )
    places = decimals([profile.step_s * 1e3])
    order = sorted(profile.kinds.items(), key=lambda item: -item[1])
    rows: list[tuple[Cell, ...]] = [_row(context, kind, seconds, profile, places) for kind, seconds in order]
    rows.append((cell(say("profile_sum")), cell(number(profile.step_s * 1e3, places)), cell(percent(1.0))))
    hidden = (
        ("profile_hidden_communication", profile.communication_hidden_s),
        ("profile_hidden_copies", profile.copy_hidden_s),
    )
    notes = tuple(say(key, seconds=_milliseconds(seconds)) for key, seconds in hidden if seconds)
    return Table(label, columns, tuple(rows), footnotes=notes)


def _row(
    context: Context, kind: WorkKind, seconds: float, profile: StepProfile, places: int
) -> tuple[Cell, ...]:
    name = context.say(f"kind_{kind.value.replace('-', '_')}")
    return cell(name), cell(number(seconds * 1e3, places)), cell(percent(seconds / profile.step_s))


def _operations(context: Context, profile: StepProfile) -> Table:
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


_LONGEST = 60
"""Names of kernels can have hundreds of characters."""


def _milliseconds(seconds: float) -> str:
    return f"{number(seconds * 1e3)} ms"
