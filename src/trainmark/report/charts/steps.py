"""The chart of step times: a panel per case, a line per run, the warm-up shaded, the first step omitted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.report.charts.drawing import (
    GRID,
    LINE,
    MUTED,
    Drawing,
    Panel,
    clipped,
    colours,
    line,
    lines_of,
    rect,
    text,
    text_lines,
    ticks,
)
from trainmark.report.context import Context, StepSeries
from trainmark.schema.results import CaseResult

MOST_POINTS = 120
"""The largest number of points in a run's line; a longer series is reduced to the extremes of each group of steps."""

WIDTH, HEIGHT = 400, 150
LEFT, BOTTOM = 52, 40


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
    panels = tuple(panel for case in context.results.cases if (panel := _panel(context, case)) is not None)
    if not panels:
        return None
    drawing = Drawing(lambda: [_drawn(context, panel) for panel in panels], columns=2)
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


def _panel(context: Context, case: CaseResult) -> StepsPanel | None:
    lines = []
    tops, longest, warmup = [], 0.0, 0
    for run in context.series.get(case.id, ()):
        series = tuple(_series(run))
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


def _series(run: StepSeries) -> Iterator[tuple[int, float]]:
    """Yield (number of the step from 1, its time in ms), without the first step and steps without a time."""
    known = np.flatnonzero(np.isfinite(run.times_s))
    known = known[known > 0]
    times = run.times_s[known] * 1000
    for place in thinned(times):
        yield int(known[place]) + 1, float(times[place])


def _drawn(context: Context, panel: StepsPanel) -> Panel:
    say = context.say
    last = max(step for _, series in panel.lines for step, _ in series)
    lowest = min(ms for _, series in panel.lines for _, ms in series)
    margin = 0.05 * (panel.top - lowest) or 0.05 * panel.top or 1.0
    low, high = lowest - margin, panel.top + margin
    title = lines_of(panel.title, WIDTH)
    above = LINE * (len(title) + 1) + 4
    width, height = WIDTH - LEFT - 8, HEIGHT - BOTTOM

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
    return Panel(WIDTH, above + HEIGHT, "".join(outer))


def _whole(values: Sequence[float]) -> list[float]:
    return [value for value in values if value == int(value)]
