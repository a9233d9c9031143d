"""Theme of all charts, and the conversion of a specification to an SVG file."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""The colours of Okabe and Ito ("Color Universal Design", 2008), told apart by colour-blind readers too."""

INK = "#222222"
"""The colour of text and whiskers. The page's style sheet replaces it in the dark."""

MUTED = "#777777"
GRID = "#dddddd"
FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Noto Sans CJK SC', sans-serif"

REACH = 1.5
"""A whisker is drawn as far as this many times the largest value, and cut off there: 3 runs can have an interval so
wide that nothing else in the picture could be seen."""

FONT_SIZE = 12
LABEL_PADDING = 5

Rows = list[dict[str, Any]]
"""A data set of a chart: a mapping a mark."""

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


def colours(names: Sequence[object]) -> list[str]:
    """Return a colour for each of ``names``; beyond the palette's six they come again."""
    return [PALETTE[i % len(PALETTE)] for i in range(len(names))]


def text_width(text: str) -> int:
    """Return how wide a label is at most, in units of the chart, in the fonts that browsers have for ``FONT``.

    The converter lays out in a font of its own, and the reader's may be wider: of the usual ones DejaVu Sans is the
    widest, with 0.6 of its size a character of our labels on the average; a Chinese one takes the whole size.
    """
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return round(FONT_SIZE * (wide + 0.62 * (len(text) - wide)))


class Drawing:
    """A chart's Vega-Lite specification, built when it is first needed: Markdown and tables never need it."""

    def __init__(self, build: Callable[[], dict[str, Any]]) -> None:
        self._build = build

    @cached_property
    def specification(self) -> dict[str, Any]:
        """Return the specification; Altair's check of each part against its schema is left to the tests."""
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            return self._build()


def themed(chart: Any, datasets: Mapping[str, Rows]) -> dict[str, Any]:
    """Return an Altair chart over named data sets as a Vega-Lite specification in the report's style.

    The data goes past Altair, which would check every value of it against its schema.
    """
    return {**chart.to_dict(validate=False), "datasets": dict(datasets), "config": CONFIG}


_PATH = re.compile(r'\bd="[^"]*"')
_UNSEEN = re.compile(r'<path class="foreground"[^>]* display="none"[^>]*?(?:/>|></path>)')
_ARIA = re.compile(r' (?:aria-[a-z]+|role)="[^"]*"')
_FONT = re.compile(r' font-family="[^"]*"')
_LONG = re.compile(r"(\d+\.\d\d)\d+")


def svg(specification: Mapping[str, Any], name: str) -> str:
    """Render a Vega-Lite specification to SVG text with a transparent background.

    Ids become ``<name>-0`` and on, because several charts stand in one page, and because the converter counts
    on from chart to chart.
    """
    import vl_convert

    text: str = vl_convert.vegalite_to_svg(dict(specification), allowed_base_urls=[])
    # Sixteen digits a coordinate are most of a picture; a hundredth of one is nothing that can be seen.
    text = _PATH.sub(lambda path: _LONG.sub(r"\1", path[0]), text)
    # What is not shown is left out, and the font stands once. To a reader who hears the page the picture is one thing.
    fonts = set(_FONT.findall(text))
    text = _FONT.sub("", _ARIA.sub("", _UNSEEN.sub("", text))).replace("<svg", f"<svg{' '.join(fonts)}", 1)
    ids = {old: f"{name}-{i}" for i, old in enumerate(dict.fromkeys(re.findall(r'\bid="([^"]*)"', text)))}
    return re.sub(r'(?<=\bid=")[^"]*|(?<=url\(#)[^)]*', lambda match: ids[match[0]], text)


def on_white(picture: str) -> str:
    """Return an SVG as a file of its own: on white, because its text is dark."""
    return re.sub(r"(<svg[^>]*>)", r'\1<rect width="100%" height="100%" fill="white"/>', picture, count=1)
