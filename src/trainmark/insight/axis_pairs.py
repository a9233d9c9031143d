"""Pairs of cases of one result that differ in one axis or option, compared like two results."""

from collections.abc import Collection, Iterable, Mapping

from trainmark.errors import InputError, nearest
from trainmark.insight.comparison import (
    Row,
    all_differences,
    compared_rows,
    correlation_of_runs,
    doubted_cases,
    origin_of,
)
from trainmark.insight.findings import judged
from trainmark.measure.campaigns import TABLE_LEVEL
from trainmark.schema.case import Case, value_text
from trainmark.schema.comparison import Comparison, Side
from trainmark.schema.outcome import PartName
from trainmark.schema.results import CaseResult, Results

_SEARCHED = 200
"""The most cases among which the reason is searched why none can be paired."""


def compare_axis(
    results: Results,
    axis: str,
    base: str | None = None,
    path: str = "",
    within: float = 0.0,
    ignoring: Collection[str] = (),
) -> Comparison:
    """Return the comparison of cases that differ in ``axis`` only, each with the one that has the value ``base``.

    Without ``base``, the value of the suite's first case is the baseline. Verdicts have one level for the whole table.
    The axes and options in ``ignoring`` may differ as well.
    Raises ``InputError`` for an unknown axis or value, if no two cases differ in the axis alone, and if ``ignoring``
    gives a case two partners.
    """
    results = judged(results)
    _require_axis(results, axis)
    groups = _groups(results, axis, ignoring)
    first = _value(results.cases[0].case, axis) if base is None else base
    known = dict.fromkeys(value for group in groups.values() for value in group)
    if first not in known:
        raise InputError(
            f"--axis {axis}={first}: no case has this value{nearest(first, known)} ({', '.join(known)})"
        )
    rows = [
        Row((group[first],), case)
        for group in groups.values()
        if first in group
        for value, case in group.items()
        if value != first
    ]
    if not rows:
        also = _also_differing(results, axis)
        way = f"; they also differ in {also}: --ignoring {also} pairs them all the same" if also else ""
        raise InputError(f"{path}: no two cases differ in {axis} only ({axis}: {', '.join(known)}){way}")
    doubted, correlation = doubted_cases(results), correlation_of_runs(rows)
    compared = compared_rows(rows, None, within, [doubted, doubted], correlation)
    paired = {case.id for row in rows for case in (row.baseline, row.candidate)}
    origin = origin_of(results, path)
    return Comparison(
        baseline=origin,
        baselines=(origin,),
        candidate=origin,
        level=TABLE_LEVEL,
        judged=sum(case.significance is not None for case in compared),
        run_correlation=correlation,
        within=within,
        cases=compared,
        differences=tuple(
            found
            for found in all_differences(rows, [results], results, (*_other_axes(results, axis), *ignoring))
            # The words of the commands differ because the axis does.
            if found.what != PartName.COMMANDS
        ),
        only={
            Side.BASELINE: _alone((group for group in groups.values() if first in group), paired),
            Side.CANDIDATE: _alone((group for group in groups.values() if first not in group), paired),
        },
        axis=axis,
    )


def _groups(
    results: Results, axis: str, ignoring: Collection[str]
) -> dict[tuple[tuple[str, str], ...], dict[str, CaseResult]]:
    """Return the cases that are alike but for the axis and the ignored ones, by their value of the axis."""
    groups: dict[tuple[tuple[str, str], ...], dict[str, CaseResult]] = {}
    for case in results.cases:
        group = groups.setdefault(_without(case.case, {axis, *ignoring}), {})
        value = _value(case.case, axis)
        if value in group:
            raise InputError(
                f"{group[value].id} and {case.id} are the same case when {', '.join(ignoring)} is ignored: "
                "choose one of them with --only"
            )
        group[value] = case
    return groups


def _also_differing(results: Results, axis: str) -> str:
    """Return the axes and options, besides ``axis``, in which the two most similar cases of two values differ."""
    held = [
        (_value(case.case, axis), dict(_without(case.case, {axis}))) for case in results.cases[:_SEARCHED]
    ]
    differing = [
        [name for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name)]
        for number, (value, one) in enumerate(held)
        for other_value, other in held[number + 1 :]
        if value != other_value
    ]
    return ",".join(name.removeprefix("option ") for name in min(differing, key=len, default=[]))


def _alone(groups: Iterable[Mapping[str, CaseResult]], paired: set[str]) -> tuple[str, ...]:
    """Return the cases of these groups that have no partner."""
    return tuple(case.id for group in groups for case in group.values() if case.id not in paired)


def _other_axes(results: Results, axis: str) -> tuple[str, ...]:
    return (axis,) if axis in results.cases[0].case.axes else ("options",)


def _value(case: Case, axis: str) -> str:
    return value_text(case.value(axis) if axis in case.axes else case.options.get(axis, "none"))


def _without(case: Case, left_out: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return what the case has besides these axes and options."""
    shown = [name for name in case.axes if name != "options" and name not in left_out]
    axes = [(name, value_text(case.value(name))) for name in shown]
    options = [
        (f"option {name}", value_text(value)) for name, value in case.options.items() if name not in left_out
    ]
    return (*axes, *sorted(options))


def _require_axis(results: Results, axis: str) -> None:
    if not results.cases:
        raise InputError(f"--axis {axis}: the result has no cases")
    known = {name: None for case in results.cases for name in (*case.case.axes, *case.case.options)}
    if axis not in known or axis == "options":
        raise InputError(f"--axis {axis}: no case has this axis or option{nearest(axis, known)}")
