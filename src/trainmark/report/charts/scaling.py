"""Speedup and efficiency over devices, against the ideal."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainmark.measure import scaled
from trainmark.report.axes import DEVICES
from trainmark.report.charts.drawing import (
    GRID,
    INK,
    LINE,
    MUTED,
    REACH,
    Drawing,
    Panel,
    clipped,
    colours,
    line,
    lines_of,
    marker,
    text,
    text_width,
    ticks,
)
from trainmark.report.context import Context, UnitPart, marks_of_ratio
from trainmark.schema.findings import RatioKind

MOST_SERIES = 12
"""The largest number of lines that a reader can tell apart; the table has all cases."""

WIDTH, HEIGHT = 400, 280
LEFT, BOTTOM, TOP, RIGHT = 52, 42, 26, 14

Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """A case: speedup and efficiency (%) with their intervals' ends (None if unknown), and its signs."""

    series: str
    devices: int
    speedup: float
    low: float | None
    high: float | None
    efficiency: float
    efficiency_low: float | None
    efficiency_high: float | None
    mark: str


@dataclass(frozen=True, slots=True)
class _Value:
    devices: int
    value: float
    low: float | None
    high: float | None


def scaling_chart(context: Context, part: UnitPart) -> Drawing | None:
    """Return the chart, or None if no speedup is known for more than one device.

    The left panel has the speedup, on logarithmic axes so that the ideal is a straight line; the right one has the
    efficiency, on an axis that shows the differences.
    """
    points = scaling_points(context, part)
    measured = [point for point in points if point.devices > 1]
    if not measured or len({point.series for point in measured}) > MOST_SERIES:
        return None
    return Drawing(lambda: _drawn(context, points), columns=2)


def speedup_limits(points: Sequence[ScalingPoint]) -> tuple[float, float]:
    """Return the ends of the speedup's axis: whiskers far outside are cut off."""
    slowest = min(1.0, *(point.speedup for point in points))
    lowest = max(slowest / REACH, min(slowest, *(point.low or 1.0 for point in points)))
    most = max(point.devices for point in points)
    return lowest, max(most, *(point.speedup for point in points)) * 1.1


def _drawn(context: Context, points: Sequence[ScalingPoint]) -> list[Panel]:
    sizes = sorted({point.devices for point in points} | {1})
    low, high = speedup_limits(points)
    speedup = _panel(
        context,
        points,
        sizes,
        "axis_speedup",
        ([size for size in sizes if low <= size <= high], math.log2(low), math.log2(high), math.log2),
        lambda point: _Value(point.devices, point.speedup, point.low, point.high),
        [(sizes[0], sizes[0]), (sizes[-1], sizes[-1])],
    )
    best = max(100.0, *(point.efficiency for point in points))
    bounds = [
        value
        for point in points
        for value in (point.efficiency_low, point.efficiency_high)
        if value is not None
    ]
    values = [point.efficiency for point in points] + bounds
    top, bottom = min(REACH * best, max(best, *values)), min(values)
    margin = 0.05 * (top - bottom) or 5.0
    bottom, top = max(0.0, bottom - margin), top + margin
    efficiency = _panel(
        context,
        points,
        sizes,
        "axis_efficiency",
        (ticks(bottom, top, 5), bottom, top, lambda value: value),
        lambda point: _Value(point.devices, point.efficiency, point.efficiency_low, point.efficiency_high),
        [(sizes[0], 100), (sizes[-1], 100)],
    )
    names = list(dict.fromkeys(point.series for point in points))
    return [speedup, efficiency, *([_legend(names)] if len(names) > 1 else [])]


