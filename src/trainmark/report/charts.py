"""The charts of a report: throughputs of all cases, factors of an experiment, scaling over devices, and step times.

Throughputs are bars from zero to the median, each with its interval and a dot per run, on one axis. A waterfall goes
from the rate of A by the effect of each added factor to the rate of B. Scaling is speedup and efficiency against the
ideal. Step times have a panel per case and a line per run, with the warm-up shaded and without the first step.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.measure import scaled
from trainmark.report.context import (
    DEVICES,
    FRAMEWORK,
    PRECISION,
    Aspect,
    Context,
    StepSeries,
    UnitPart,
    marks,
    marks_of_ratio,
    shown,
)
from trainmark.report.drawing import (
    GRID,
    INK,
    LINE,
    MUTED,
    PALETTE,
    REACH,
    Drawing,
    Panel,
    circle,
    clipped,
    colours,
    line,
    lines_of,
    marker,
    rect,
    text,
    text_lines,
    text_width,
    ticks,
)
from trainmark.report.language import decimals, number
from trainmark.schema.decomposition import Decomposition
from trainmark.schema.measurement import Ratio
from trainmark.schema.results import CaseResult, RatioKind

MOST_BARS = 200
"""The largest number of bars in the chart; the table has all cases."""

BARS_WIDTH, BAR, BETWEEN, AXIS = 560, 13, 8, 40
"""Of a chart of horizontal bars: its width, the height of a bar, the space between two, and the height of the axis."""

PANEL_WIDTH, LEFT = 400, 52
"""Of a panel with lines: its width, and the space for the numbers of its vertical axis."""


@dataclass(frozen=True, slots=True)
class BarOfCase:
    """A case's bar: ``median``, interval and runs are None or empty without a number; ``text`` is what is printed.

    ``high`` is the interval's end or, if that is too far away, where the whisker is cut off (``cut``).
    """

    name: str
    colour: str
    median: float | None
    low: float | None
    high: float | None
    cut: bool
    runs: tuple[tuple[int, float], ...]
    text: str


@dataclass(frozen=True, slots=True)
class BarChart:
    """The bars by number of devices, the end of their common axis, and the colours' names."""

    panels: tuple[tuple[int, tuple[BarOfCase, ...]], ...]
    end: float
    legend: tuple[tuple[str, str], ...]


def throughput_chart(context: Context, part: UnitPart) -> Drawing | None:
    """Return the chart, a group of bars per number of devices; None if nothing or far too much was measured."""
    if not any(case.estimate for case in part.cases) or len(part.cases) > MOST_BARS:
        return None
    return Drawing(lambda: [_draw_bars(context, part, bars(context, part))])


def coloured(part: UnitPart) -> Aspect | None:
    """Return the aspect that the colours show: the framework, else the precision, else none."""
    return next((a for a in (FRAMEWORK, PRECISION) if a in part.axes.varying), None)


def bars(context: Context, part: UnitPart) -> BarChart:
    """Return what the chart of ``part`` shows."""
    aspect = coloured(part)
    values = list(dict.fromkeys(part.axes.value(case.case, aspect) for case in part.cases)) if aspect else []
    palette = dict(zip(values, colours(values), strict=True))
    reach = REACH * max((case.estimate.maximum for case in part.cases if case.estimate), default=0.0)
    panels = []
    for size in sorted({case.case.world_size for case in part.cases}):
        cases = [case for case in part.cases if case.case.world_size == size]
        hidden = () if len({case.case.nodes for case in cases}) > 1 else (DEVICES,)
        places = decimals(case.estimate.median for case in cases if case.estimate)
        panels.append(
            (
                size,
                tuple(
                    _bar_of_case(
                        context,
                        case,
                        part.axes.label(case.case, without=hidden),
                        palette[part.axes.value(case.case, aspect)] if aspect else PALETTE[0],
                        places,
                        reach,
                    )
                    for case in cases
                ),
            )
        )
    ends = [
        max(bar.high or 0.0, *(rate for _, rate in bar.runs), 0.0) for _, group in panels for bar in group
    ]
    return BarChart(tuple(panels), max(ends, default=0.0) or 1.0, tuple(palette.items()))


def _bar_of_case(
    context: Context, case: CaseResult, name: str, colour: str, places: int, reach: float
) -> BarOfCase:
    sure = case.estimate.interval if case.estimate else None
    words = shown(case, context.say) or "-"
    if case.estimate is not None:
        words = number(case.estimate.median, places) + "".join(marks(context, case))
    return BarOfCase(
        name=name,
        colour=colour,
        median=case.estimate.median if case.estimate else None,
        low=sure.low if sure else None,
        high=min(sure.high, reach) if sure else None,
        cut=sure is not None and sure.high > reach,
        runs=tuple((run.repeat, run.measurement.throughput) for run in case.runs if run.measurement),
        text=words,
    )


