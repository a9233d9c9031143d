"""SVG of a chart, drawn when the report is written: panels that a page arranges by its width, and one file of all."""

import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

from trainmark.printable import printable

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""The colours of Okabe and Ito ("Color Universal Design", 2008), which colour-blind readers can tell apart."""

INK = "#222222"
"""The colour of text and whiskers. The page's style sheet replaces it in dark mode."""

MUTED = "#777777"
GRID = "#dddddd"
FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Noto Sans CJK SC', sans-serif"

REACH = 1.5
"""Whiskers are cut off at this many times the largest value: an interval of 3 runs can be so wide that the rest of the
chart would be too small to read."""

FONT_SIZE = 12
LINE = 16
"""The height of a line of text."""
GAP = 24
"""The space between two panels in a file."""
_BLANK = f'font-family="{FONT}" font-size="{FONT_SIZE}"'


def colours(names: Sequence[object]) -> list[str]:
    """Return a colour for each of ``names``; the palette's six colours are repeated if needed."""
    return [PALETTE[i % len(PALETTE)] for i in range(len(names))]


def text_width(text: str) -> int:
    """Return the largest possible width of a label, in units of the chart, in the browsers' fonts for ``FONT``.

    The widest usual font is DejaVu Sans, with 0.6 of the font size per character of our labels on average; a Chinese
    character is as wide as the font size.
    """
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return round(FONT_SIZE * (wide + 0.62 * (len(text) - wide)))


def lines_of(text: str, width: float) -> list[str]:
    """Return a label in lines of at most ``width`` units, broken at blanks where it has some."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer) <= width:
            lines[-1] = longer
            continue
        if not lines[-1]:
            lines.pop()
        rest = word
        while text_width(rest) > width:
            most = max(1, int(width / text_width(rest) * len(rest)))
            # Wide characters may all be at the start.
            while most > 1 and text_width(rest[:most]) > width:
                most -= 1
            lines.append(rest[:most])
            rest = rest[most:]
        lines.append(rest)
    return lines


def ticks(low: float, high: float, about: int) -> list[float]:
    """Return about ``about`` round numbers from ``low`` to ``high``."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a chart that is drawn as a whole: its size in px, and the SVG elements in it."""

    width: int
    height: int
    body: str

    def svg(self) -> str:
        """Return the panel as an SVG for a page."""
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_BLANK}>{self.body}</svg>'


class Drawing:
    """A chart's panels, drawn at first use: tables never need them."""

    def __init__(self, draw: Callable[[], Sequence[Panel]], columns: int = 1) -> None:
        self._draw = draw
        self._columns = columns

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        """The panels in their order."""
        return tuple(self._draw())

    def file(self) -> str:
        """Return all panels as one SVG on white, for a separate file."""
        rows = [self.panels[i : i + self._columns] for i in range(0, len(self.panels), self._columns)]
        width = max(sum(panel.width + GAP for panel in row) - GAP for row in rows) + 2 * GAP
        parts, top = [], GAP
        for row in rows:
            left = GAP
            for panel in row:
                parts.append(
                    f'<svg x="{left}" y="{top}" width="{panel.width}" height="{panel.height}">{panel.body}</svg>'
                )
                left += panel.width + GAP
            top += max(panel.height for panel in row) + GAP
        size = f'width="{width}" height="{top}" viewBox="0 0 {width} {top}"'
        white = '<rect width="100%" height="100%" fill="white"/>'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_BLANK}>{white}{"".join(parts)}</svg>\n'


def text(
    x: float,
    y: float,
    words: str,
    anchor: str = "start",
    bold: bool = False,
    colour: str = INK,
    turn: float = 0,
) -> str:
    """Return a line of text whose baseline is at ``y``."""
    more = f' text-anchor="{anchor}"' if anchor != "start" else ""
    more += ' font-weight="600"' if bold else ""
    more += f' transform="rotate({turn:g} {_n(x)} {_n(y)})"' if turn else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" fill="{colour}"{more}>{escape(printable(words))}</text>'


def text_lines(x: float, y: float, lines: Iterable[str], bold: bool = False) -> str:
    """Return lines of text, the first with its baseline at ``y``."""
    return "".join(text(x, y + i * LINE, words, bold=bold) for i, words in enumerate(lines))


def rect(x: float, y: float, width: float, height: float, fill: str, opacity: float, tip: str = "") -> str:
    """Return a rectangle; ``tip`` is shown under the pointer."""
    size = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
    return _tipped("rect", f'{size} fill="{fill}" fill-opacity="{opacity:g}"', tip)


def line(
    points: Sequence[tuple[float, float]],
    colour: str,
    width: float = 1.5,
    dash: str = "",
    tip: str = "",
) -> str:
    """Return a line through points."""
    path = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
    more = f' stroke-dasharray="{dash}"' if dash else ""
    return _tipped("path", f'd="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{more}', tip)


def circle(x: float, y: float, radius: float, fill: str, stroke: str = "none", tip: str = "") -> str:
    """Return a circle."""
    where = f'cx="{_n(x)}" cy="{_n(y)}" r="{radius:g}"'
    return _tipped("circle", f'{where} fill="{fill}" stroke="{stroke}"', tip)


def marker(shape: int, x: float, y: float, colour: str, tip: str = "") -> str:
    """Return the mark of a series: a circle, square, triangle or diamond, filled or with an empty middle."""
    corners = {
        1: ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        2: ((0, -5), (5, 4), (-5, 4)),
        3: ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
    }
    hollow = shape // 4 % 2 == 1
    fill, stroke = ("none", colour) if hollow else (colour, colour)
    if shape % 4 == 0:
        return circle(x, y, 4.2, fill, stroke, tip)
    path = "M" + "L".join(f"{_n(x + dx)} {_n(y + dy)}" for dx, dy in corners[shape % 4]) + "Z"
    return _tipped("path", f'd="{path}" fill="{fill}" stroke="{stroke}" stroke-width="1.5"', tip)


def clipped(x: float, y: float, width: float, height: float, body: str) -> str:
    """Return elements of which only the part in a rectangle is visible; their origin is its corner."""
    size = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
    return f'<svg {size} overflow="hidden">{body}</svg>'


def _tipped(name: str, attributes: str, tip: str) -> str:
    if not tip:
        return f"<{name} {attributes}/>"
    return f"<{name} {attributes}><title>{escape(printable(tip))}</title></{name}>"


def _n(value: float) -> str:
    """Return a coordinate: more than one decimal is more than a reader can see."""
    return f"{value:.1f}".removesuffix(".0")
