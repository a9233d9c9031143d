"""Theme of all charts: colours, sizes, the width of text, and ticks of axes."""

import math
import unicodedata
from collections.abc import Sequence

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
