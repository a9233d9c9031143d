"""Comparison of two training logs: the ratio of their throughputs with an interval, and what differs in their facts.

The interval of a log is that of the mean step time over eight parts of its window, so that neighbouring records that
resemble each other do not make it look narrow. It says how far the number of this run may be from the run's own mean,
not how far another run would be.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

import numpy as np

from trainmark.errors import InputError
from trainmark.logs.model import ParsedLog
from trainmark.measure.rules.model import RuleResult
from trainmark.measure.rules.row import reading_problems
from trainmark.measure.statistics import student_t
from trainmark.measure.steadiness import PARTS, means_of_parts
from trainmark.tasks import same_unit

_NOT_COMPARED = ("global_batch",)


@dataclass(frozen=True, slots=True)
class LogSide:
    """One log: its number (units/s, all devices) with the interval (low, high), None if too few records show it."""

    log: str
    format: str | None
    unit: str | None
    throughput: float
    records: int
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class LogComparison:
    """Two logs: ``ratio`` is B over A, ``interval`` its 95 % interval; ``change`` is the verdict.

    ``change`` is ``faster``, ``slower`` or ``indistinguishable`` by the interval, or ``unknown`` without one.
    ``differences`` are facts and printed settings with the two values, None for one that is not printed.
    """

    baseline: LogSide
    candidate: LogSide
    ratio: float
    interval: tuple[float, float] | None
    change: str
    differences: Mapping[str, tuple[str | None, str | None]]


def compare_logs(
    baseline: tuple[ParsedLog, RuleResult], candidate: tuple[ParsedLog, RuleResult], within: float = 0.0
) -> LogComparison:
    """Return the comparison; raise ``InputError`` if a log has no number or the two count different units."""
    sides = [_side(*baseline), _side(*candidate)]
    units = [side.unit for side in sides]
    if units[0] and units[1] and not same_unit(units[0], units[1]):
        raise InputError(
            f"{sides[0].log} counts {units[0]} and {sides[1].log} {units[1]}: they cannot be compared as they are"
        )
    ratio = sides[1].throughput / sides[0].throughput
    interval = _ratio_interval(sides[0], sides[1], ratio)
    differences = dict(_differences(baseline[0], candidate[0]))
    return LogComparison(sides[0], sides[1], ratio, interval, _change(interval, within), differences)


def _side(log: ParsedLog, result: RuleResult) -> LogSide:
    if result.value is None:
        reasons = [problem.message for problem in reading_problems(log, result)]
        needs = f" (add {' '.join(result.needs)})" if result.needs else ""
        raise InputError(f"{log.log}: no throughput{needs}: {'; '.join(reasons[-2:]) or result.status}")
    width = _half_width(log, result.skipped)
    interval = None if width is None else (result.value * np.exp(-width), result.value * np.exp(width))
    return LogSide(log.log, log.format, log.unit, result.value, result.used, interval)


def _half_width(log: ParsedLog, skipped: int) -> float | None:
    """Return half the width of the 95 % interval on the logarithm; None for averages and for fewer than 16 records."""
    parts = means_of_parts(log, skipped) if log.records.average_rate is None else None
    if parts is None:
        return None
    return float(student_t(PARTS - 1) * np.log(parts).std(ddof=1) / np.sqrt(PARTS))


def _ratio_interval(one: LogSide, other: LogSide, ratio: float) -> tuple[float, float] | None:
    if one.interval is None or other.interval is None:
        return None
    widths = [np.log(side.interval[1] / side.throughput) for side in (one, other) if side.interval]
    width = float(np.hypot(*widths))
    return ratio * float(np.exp(-width)), ratio * float(np.exp(width))


def _change(interval: tuple[float, float] | None, within: float) -> str:
    if interval is None:
        return "unknown"
    if interval[0] > 1 + within:
        return "faster"
    return "slower" if interval[1] < 1 - within else "indistinguishable"


def _differences(one: ParsedLog, other: ParsedLog) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    for label, values in (
        ("format", (one.format, other.format)),
        ("framework", (one.framework, other.framework)),
    ):
        if values[0] != values[1]:
            yield label, values
    for fact in fields(one.facts):
        pair = getattr(one.facts, fact.name), getattr(other.facts, fact.name)
        if pair[0] != pair[1] and fact.name not in _NOT_COMPARED:
            yield fact.name, (_text(pair[0]), _text(pair[1]))
    if one.format != other.format:
        return  # settings of two programs have different names
    for name in sorted({*one.parameters, *other.parameters}):
        before, after = one.parameters.get(name), other.parameters.get(name)
        if before != after:
            yield name, (before, after)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
