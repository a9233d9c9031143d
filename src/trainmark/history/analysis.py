"""Analyse the history of a case: its changes of level with their causes, and its noise."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from trainmark.history.causes import cause_of, differences
from trainmark.history.change_points import LEAST_AFTER, LEAST_CHANGE, LEAST_POINTS, Found, find_changes
from trainmark.history.points import Point, machines_of
from trainmark.printable import counted
from trainmark.schema.history import CaseHistory, HistoryPoint, HistoryReport, LevelChange, Noise


def analyse(
    cases: Mapping[str, Sequence[Point]],
    sources: Sequence[str],
    least: float = LEAST_CHANGE,
    since: datetime | None = None,
) -> HistoryReport:
    """Return the histories of all cases; changes smaller than ``least`` (0.015 is 1.5 %) do not count."""
    return HistoryReport(
        sources=tuple(sources),
        least=least,
        since=since,
        cases=tuple(analyse_case(case, points, least) for case, points in cases.items()),
    )


def analyse_case(case: str, points: Sequence[Point], least: float = LEAST_CHANGE) -> CaseHistory:
    """Return the history of one case, whose points are in the order of time."""
    numbers, names = machines_of(points)
    unit = points[-1].unit if points else ""
    if (reason := _no_analysis(points)) is not None:
        shown = tuple(
            _point(point, names[number], False, point.value)
            for point, number in zip(points, numbers, strict=True)
        )
        return CaseHistory(
            case=case, unit=unit, points=shown, machines=names, changes=(), noise=None, reason=reason
        )
    found = find_changes([math.log(point.value) for point in points], numbers, least)
    shown = tuple(
        _point(point, names[number], bool(spike), math.exp(level))
        for point, number, spike, level in zip(points, numbers, found.spikes, found.levels, strict=True)
    )
    return CaseHistory(
        case=case,
        unit=unit,
        points=shown,
        machines=names,
        changes=_changes(points, found),
        noise=Noise(
            spread=found.spread,
            spikes=int(found.spikes.sum()),
            correlation=found.correlation,
            drift=None if found.drift is None else math.expm1(found.drift),
            levels=None if found.two_levels is None else math.exp(found.two_levels),
        ),
    )


def _no_analysis(points: Sequence[Point]) -> str | None:
    if len(units := dict.fromkeys(point.unit for point in points)) > 1:
        return f"the results have different units ({', '.join(units)})"
    if len(points) < LEAST_POINTS:
        return f"{counted(len(points), 'result')}, but a search for changes needs {LEAST_POINTS}"
    return None


def _point(point: Point, machine: str, spike: bool, level: float) -> HistoryPoint:
    return HistoryPoint(
        source=point.source,
        at=point.at,
        machine=machine,
        value=point.value,
        runs=point.runs,
        spike=spike,
        level=level,
    )


def _changes(points: Sequence[Point], found: Found) -> tuple[LevelChange, ...]:
    places = [0, *(step.index for step in found.steps), len(points)]
    changes = []
    for number, step in enumerate(found.steps, start=1):
        facts = differences(points, step, places[number - 1], places[number + 1])
        changes.append(
            LevelChange(
                index=step.index,
                earliest=step.earliest,
                latest=step.latest,
                ratio=math.exp(step.size),
                score=step.score,
                confirmed=step.confirmed,
                needed=LEAST_AFTER,
                cause=cause_of(step, facts),
                differences=facts,
            )
        )
    return tuple(changes)
