"""Pairs of cases of one result that differ in one axis or option, compared like two results."""

from collections.abc import Iterable, Mapping

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
from trainmark.schema.results import CaseResult, Results


def compare_axis(
    results: Results, axis: str, base: str | None = None, path: str = "", within: float = 0.0
) -> Comparison:
    """Return the comparison of cases that differ in ``axis`` only, each with the one that has the value ``base``.

    Without ``base``, the value of the suite's first case is the baseline. Verdicts have one level for the whole table.
    Raises ``InputError`` for an unknown axis or value, and if no two cases differ in the axis alone.
    """
    results = judged(results)
    _require_axis(results, axis)
    groups: dict[tuple[tuple[str, str], ...], dict[str, CaseResult]] = {}
    for case in results.cases:
        groups.setdefault(_without(case.case, axis), {})[_value(case.case, axis)] = case
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
        raise InputError(f"{path}: no two cases differ in {axis} only ({axis}: {', '.join(known)})")
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
        differences=all_differences(rows, [results], results, _other_axes(results, axis)),
        only={
            Side.BASELINE: _alone((group for group in groups.values() if first in group), paired),
            Side.CANDIDATE: _alone((group for group in groups.values() if first not in group), paired),
        },
        axis=axis,
    )


def _alone(groups: Iterable[Mapping[str, CaseResult]], paired: set[str]) -> tuple[str, ...]:
    """Return the cases of these groups that have no partner."""
    return tuple(case.id for group in groups for case in group.values() if case.id not in paired)


def _other_axes(results: Results, axis: str) -> tuple[str, ...]:
    return (axis,) if axis in results.cases[0].case.axes else ("options",)


def _value(case: Case, axis: str) -> str:
    return value_text(case.value(axis) if axis in case.axes else case.options.get(axis, "none"))


def _without(case: Case, axis: str) -> tuple[tuple[str, str], ...]:
    """Return what the case has besides the axis."""
    axes = [(name, value_text(case.value(name))) for name in case.axes if name not in (axis, "options")]
    options = [(f"option {name}", value_text(value)) for name, value in case.options.items() if name != axis]
    return (*axes, *sorted(options))


def _require_axis(results: Results, axis: str) -> None:
    if not results.cases:
        raise InputError(f"--axis {axis}: the result has no cases")
    known = {name: None for case in results.cases for name in (*case.case.axes, *case.case.options)}
    if axis not in known or axis == "options":
        raise InputError(f"--axis {axis}: no case has this axis or option{nearest(axis, known)}")
