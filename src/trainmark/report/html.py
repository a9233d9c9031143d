"""A report as one HTML page that opens offline: it includes all styles, charts and scripts."""

from collections.abc import Iterable
from dataclasses import replace
from importlib.resources import files
from unicodedata import east_asian_width

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trainmark.printable import printable
from trainmark.report.blocks import (
    Block,
    Bullets,
    Cell,
    Chart,
    Code,
    Paragraph,
    Report,
    Section,
    Style,
    Table,
)
from trainmark.report.language import Catalogue, Language, catalogue
from trainmark.report.sections.glance import ANCHOR

STEPS = (20, 30, 40, 50, 60)
"""The page widths (rem) below which a table of that width becomes a list of its rows."""

WIDEST = 60
"""The largest width (rem) of a table, which fits a desktop and A4 paper; wider ones are divided by columns."""

LONG = 30
"""Text with more characters than this is wrapped, and needs a column that is not too narrow."""


def to_html(report: Report) -> str:
    """Return the report as HTML with each chart as SVG; scripts only sort, filter and save."""
    language = next(language for language in Language if language.tag == report.language)
    say = catalogue(language)
    template = page_environment().get_template("report.html.j2")
    return template.render(
        report=replace(report, sections=fitted(report.sections, say)),
        say=say,
        first_screen=ANCHOR,
        style=page_style(),
        script=page_script(),
        pictures=pictures_of(report.charts),
    )


def page_style() -> Markup:
    """Return the style sheet of every page, with the rules that turn tables into lists on narrow screens."""
    return _asset("report.css") + _stacking()


def page_script() -> Markup:
    """Return the script that filters, sorts and saves."""
    return _asset("report.js")


def pictures_of(charts: Iterable[Chart]) -> dict[str, list[Markup]]:
    """Return the panels of charts as SVG, by the chart's name."""
    # The drawing escapes the text in it.
    return {chart.name: [Markup(panel.svg()) for panel in chart.drawing.panels] for chart in charts}  # noqa: S704


def page_environment(*packages: str) -> Environment:
    """Return the templates of pages, with those in the folder ``page`` of other packages."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "page") for package in (*packages, "trainmark.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    kinds = {"paragraph": Paragraph, "bullets": Bullets, "table": Table, "code": Code, "chart": Chart}
    for name, kind in kinds.items():
        environment.tests[name] = lambda block, kind=kind: isinstance(block, kind)
    environment.tests["code_span"] = lambda span: span.style is Style.CODE
    environment.tests["long"] = _is_long
    environment.filters["width_class"] = width_class
    return environment


def _shown(value: object) -> object:
    """Return a value as a page shows it; markup was made from printable text."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _asset(name: str) -> Markup:
    return Markup((files(__package__) / "page" / name).read_text(encoding="utf-8"))  # noqa: S704 - our own file


def fitted(sections: Iterable[Section], say: Catalogue) -> tuple[Section, ...]:
    """Return sections whose tables fit the page; see ``divided``."""
    return tuple(_fitted(section, say) for section in sections)


def _fitted(section: Section, say: Catalogue) -> Section:
    blocks: list[Block] = []
    for block in section.blocks:
        blocks += divided(block, say) if isinstance(block, Table) else [block]
    return replace(section, blocks=tuple(blocks))


def divided(table: Table, say: Catalogue) -> list[Table]:
    """Return a table that is too wide for the page as several, each with the columns that name the rows."""
    keys, widths = table.keys, [_least(table, i) for i in range(len(table.columns))]
    if sum(widths) <= WIDEST or len(widths) <= keys + 1:
        return [table]
    room = WIDEST - sum(widths[:keys])
    groups: list[list[int]] = [[]]
    for i in range(keys, len(widths)):
        if groups[-1] and sum(widths[j] for j in (*groups[-1], i)) > room:
            groups.append([])
        groups[-1].append(i)
    parts = []
    for number, group in enumerate(groups):
        columns = [*range(keys), *group]
        heading = table.heading
        if number:
            heading = say("table_continued", heading=heading) if heading else say("continued")
        parts.append(
            replace(
                table,
                heading=heading,
                columns=tuple(table.columns[i] for i in columns),
                rows=tuple(tuple(row[i] for i in columns) for row in table.rows),
                footnotes=table.footnotes if group is groups[-1] else (),
            )
        )
    return parts


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