def _draw_bars(context: Context, part: UnitPart, chart: BarChart) -> Panel:
    say = context.say
    room = max(text_width(bar.text) for _, group in chart.panels for bar in group) + 12
    scale = (BARS_WIDTH - room) / chart.end
    body, top = [], 0.0
    if len(chart.legend) > 1:
        legend, top = _bars_legend(chart.legend)
        body.append(legend)
    first = top
    marked = []
    for size, group in chart.panels:
        top += LINE
        marked.append(text(0, top, say.count("devices", size), bold=True))
        top += 6
        for bar in group:
            lines = lines_of(bar.name, BARS_WIDTH)
            marked.append(text_lines(0, top + 12, lines))
            top += LINE * len(lines) + 2
            marked += _bar_marks(bar, top, scale, part.unit, say("column_repeat"))
            top += BAR + BETWEEN
    at = ticks(0, chart.end, 5)
    for value in at:
        body.append(line([(value * scale, first + LINE), (value * scale, top)], GRID, 1))
    body += marked
    for value in at:
        anchor = "start" if value == 0 else "middle"
        body.append(text(value * scale, top + 14, f"{value:,.10g}", anchor))
    body.append(text(0, top + 32, say("axis_throughput", unit=part.unit)))
    body.append(line([(0, top), (BARS_WIDTH - room, top)], MUTED, 1))
    return Panel(BARS_WIDTH, round(top) + AXIS, "".join(body))


def _bars_legend(entries: tuple[tuple[str, str], ...]) -> tuple[str, float]:
    """Return the legend and its lower edge."""
    parts, left, top = [], 0.0, 0.0
    for name, colour in entries:
        width = 18 + text_width(name) + 14
        if left and left + width > BARS_WIDTH:
            left, top = 0.0, top + LINE + 2
        parts += [rect(left, top + 2, 12, 12, colour, 0.55), text(left + 18, top + 12, name)]
        left += width
    return "".join(parts), top + LINE + 6


def _bar_marks(bar: BarOfCase, top: float, scale: float, unit: str, repeat: str) -> Iterator[str]:
    """Yield a bar, its whisker, the dots of its runs, and its text."""
    middle = top + BAR / 2
    end = 0.0
    if bar.median is not None:
        yield rect(0, top, bar.median * scale, BAR, bar.colour, 0.55, f"{bar.name}: {bar.text} {unit}")
        end = bar.median * scale
    if bar.low is not None and bar.high is not None:
        low, high = bar.low * scale, bar.high * scale
        yield line([(low, middle), (high, middle)], INK)
        for x in (low,) if bar.cut else (low, high):
            yield line([(x, top + 1), (x, top + BAR - 1)], INK)
        end = max(end, high)
    for number_of_run, rate in bar.runs:
        tip = f"{bar.name}, {repeat} {number_of_run}: {rate:.6g} {unit}"
        yield circle(rate * scale, middle, 2.6, "none", INK, tip)
        end = max(end, rate * scale)
    yield text(end + 8, top + BAR - 2, bar.text)


@dataclass(frozen=True, slots=True)
class WaterfallBar:
    """One bar: from ``start`` to ``end`` in the unit, with the ends of the interval of its effect, if known."""

    label: str
    start: float
    end: float
    text: str
    low: float | None = None
    high: float | None = None


def waterfall_bars(found: Decomposition, a: str, b: str, interaction: str) -> tuple[WaterfallBar, ...]:
    """Return the bars in order, an effect that needs all others last; none if A, B or an effect has no number."""
    first, last = found.rates
    if first is None or last is None or found.closes_within is None:
        return ()
    bars, rate = [WaterfallBar(a, 0.0, first, f"{first:.4g}")], first
    factors = sorted(found.factors, key=lambda one: one.added is None)
    effects = [(f"{one.name}: {one.here} → {one.there}", one.effect) for one in factors]
    if found.interaction is not None:
        effects.append((interaction, found.interaction))
    for label, effect in effects:
        if effect is not None:
            bars.append(_waterfall_step(label, rate, effect))
            rate *= effect.value
    return (*bars, WaterfallBar(b, 0.0, last, f"{last:.4g}"))


def _waterfall_step(label: str, rate: float, effect: Ratio) -> WaterfallBar:
    interval = effect.interval
    return WaterfallBar(
        label,
        rate,
        rate * effect.value,
        f"×{effect.value:.3f}",
        None if interval is None else rate * interval.low,
        None if interval is None else rate * interval.high,
    )


def waterfall_chart(bars: tuple[WaterfallBar, ...], unit: str) -> Drawing | None:
    """Return the chart; None without bars."""
    return Drawing(lambda: [_draw_waterfall(bars, unit)]) if bars else None


