"""A report as one HTML page that opens offline: styles, charts and their program are all inside it."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trainmark.report.blocks import Bullets, Chart, Code, Paragraph, Report, Style, Table, printable
from trainmark.report.language import Language, catalogue

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def to_html(report: Report, pictures: Mapping[str, str]) -> str:
    """Return the report as HTML, with each chart as an SVG of ``pictures`` by its name.

    Where scripts run, an interactive chart takes the picture's place.
    """
    language = next(language for language in Language if language.tag == report.language)
    template = _environment().get_template("report.html.j2")
    return template.render(
        report=report,
        say=catalogue(language),
        style=_asset("report.css"),
        script=_asset("report.js"),
        library=_library() if pictures else None,
        pictures={name: Markup(picture) for name, picture in pictures.items()},  # noqa: S704 - Vega escapes text
    )


def embedded(value: Mapping[str, Any]) -> Markup:
    """Return JSON that is safe inside a ``script`` element: no ``<`` in it can end the element or open a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - what could end the element is written as an escape


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
    environment.filters["embedded"] = embedded
    environment.filters["printable"] = printable
    return environment


def _asset(name: str) -> Markup:
    return Markup((files(__package__) / "page" / name).read_text(encoding="utf-8"))  # noqa: S704 - our own file


@cache
def _library() -> Markup:
    """Return Vega, Vega-Lite and Vega-Embed as one program, from vl-convert's own copy of them."""
    import vl_convert

    return Markup(vl_convert.javascript_bundle(_SNIPPET))  # noqa: S704 - a library's program, with no data in it
