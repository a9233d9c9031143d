"""A report as one HTML page that opens offline: it includes all styles, charts and scripts."""

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from unicodedata import east_asian_width

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trainmark.printable import printable
from trainmark.report.blocks import Bullets, Cell, Chart, Code, Paragraph, Report, Style, Table
from trainmark.report.language import Language, catalogue

_SNIPPET = "window.vegaEmbed = vegaEmbed; dispatchEvent(new Event('vega'));"

STEPS = (20, 30, 40, 50, 60, 70)
"""The page widths (rem) below which a table of that width becomes a list of its rows; wider tables are always lists."""

LONG = 30
"""Text with more characters than this is wrapped, and needs a column that is not too narrow."""


def to_html(report: Report, pictures: Mapping[str, str]) -> str:
    """Return the report as HTML, with each chart as an SVG of ``pictures`` by its name.

    If scripts can run, an interactive chart replaces the picture.
    """
    language = next(language for language in Language if language.tag == report.language)
    template = _environment().get_template("report.html.j2")
    return template.render(
        report=report,
        say=catalogue(language),
        style=_asset("report.css") + _stacking(),
        script=_asset("report.js"),
        library=_library() if pictures else None,
        specifications=packed(_specifications(report)),
        pictures={name: Markup(picture) for name, picture in pictures.items()},  # noqa: S704 - Vega escapes text
    )


def packed(text: str) -> str:
    """Return a text as base64 of its zlib form: less than half as long, and safe inside any element."""
    return b64encode(zlib.compress(text.encode(), 9)).decode()


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("trainmark.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    kinds = {"paragraph": Paragraph, "bullets": Bullets, "table": Table, "code": Code, "chart": Chart}
    for name, kind in kinds.items():
        environment.tests[name] = lambda block, kind=kind: isinstance(block, kind)
    environment.tests["code_span"] = lambda span: span.style is Style.CODE
    environment.tests["long"] = _is_long
    environment.filters["width_class"] = width_class
    environment.filters["printable"] = printable
    return environment


def _asset(name: str) -> Markup:
    return Markup((files(__package__) / "page" / name).read_text(encoding="utf-8"))  # noqa: S704 - our own file


def width_class(table: Table) -> str:
    """Return the class of a table by the width that it needs: below it, the page shows its rows as lists."""
    needed = sum(_least(table, i) for i in range(len(table.columns)))
    step = next((step for step in STEPS if needed <= step), None)
    return "list" if step is None else f"fits-{step}"


def _least(table: Table, i: int) -> float:
    """Return the least width (rem) of a column, including padding; rather too large, because fonts differ."""
    column, cells = table.columns[i], [row[i] for row in table.rows]
    texts = ["".join(span.text for span in cell.spans) for cell in cells]
    title = max((_cells(word) for word in column.title.split()), default=0)
    if column.numeric:
        most = max([*map(_cells, texts), *(0.85 * _cells(cell.detail) for cell in cells)], default=0)
    else:
        most = min(max(map(_cells, texts), default=0), LONG / 2)
    return 0.6 * max(title, most) + 1.6


def _cells(text: str) -> int:
    """Return the width of a text in letters; Chinese ones count twice."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _is_long(cell: Cell) -> bool:
    return sum(len(span.text) for span in cell.spans) + len(cell.detail) > LONG


def _stacking() -> Markup:
    rules = _asset("stacked.css")
    within = (
        f"@container (max-width: {step}rem) {{ {rules.replace('TABLE', f'.fits-{step}')} }}\n"
        for step in STEPS
    )
    return Markup(rules.replace("TABLE", ".list") + "".join(within))  # noqa: S704 - our own file


@cache
def _library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, from vl-convert's copy of them: zlib, base64."""
    import vl_convert

    return packed(vl_convert.javascript_bundle(_SNIPPET))


def _specifications(report: Report) -> str:
    charts = {chart.name: chart.specification for chart in report.charts}
    return json.dumps(charts, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
