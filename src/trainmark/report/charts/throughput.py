"""The chart of all cases: a bar from zero to the median, its interval, and a dot per run; all bars share an axis."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainmark.report.axes import DEVICES, FRAMEWORK, PRECISION, Aspect
from trainmark.report.charts.drawing import (
    GRID,
    INK,
    LINE,
    MUTED,
    PALETTE,
    REACH,
    Drawing,
    Panel,
    circle,
    colours,
    line,
    lines_of,
    rect,
    text,
    text_lines,
    text_width,
    ticks,
)
from trainmark.report.context import Context, UnitPart, marks, shown
from trainmark.report.language import decimals, number
from trainmark.schema.results import CaseResult

MOST_CASES = 200
"""The largest number of bars in the chart; the table has all cases."""

WIDTH = 560
BAR = 13
BETWEEN = 8
AXIS = 40


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
    if not any(case.estimate for case in part.cases) or len(part.cases) > MOST_CASES:
        return None
    return Drawing(lambda: [_drawn(context, part, bars(context, part))])


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
                    _bar(
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


def _bar(context: Context, case: CaseResult, name: str, colour: str, places: int, reach: float) -> BarOfCase:
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


def _drawn(context: Context, part: UnitPart, chart: BarChart) -> Panel:
    say = context.say
    room = max(text_width(bar.text) for _, group in chart.panels for bar in group) + 12
    scale = (WIDTH - room) / chart.end
    body, top = [], 0.0
    if len(chart.legend) > 1:
        legend, top = _legend(chart.legend)
        body.append(legend)
    first = top
    marked = []
    for size, group in chart.panels:
        top += LINE
        marked.append(text(0, top, say.count("devices", size), bold=True))
        top += 6
        for bar in group:
            lines = lines_of(bar.name, WIDTH)
            marked.append(text_lines(0, top + 12, lines))
            top += LINE * len(lines) + 2
            marked += _marks(bar, top, scale, part.unit, say("column_repeat"))
            top += BAR + BETWEEN
    at = ticks(0, chart.end, 5)
    for value in at:
        body.append(line([(value * scale, first + LINE), (value * scale, top)], GRID, 1))
    body += marked
    for value in at:
        anchor = "start" if value == 0 else "middle"
        body.append(text(value * scale, top + 14, f"{value:,.10g}", anchor))
    body.append(text(0, top + 32, say("axis_throughput", unit=part.unit)))
    body.append(line([(0, top), (WIDTH - room, top)], MUTED, 1))
    return Panel(WIDTH, round(top) + AXIS, "".join(body))


def _legend(entries: tuple[tuple[str, str], ...]) -> tuple[str, float]:
    """Return the legend and its lower edge."""
    parts, left, top = [], 0.0, 0.0
    for name, colour in entries:
        width = 18 + text_width(name) + 14
        if left and left + width > WIDTH:
            left, top = 0.0, top + LINE + 2
        parts += [rect(left, top + 2, 12, 12, colour, 0.55), text(left + 18, top + 12, name)]
        left += width
    return "".join(parts), top + LINE + 6


def _marks(bar: BarOfCase, top: float, scale: float, unit: str, repeat: str) -> Iterator[str]:
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