def _panel(
    context: Context,
    points: Sequence[ScalingPoint],
    sizes: Sequence[int],
    title: str,
    axis: tuple[Sequence[float], float, float, Scale],
    value_of: Callable[[ScalingPoint], _Value],
    ideal: Sequence[tuple[float, float]],
) -> Panel:
    at, low, high, scale = axis
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    span = math.log2(sizes[-1] / sizes[0]) or 1.0

    def x(devices: float) -> float:
        return 14 + math.log2(devices / sizes[0]) / span * (width - 28)

    def y(value: float) -> float:
        return height - (scale(max(value, 1e-12)) - low) / (high - low) * height

    inner, outer = [], [text(0, 12, context.say(title), bold=True)]
    for tick in at:
        inner.append(line([(0, y(tick)), (width, y(tick))], GRID, 1))
        outer.append(text(LEFT - 8, TOP + y(tick) + 4, f"{tick:g}", "end"))
    for size in sizes:
        outer.append(text(LEFT + x(size), HEIGHT - BOTTOM + 16, str(size), "middle"))
    outer.append(text(LEFT + width / 2, HEIGHT - 6, context.say("aspect_devices"), "middle"))
    inner.append(line([(x(devices), y(value)) for devices, value in ideal], MUTED, 1.5, "5 4"))
    names = list(dict.fromkeys(point.series for point in points))
    for i, (name, colour) in enumerate(zip(names, colours(names), strict=True)):
        series = sorted((point for point in points if point.series == name), key=lambda point: point.devices)
        values = [value_of(point) for point in series]
        if len(values) > 1:
            inner.append(line([(x(one.devices), y(one.value)) for one in values], colour, 2))
        for point, one in zip(series, values, strict=True):
            if one.low is not None and one.high is not None:
                inner.append(line([(x(one.devices), y(one.low)), (x(one.devices), y(one.high))], colour))
            tip = f"{name}, {point.devices}: {point.speedup:.4g}, {point.efficiency:.4g} %"
            inner.append(marker(i, x(one.devices), y(one.value), colour, tip))
            if point.mark:
                inner.append(text(min(x(one.devices) + 9, width - 10), max(y(one.value) - 7, 12), point.mark))
    outer.append(clipped(LEFT, TOP, width, height, "".join(inner)))
    outer.append(line([(LEFT, TOP), (LEFT, TOP + height), (LEFT + width, TOP + height)], MUTED, 1))
    return Panel(WIDTH, HEIGHT, "".join(outer))


def _legend(names: Sequence[str]) -> Panel:
    body, top = [], 4
    for i, (name, colour) in enumerate(zip(names, colours(names), strict=True)):
        lines = lines_of(name, WIDTH - 20)
        body.append(marker(i, 7, top + 7, colour))
        for words in lines:
            body.append(text(20, top + 12, words, colour=INK))
            top += LINE
    assert all(text_width(words) <= WIDTH for name in names for words in lines_of(name, WIDTH - 20))
    return Panel(WIDTH, top + 4, "".join(body))


def scaling_points(context: Context, part: UnitPart) -> list[ScalingPoint]:
    """Return a point per case with a speedup; baselines are at 1 if something is compared with them."""
    compared = {c.speedup.baseline for c in part.cases if c.speedup and c.speedup.baseline != c.id}
    points = []
    for case in part.cases:
        if case.speedup is None or (case.speedup.baseline == case.id and case.id not in compared):
            continue
        speedup, efficiency = case.speedup.speedup, scaled(case.speedup.efficiency, 100)
        sure = None if case.speedup.baseline == case.id else speedup.interval
        found = context.findings.ratio(RatioKind.SPEEDUP, case.id)
        points.append(
            ScalingPoint(
                series=part.axes.label(case.case, without=(DEVICES,)),
                devices=case.case.world_size,
                speedup=speedup.value,
                mark="".join(marks_of_ratio(found)) if found else "",
                low=sure.low if sure else None,
                high=sure.high if sure else None,
                efficiency=efficiency.value,
                efficiency_low=efficiency.interval.low if sure and efficiency.interval else None,
                efficiency_high=efficiency.interval.high if sure and efficiency.interval else None,
            )
        )
    return points
