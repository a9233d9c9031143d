"""Charts of a number over time: the history of a case, and the pace of a run in hand.

A history shows results, levels, changes, and the campaigns that did not measure the case again. A pace shows the time
of a step over the last minutes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby

from trainmark.report.drawing import (
    GRID,
    LINE,
    MUTED,
    PALETTE,
    Drawing,
    Panel,
    circle,
    colours,
    line,
    lines_of,
    marker,
    text,
    text_lines,
    text_width,
    ticks,
)
from trainmark.report.language import Catalogue, Language, catalogue
from trainmark.schema.history import CaseHistory, ChangeCause, LevelChange

MOST_CARRIED = 40
"""The largest number of points that are carried over; more would only repeat one value."""

WIDTH, HISTORY_HEIGHT = 560, 240
HISTORY_LEFT, RIGHT, HISTORY_BELOW = 70, 16, 26
ALARM, GAIN = "#D55E00", "#009E73"

_COLOURS = {ChangeCause.REGRESSION: ALARM, ChangeCause.IMPROVEMENT: GAIN}
_HOLLOW_DIAMOND = 7

Scale = Callable[[float], float]


def history_chart(
    case: CaseHistory, language: Language = Language.EN, carried: Sequence[datetime] = ()
) -> Drawing:
    """Return the chart of one case. Spikes are hollow; a change that is not confirmed is dashed.

    ``carried`` are the times of later campaigns of the same suite without a number of the case: its last value is
    drawn there as a hollow diamond.
    """
    return Drawing(lambda: [_draw_history(case, catalogue(language), tuple(carried)[-MOST_CARRIED:])])


def _draw_history(case: CaseHistory, say: Catalogue, carried: Sequence[datetime]) -> Panel:
    values = [point.value for point in case.points] + [point.level for point in case.points]
    low, high = min(values), max(values)
    margin = (high - low) * 0.08 or abs(high) * 0.01 or 1.0
    low, high = low - margin, high + margin
    title = lines_of(f"{case.case}, {case.unit}", WIDTH)
    # A line for the names of the changes is between the title and the plot.
    top = LINE * (len(title) + 1) + 8
    bottom, last = top + HISTORY_HEIGHT, max(1, len(case.points) + len(carried) - 1)

    def x(index: float) -> float:
        return HISTORY_LEFT + 6 + (WIDTH - HISTORY_LEFT - RIGHT - 12) * index / last

    def y(value: float) -> float:
        return bottom - HISTORY_HEIGHT * (value - low) / (high - low)

    body = [text_lines(0, 12, title, bold=True)]
    for tick in ticks(low, high, 5):
        body.append(line([(HISTORY_LEFT, y(tick)), (WIDTH - RIGHT, y(tick))], GRID, 1))
        body.append(text(HISTORY_LEFT - 8, y(tick) + 4, f"{tick:.6g}", "end"))
    body += _days([*(point.at for point in case.points), *carried], x, bottom)
    body += [_change(change, x(change.index - 0.5), top, bottom, say) for change in case.changes]
    for _, stretch in groupby(enumerate(case.points), key=lambda pair: pair[1].machine):
        levels = [(x(index), y(point.level)) for index, point in stretch]
        body.append(line(levels, MUTED, 2))
    palette = dict(zip(case.machines, colours(case.machines), strict=True))
    for index, point in enumerate(case.points):
        colour = palette[point.machine]
        where = f", {point.machine}" if len(case.machines) > 1 else ""
        tip = f"{point.source}, {point.at:%Y-%m-%d %H:%M}{where}: {point.value:.5g}"
        body.append(circle(x(index), y(point.value), 3.5, "none" if point.spike else colour, colour, tip))
    if case.points and carried:
        body += _carried(case, carried, x, y, palette, say)
    return Panel(WIDTH, bottom + HISTORY_BELOW, "".join(body))


def _carried(
    case: CaseHistory,
    carried: Sequence[datetime],
    x: Scale,
    y: Scale,
    palette: Mapping[str, str],
    say: Catalogue,
) -> Iterator[str]:
    """Yield the last value again at each time of ``carried``."""
    point, first = case.points[-1], len(case.points)
    colour = palette[point.machine]
    yield line(
        [(x(first - 1), y(point.value)), (x(first + len(carried) - 1), y(point.value))], MUTED, 1, "2 4"
    )
    for index, at in enumerate(carried, start=first):
        words = say("carried_point", value=f"{point.value:.5g} {case.unit}", day=f"{point.at:%Y-%m-%d}")
        yield marker(_HOLLOW_DIAMOND, x(index), y(point.value), colour, f"{at:%Y-%m-%d}: {words}")


def _days(times: Sequence[datetime], x: Scale, bottom: float) -> Iterator[str]:
    """Yield the days of the first, the middle and the last time; with the hour if two are of one day."""
    last = len(times) - 1
    places = sorted({0, last // 2, last})
    days = [f"{times[index]:%Y-%m-%d}" for index in places]
    if len(set(days)) < len(days):
        days = [f"{times[index]:%m-%d %H:%M}" for index in places]
    for index, day in zip(places, days, strict=True):
        anchor = "start" if index == 0 else "end" if index == last else "middle"
        yield text(x(index), bottom + 18, day, anchor)


def _change(change: LevelChange, at: float, top: float, bottom: float, say: Catalogue) -> str:
    colour = _COLOURS.get(change.cause, MUTED)
    name = say(
        f"cause_{change.cause.value.replace('-', '_')}" if change.confirmed else "change_not_confirmed"
    )
    words = f"{change.ratio - 1:+.1%} {name}"
    anchor = "end" if at + text_width(words) > WIDTH else "start"
    mark = line([(at, top), (at, bottom)], colour, 1.5, "" if change.confirmed else "4 4")
    return mark + text(at, top - 6, words, anchor, colour=colour)


PACE_HEIGHT, PACE_LEFT, PACE_BELOW = 110, 60, 22


def pace_panel(points: Sequence[tuple[float, float]], title: str, seconds: str) -> Panel:
    """Return the chart of (seconds ago, ms of a step); ``seconds`` names the horizontal axis."""
    top, width = LINE + 10, WIDTH - PACE_LEFT - 10
    bottom = top + PACE_HEIGHT
    values = [ms for _, ms in points]
    low, high = min(values, default=0.0), max(values, default=1.0)
    margin = (high - low) * 0.1 or high * 0.1 or 1.0
    low, high = max(0.0, low - margin), high + margin
    longest = max([1.0, *(ago for ago, _ in points)])

    def x(ago: float) -> float:
        return PACE_LEFT + width * (1 - ago / longest)

    def y(ms: float) -> float:
        return bottom - PACE_HEIGHT * (ms - low) / (high - low)

    body = [text(0, 12, title, bold=True)]
    for tick in ticks(low, high, 4):
        body.append(line([(PACE_LEFT, y(tick)), (PACE_LEFT + width, y(tick))], GRID, 1))
        body.append(text(PACE_LEFT - 8, y(tick) + 4, f"{tick:.6g}", "end"))
    body.append(text(PACE_LEFT, bottom + 16, f"-{longest:.0f} {seconds}"))
    body.append(text(PACE_LEFT + width, bottom + 16, "0", "end"))
    if points:
        body.append(line([(x(ago), y(ms)) for ago, ms in points], PALETTE[0], 1.5))
    body.append(line([(PACE_LEFT, top), (PACE_LEFT, bottom), (PACE_LEFT + width, bottom)], MUTED, 1))
    return Panel(WIDTH, bottom + PACE_BELOW, "".join(body))
