"""The chart of many results over one axis: a dot for each, at its value's place, on a logarithmic scale if need be."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainmark.report.charts.drawing import Panel, dots, line, text
from trainmark.report.charts.theme import GRID, LINE, MUTED, PALETTE, text_width, ticks

WIDTH, HEIGHT, LEFT, RIGHT = 560, 260, 70, 14
MOST_LABELS = 24
"""The largest number of values with a label; of more, every second, third … has one."""
LONGEST_LABEL = 130

WIDE_RANGE = 8.0
"""From this ratio of the largest to the smallest value on, the scale is logarithmic."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A result: the place of its value on the axis, its throughput, and its row in the table."""

    place: int
    value: float
    row: int


def scatter(values: Sequence[str], results: Sequence[Dot], title: str) -> Panel:
    """Return the chart of ``results`` over the ``values`` of an axis; ``title`` has the unit."""
    flat = sum(map(text_width, values)) + 14 * len(values) < WIDTH - LEFT - RIGHT
    below = LINE + 12 if flat else min(LONGEST_LABEL, max(map(text_width, values), default=0)) + 14
    top = LINE + 12
    at, y = _scale([one.value for one in results], top)
    space = (WIDTH - LEFT - RIGHT) / max(1, len(values))
    body = [text(0, 12, title, bold=True)]
    for tick in at:
        body.append(line([(LEFT, y(tick)), (WIDTH - RIGHT, y(tick))], GRID, 1))
        body.append(text(LEFT - 8, y(tick) + 4, f"{tick:,.10g}", "end"))
    bottom = top + HEIGHT
    every = math.ceil(len(values) / MOST_LABELS)
    for place, value in list(enumerate(values))[::every]:
        x = LEFT + (place + 0.5) * space
        label = _shortened(value)
        if flat:
            body.append(text(x, bottom + 16, label, "middle"))
        else:
            body.append(text(x + 4, bottom + 10, label, "end", turn=-90))
    body.append(line([(LEFT, top), (LEFT, bottom), (WIDTH - RIGHT, bottom)], MUTED, 1))
    places = ((LEFT + (one.place + 0.5) * space, y(one.value), one.row) for one in results)
    body.append(dots(places, PALETTE[0]))
    return Panel(WIDTH, round(bottom + below), "".join(body))


def _scale(values: Sequence[float], top: float) -> tuple[list[float], Callable[[float], float]]:
    """Return the ticks of the vertical axis, and the height of a value."""
    low, high = min(values), max(values)
    if low > 0 and high / low >= WIDE_RANGE:
        first, last = math.log10(low) - 0.05, math.log10(high) + 0.05
        powers = range(math.floor(first), math.ceil(last) + 1)
        factors = (1, 2, 5) if last - first < 4 else (1,)
        marks = [factor * 10.0**power for power in powers for factor in factors]
        return (
            [mark for mark in marks if first <= math.log10(mark) <= last],
            lambda value: top + HEIGHT * (last - math.log10(value)) / (last - first),
        )
    low, high = min(low, 0.0), high * 1.05 or 1.0
    return ticks(low, high, 6), lambda value: top + HEIGHT * (high - value) / (high - low)


def _shortened(label: str) -> str:
    """Return a label with at most the length that has room; its middle is left out."""
    most = int(LONGEST_LABEL / text_width("0") / 2)
    return label if text_width(label) <= LONGEST_LABEL else f"{label[:most]}…{label[-most + 1 :]}"