def _draw_waterfall(bars: tuple[WaterfallBar, ...], unit: str) -> Panel:
    end = max(max(bar.start, bar.end, bar.high or 0.0) for bar in bars) or 1.0
    scale = (BARS_WIDTH - max(text_width(bar.text) for bar in bars) - 12) / end
    marked, top = [], 0.0
    for i, bar in enumerate(bars):
        colour = PALETTE[0] if i in (0, len(bars) - 1) else PALETTE[2 if bar.end >= bar.start else 4]
        lines = lines_of(bar.label, BARS_WIDTH)
        marked.append(text_lines(0, top + 12, lines))
        top += LINE * len(lines) + 2
        low, high = sorted((bar.start * scale, bar.end * scale))
        marked.append(rect(low, top, high - low, BAR, colour, 0.55, f"{bar.label}: {bar.text}"))
        if bar.low is not None and bar.high is not None:
            middle = top + BAR / 2
            marked.append(line([(bar.low * scale, middle), (bar.high * scale, middle)], INK))
            high = max(high, bar.high * scale)
        marked.append(text(high + 8, top + BAR - 2, bar.text))
        top += BAR + BETWEEN
    grid = []
    for value in ticks(0, end, 5):
        grid.append(line([(value * scale, 0), (value * scale, top)], GRID, 1))
        marked.append(text(value * scale, top + 14, f"{value:,.10g}", "middle" if value else "start"))
    marked.append(text(0, top + 32, unit))
    return Panel(BARS_WIDTH, round(top) + AXIS, "".join(grid + marked))


MOST_SERIES = 12
"""The largest number of lines that a reader can tell apart; the table has all cases."""

SCALING_HEIGHT, SCALING_BOTTOM, TOP, RIGHT = 280, 42, 26, 14

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
    return Drawing(lambda: _draw_scaling(context, points), columns=2)


def speedup_limits(points: Sequence[ScalingPoint]) -> tuple[float, float]:
    """Return the ends of the speedup's axis: whiskers far outside are cut off."""
    slowest = min(1.0, *(point.speedup for point in points))
    lowest = max(slowest / REACH, min(slowest, *(point.low or 1.0 for point in points)))
    most = max(point.devices for point in points)
    return lowest, max(most, *(point.speedup for point in points)) * 1.1


