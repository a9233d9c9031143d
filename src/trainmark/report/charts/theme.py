"""Theme of all charts, and the conversion of a specification to an SVG file."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any

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
LABEL_PADDING = 5

Rows = list[dict[str, Any]]
"""A data set of a chart: one mapping per mark."""

CONFIG = {
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": GRID,
        "domainColor": MUTED,
        "tickColor": MUTED,
        "labelFontSize": FONT_SIZE,
        "titleFontSize": FONT_SIZE,
        "titleFontWeight": "normal",
        "labelLimit": 640,
        "labelPadding": LABEL_PADDING,
    },
    "legend": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": FONT_SIZE,
        "labelLimit": 420,
        "orient": "top",
        "columnPadding": 24,
    },
    "title": {"color": INK, "fontSize": FONT_SIZE, "fontWeight": 600, "anchor": "start", "limit": 420},
    "text": {"color": INK, "fontSize": FONT_SIZE},
}


PACKAGES = {"altair": "altair", "vl_convert": "vl-convert-python"}
"""The modules that draw the charts, and the packages to install for them."""


def missing_packages() -> tuple[str, ...]:
    """Return the packages that this Python lacks to draw charts: a machine of one's own may have none of them."""
    return tuple(package for module, package in PACKAGES.items() if find_spec(module) is None)


def colours(names: Sequence[object]) -> list[str]:
    """Return a colour for each of ``names``; the palette's six colours are repeated if needed."""
    return [PALETTE[i % len(PALETTE)] for i in range(len(names))]


def text_width(text: str) -> int:
    """Return the largest possible width of a label, in units of the chart, in the browsers' fonts for ``FONT``.

    The converter measures by one font, and the reader's may be wider: the widest usual one is DejaVu Sans, with 0.6
    of the font size per character of our labels on average; a Chinese character is as wide as the font size.
    """
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return round(FONT_SIZE * (wide + 0.62 * (len(text) - wide)))


class Drawing:
    """A chart's Vega-Lite specification, built at first use: Markdown and tables never need it."""

    def __init__(self, build: Callable[[], dict[str, Any]]) -> None:
        self._build = build

    @cached_property
    def specification(self) -> dict[str, Any]:
        """Return the specification; only the tests check it against Altair's schema, to save time."""
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            return self._build()


def themed(chart: Any, datasets: Mapping[str, Rows]) -> dict[str, Any]:
    """Return an Altair chart over named data sets as a Vega-Lite specification in the report's style.

    The data does not pass through Altair, which would check every value against its schema.
    """
    return {**chart.to_dict(validate=False), "datasets": dict(datasets), "config": CONFIG}


_PATH = re.compile(r'\bd="[^"]*"')
_UNSEEN = re.compile(r'<path class="foreground"[^>]* display="none"[^>]*?(?:/>|></path>)')
_ARIA = re.compile(r' (?:aria-[a-z]+|role)="[^"]*"')
_FONT = re.compile(r' font-family="[^"]*"')
_LONG = re.compile(r"(\d+\.\d\d)\d+")


def svg(specification: Mapping[str, Any], name: str) -> str:
    """Render a Vega-Lite specification to SVG text with a transparent background.

    Ids are renamed to ``<name>-0`` and so on, because one page contains several charts and the converter continues its
    numbering from chart to chart.
    """
    import vl_convert

    text: str = vl_convert.vegalite_to_svg(dict(specification), allowed_base_urls=[])
    # Coordinates with 16 digits would be most of the file; two decimals are more than a reader can see.
    text = _PATH.sub(lambda path: _LONG.sub(r"\1", path[0]), text)
    # Remove invisible elements and repeated fonts; a screen reader gets the picture as one element.
    fonts = set(_FONT.findall(text))
    text = _FONT.sub("", _ARIA.sub("", _UNSEEN.sub("", text))).replace("<svg", f"<svg{' '.join(fonts)}", 1)
    ids = {old: f"{name}-{i}" for i, old in enumerate(dict.fromkeys(re.findall(r'\bid="([^"]*)"', text)))}
    return re.sub(r'(?<=\bid=")[^"]*|(?<=url\(#)[^)]*', lambda match: ids[match[0]], text)


def on_white(picture: str) -> str:
    """Return an SVG for a separate file, with a white background because its text is dark."""
    return re.sub(r"(<svg[^>]*>)", r'\1<rect width="100%" height="100%" fill="white"/>', picture, count=1)
