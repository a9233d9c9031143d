"""A report: its sections in the order in which a reader needs them, as Markdown and as one HTML page, and its files.

Markdown is in GitHub's dialect (tables, fenced code). The page opens offline: it includes styles, charts and scripts.
Data is escaped and never becomes markup.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from markupsafe import Markup

from trainmark.files import write_atomically
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
    Span,
    Style,
    Table,
    plain,
)
from trainmark.report.context import Context, context, read_series
from trainmark.report.csvfile import render_csv, render_runs_csv
from trainmark.report.language import Catalogue, Language, catalogue
from trainmark.report.sections import equivalence, machine, runs, summary, throughput
from trainmark.schema.results import Results
from trainmark.suite import select_baselines

if TYPE_CHECKING:
    from jinja2 import Environment


PLOTS = "plots"

MOST_CASES = 500
"""The number of cases that a page shows: it then has about 1.3 MB, which a browser sorts and filters at once."""


def compose(
    results: Results, directory: Path, language: Language, base: str = "", baseline: str | None = None
) -> Report:
    """Return the report on ``results``, whose runs' files are in ``directory``.

    ``base`` is the relative path from the report's folder to ``directory`` (empty, or ending in ``/``).
    ``baseline`` selects the cases with which the others are compared, see ``context``.
    """
    shown = part_of(results, baseline)
    about = context(shown, directory, language, base, read_series(shown, directory), baseline)
    say = about.say
    lead = [summary.lead(about)]
    if len(shown.cases) < len(results.cases):
        lead.append(say("cases_left_out", n=len(shown.cases), of=len(results.cases)))
    sections = [section for section in _sections(about) if section is not None]
    colophon = say(
        "colophon",
        version=results.trainmark_version,
        when=results.generated_at.strftime("%Y-%m-%d %H:%M %Z").strip(),
    )
    return Report(
        language=language.tag,
        title=say("title", suite=results.suite),
        subtitle=summary.subtitle(about),
        lead=say("space").join(lead),
        sections=tuple(sections),
        colophon=colophon,
    )


def part_of(results: Results, baseline: str | None = None) -> Results:
    """Return the first ``MOST_CASES`` cases and the baselines, in the order of the suite; all if they are not more."""
    if len(results.cases) <= MOST_CASES:
        return results
    expression = results.baseline if baseline is None else baseline
    cases = [result.case for result in results.cases]
    bases = {case.id for case in select_baselines(cases, expression, "--baseline")} if expression else set()
    others = [result.id for result in results.cases if result.id not in bases]
    chosen = bases | set(others[: MOST_CASES - len(bases)])
    part = tuple(result for result in results.cases if result.id in chosen)
    return results.model_copy(update={"cases": part, "findings": None})


def _sections(about: Context) -> list[Section | None]:
    return [
        summary.glance_section(about),
        summary.overview_section(about),
        throughput.decomposition_section(about),
        throughput.throughput_section(about),
        throughput.devices_section(about),
        throughput.published_section(about),
        machine.bound_section(about),
        machine.profile_section(about),
        machine.energy_section(about),
        machine.work_section(about),
        runs.trials_section(about),
        equivalence.equivalence_section(about) if about.results.certificates else None,
        throughput.scaling_section(about),
        runs.ranks_section(about),
        throughput.data_section(about),
        runs.outcomes_section(about),
        runs.doubts_section(about),
        runs.steps_section(about),
        runs.repeats_section(about),
        runs.runs_section(about),
        runs.commands_section(about),
        runs.check_section(about),
        machine.environment_section(about),
        machine.manifest_section(about),
        machine.recipe_section(about),
        machine.telemetry_section(about),
        summary.method_section(about),
        summary.reproduce_section(about),
    ]


def render_markdown(
    results: Results,
    directory: Path,
    language: Language = Language.EN,
    base: str = "",
    plots: str = PLOTS,
    baseline: str | None = None,
) -> str:
    """Return the report as Markdown.

    ``directory`` holds the runs' files, which are linked if they exist; ``base`` is the relative path to it from the
    folder of the Markdown file (empty, or ending in ``/``). ``plots`` is the folder of the charts as SVG, see
    ``write_plots``.
    """
    return to_markdown(compose(results, directory, language, base, baseline), plots)


def render_html(
    results: Results,
    directory: Path,
    language: Language = Language.EN,
    base: str = "",
    baseline: str | None = None,
) -> str:
    """Return the report as one self-contained HTML page; see ``render_markdown``."""
    # A missing template library is found before anything is computed, so that the extra named is the page's.
    page_environment()
    return to_html(compose(results, directory, language, base, baseline))


def write_plots(
    folder: Path, results: Results, directory: Path, language: Language = Language.EN
) -> list[Path]:
    """Write the report's charts as ``folder/<name>.svg``; return their paths."""
    return _write_plots(folder, compose(results, directory, language))


def write_reports(
    directory: Path, results: Results, language: Language = Language.EN, baseline: str | None = None
) -> list[Path]:
    """Write ``results.csv``, ``runs.csv``, ``plots/*.svg``, ``report.md`` and ``report.html`` into ``directory``."""
    written = _write(directory, {"results.csv": render_csv(results), "runs.csv": render_runs_csv(results)})
    report = compose(results, directory, language, baseline=baseline)
    written += _write_plots(directory / PLOTS, report)
    pages = {"report.md": to_markdown(report, PLOTS), "report.html": to_html(report)}
    return written + _write(directory, pages)