def _draw_scaling(context: Context, points: Sequence[ScalingPoint]) -> list[Panel]:
    sizes = sorted({point.devices for point in points} | {1})
    low, high = speedup_limits(points)
    speedup = _scaling_panel(
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
    efficiency = _scaling_panel(
        context,
        points,
        sizes,
        "axis_efficiency",
        (ticks(bottom, top, 5), bottom, top, lambda value: value),
        lambda point: _Value(point.devices, point.efficiency, point.efficiency_low, point.efficiency_high),
        [(sizes[0], 100), (sizes[-1], 100)],
    )
    names = list(dict.fromkeys(point.series for point in points))
    return [speedup, efficiency, *([_scaling_legend(names)] if len(names) > 1 else [])]


def _scaling_panel(
    context: Context,
    points: Sequence[ScalingPoint],
    sizes: Sequence[int],
    title: str,
    axis: tuple[Sequence[float], float, float, Scale],
    value_of: Callable[[ScalingPoint], _Value],
    ideal: Sequence[tuple[float, float]],
) -> Panel:
    at, low, high, scale = axis
    width, height = PANEL_WIDTH - LEFT - RIGHT, SCALING_HEIGHT - TOP - SCALING_BOTTOM
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
        outer.append(text(LEFT + x(size), SCALING_HEIGHT - SCALING_BOTTOM + 16, str(size), "middle"))
    outer.append(text(LEFT + width / 2, SCALING_HEIGHT - 6, context.say("aspect_devices"), "middle"))
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
    return Panel(PANEL_WIDTH, SCALING_HEIGHT, "".join(outer))


def _scaling_legend(names: Sequence[str]) -> Panel:
    body, top = [], 4
    for i, (name, colour) in enumerate(zip(names, colours(names), strict=True)):
        lines = lines_of(name, PANEL_WIDTH - 20)
        body.append(marker(i, 7, top + 7, colour))
        for words in lines:
            body.append(text(20, top + 12, words, colour=INK))
            top += LINE
    assert all(
        text_width(words) <= PANEL_WIDTH for name in names for words in lines_of(name, PANEL_WIDTH - 20)
    )
    return Panel(PANEL_WIDTH, top + 4, "".join(body))


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


MOST_POINTS = 120
"""The largest number of points in a run's line; a longer series is reduced to the extremes of each group of steps."""

STEPS_HEIGHT, STEPS_BOTTOM = 150, 40


@dataclass(frozen=True, slots=True)
class StepsPanel:
    """A case's lines: (repeat, its (step, ms) pairs). The axis ends at ``top``; ``cut``: longer steps exceed it."""

    title: str
    lines: tuple[tuple[int, tuple[tuple[int, float], ...]], ...]
    warmup_steps: int
    top: float
    cut: bool


@dataclass(frozen=True, slots=True)
class StepsChart:
    """The chart, its panels' data, and whether a warm-up step longer than its axis is cut off at the top."""

    drawing: Drawing
    panels: tuple[StepsPanel, ...]
    cut: bool


def steps_chart(context: Context) -> StepsChart | None:
    """Return the chart of the series in the context, or None if it has none."""
    panels = tuple(
        panel for case in context.results.cases if (panel := _steps_panel(context, case)) is not None
    )
    if not panels:
        return None
    drawing = Drawing(lambda: [_draw_steps(context, panel) for panel in panels], columns=2)
    return StepsChart(drawing, panels, cut=any(panel.cut for panel in panels))


def thinned(times: NDArray[np.float64], most: int = MOST_POINTS) -> Iterator[int]:
    """Yield the indices of at most about ``most`` values that preserve the series' shape and all of its peaks.

    From each group of equally many steps the lowest and the highest value are used, in their order.
    """
    if times.size <= most:
        yield from range(times.size)
        return
    for stretch in np.array_split(np.arange(times.size), most // 2):
        low, high = stretch[np.argmin(times[stretch])], stretch[np.argmax(times[stretch])]
        yield from sorted({int(low), int(high)})


def _steps_panel(context: Context, case: CaseResult) -> StepsPanel | None:
    lines = []
    tops, longest, warmup = [], 0.0, 0
    for run in context.series.get(case.id, ()):
        series = tuple(_step_times(run))
        if not series:
            continue
        warmup = int(np.argmax(run.measured))
        tops.append(float(np.nanmax(run.times_s[run.measured])) * 1000)
        longest = max([longest, *(ms for _, ms in series)])
        lines.append((run.repeat, series))
    if not lines:
        return None
    # A warm-up step may take a thousand times as long as a measured one, which would flatten all other steps.
    top = min(longest, 1.5 * max(tops))
    return StepsPanel(context.axes.label(case.case), tuple(lines), warmup, top, cut=longest > top)


def _step_times(run: StepSeries) -> Iterator[tuple[int, float]]:
    """Yield (number of the step from 1, its time in ms), without the first step and steps without a time."""
    known = np.flatnonzero(np.isfinite(run.times_s))
    known = known[known > 0]
    times = run.times_s[known] * 1000
    for place in thinned(times):
        yield int(known[place]) + 1, float(times[place])


def _draw_steps(context: Context, panel: StepsPanel) -> Panel:
    say = context.say
    last = max(step for _, series in panel.lines for step, _ in series)
    lowest = min(ms for _, series in panel.lines for _, ms in series)
    margin = 0.05 * (panel.top - lowest) or 0.05 * panel.top or 1.0
    low, high = lowest - margin, panel.top + margin
    title = lines_of(panel.title, PANEL_WIDTH)
    above = LINE * (len(title) + 1) + 4
    width, height = PANEL_WIDTH - LEFT - 8, STEPS_HEIGHT - STEPS_BOTTOM

    def x(step: float) -> float:
        return (step - 1) / max(last - 1, 1) * width

    def y(ms: float) -> float:
        return height - (ms - low) / (high - low) * height

    inner = [rect(0, 0, x(min(panel.warmup_steps + 0.5, last)), height, MUTED, 0.18)]
    outer = [text_lines(0, 12, title, bold=True), text(0, LINE * len(title) + 12, say("axis_step_time"))]
    for tick in ticks(low, high, 4):
        inner.append(line([(0, y(tick)), (width, y(tick))], GRID, 1))
        outer.append(text(LEFT - 8, above + y(tick) + 4, f"{tick:g}", "end"))
    for tick in _whole(ticks(1, last, 5)):
        anchor = "end" if x(tick) > width - 12 else "middle"
        outer.append(text(LEFT + x(tick), above + height + 16, f"{tick:g}", anchor))
    outer.append(text(LEFT + width / 2, above + height + 34, say("axis_step"), "middle"))
    for (repeat, series), colour in zip(panel.lines, colours(panel.lines), strict=True):
        points = [(x(step), y(ms)) for step, ms in series]
        inner.append(line(points, colour, 1.1, tip=f"{say('column_repeat')} {repeat}"))
    outer.append(clipped(LEFT, above, width, height, "".join(inner)))
    outer.append(line([(LEFT, above), (LEFT, above + height), (LEFT + width, above + height)], MUTED, 1))
    return Panel(PANEL_WIDTH, above + STEPS_HEIGHT, "".join(outer))


def _whole(values: Sequence[float]) -> list[float]:
    return [value for value in values if value == int(value)]