def _write_plots(folder: Path, report: Report) -> list[Path]:
    if not report.charts:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    return _write(folder, {f"{chart.name}.svg": chart.drawing.file() for chart in report.charts})


def _write(folder: Path, contents: Mapping[str, str]) -> list[Path]:
    paths = [folder / name for name in contents]
    for path, text in zip(paths, contents.values(), strict=True):
        write_atomically(path, text)
    return paths


_SPECIAL = re.compile(r"[\\`*|~$]|\](?=[(\[:])|\[(?=[ xX]\])|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITY = re.compile(r"&(?=[#\w])")
_BLOCK_START = re.compile(r"^(\d*)(?=[-+#=>.)])")


def to_markdown(report: Report, plots: str = "plots") -> str:
    """Return the report as Markdown; its charts are the files ``<plots>/<name>.svg``."""
    parts = [f"# {escape_markdown(report.title)}", _markdown_start(escape_markdown(report.lead))]
    for section in report.sections:
        parts += _markdown_section(section, plots)
    parts.append(f"---\n\n{escape_markdown(report.colophon)}")
    return "\n\n".join(parts) + "\n"


def escape_markdown(text: str) -> str:
    """Return ``text`` escaped so that Markdown shows it literally, in one line, inside a started block.

    Characters that could start HTML become entities: not every dialect of Markdown supports a backslash before them.
    """
    line = _SPECIAL.sub(r"\\\g<0>", " ".join(printable(text).split()))
    return _ENTITY.sub("&amp;", line).replace("<", "&lt;")


def _markdown_start(markdown: str) -> str:
    """Return inline Markdown whose first characters cannot start a list, heading, quotation or reference."""
    return _BLOCK_START.sub(r"\1\\", markdown.strip(), count=1)


def _markdown_section(section: Section, plots: str) -> Iterable[str]:
    yield f"## {escape_markdown(section.title)}"
    for block in section.blocks:
        yield from _markdown_block(block, plots)


def _markdown_block(block: Block, plots: str) -> Iterable[str]:
    match block:
        case Paragraph(spans, alert):
            yield f"> **{_markdown_line(spans)}**" if alert else _markdown_start(_markdown_line(spans))
        case Bullets(items, heading):
            if heading:
                yield f"{_markdown_start(escape_markdown(heading))}:"
            yield "\n".join(f"- {_markdown_start(_markdown_line(item))}" for item in items)
        case Table():
            if block.heading:
                yield f"### {escape_markdown(block.heading)}"
            yield _markdown_table(block)
            if block.footnotes:
                yield "\n".join(f"- {_markdown_start(escape_markdown(note))}" for note in block.footnotes)
        case Code(heading, text):
            yield f"{_markdown_start(escape_markdown(heading))}:\n\n{_markdown_listing(text)}"
        case Chart(name, title, caption, _):
            yield f"![{_bracketed(title)}]({plots}/{name}.svg)"
            yield f"*{escape_markdown(caption)}*"


def _markdown_table(table: Table) -> str:
    head = [escape_markdown(column.title) for column in table.columns]
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[_markdown_cell(cell) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rules, *rows))


def _markdown_cell(cell: Cell) -> str:
    text = _markdown_line(cell.spans)
    return f"{text} {_markdown_line(plain(cell.detail))}" if cell.detail else text


def _markdown_line(spans: tuple[Span, ...]) -> str:
    return "".join(_markdown_span(span) for span in spans)


def _markdown_span(span: Span) -> str:
    shown = printable(span.text)
    text = (
        _markdown_code(span.text)
        if span.style is Style.CODE
        else escape_markdown(span.text)
        if shown.strip()
        else shown
    )
    if span.style is Style.PLAIN and shown.strip():
        # Spaces at the ends separate this piece from its neighbours.
        text = " " * span.text.startswith(" ") + text + " " * span.text.endswith(" ")
    # Sections have anchors in HTML only.
    linked = span.href is not None and not span.href.startswith("#")
    return f"[{_bracketed(span.text)}]({span.href})" if linked else text


def _bracketed(text: str) -> str:
    """Return plain text escaped for a link's brackets."""
    return re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", escape_markdown(text))


def _markdown_code(text: str) -> str:
    line = " ".join(printable(text).split()).replace("|", "\\|")
    ticks = _longest_run(line) + 1
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{'`' * ticks}{pad}{line}{pad}{'`' * ticks}"


def _markdown_listing(text: str) -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}\n{printable(text)}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


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
        first_screen=summary.ANCHOR,
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


def page_environment(*packages: str) -> "Environment":
    """Return the templates of pages, with those in the folder ``page`` of other packages."""
    # Markdown needs no templates.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

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
    title = max((_letters(word) for word in column.title.split()), default=0)
    if column.numeric:
        most = max([*map(_letters, texts), *(0.85 * _letters(cell.detail) for cell in cells)], default=0)
    else:
        most = min(max(map(_letters, texts), default=0), LONG / 2)
    return 0.6 * max(title, most) + 1.6


def _letters(text: str) -> int:
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
