"""A report as Markdown (GitHub's dialect: tables, fenced code). Data is escaped and never becomes markup."""

import re
from collections.abc import Iterable

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

_SPECIAL = re.compile(r"[\\`*|~$]|\](?=[(\[:])|\[(?=[ xX]\])|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITY = re.compile(r"&(?=[#\w])")
_BLOCK_START = re.compile(r"^(\d*)(?=[-+#=>.)])")


def to_markdown(report: Report, plots: str = "plots") -> str:
    """Return the report as Markdown; its charts are the files ``<plots>/<name>.svg``."""
    parts = [f"# {escape(report.title)}", _started(escape(report.lead))]
    for section in report.sections:
        parts += _section(section, plots)
    parts.append(f"---\n\n{escape(report.colophon)}")
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return ``text`` escaped so that Markdown shows it literally, in one line, inside a started block.

    Characters that could start HTML become entities: not every dialect of Markdown supports a backslash before them.
    """
    line = _SPECIAL.sub(r"\\\g<0>", " ".join(printable(text).split()))
    return _ENTITY.sub("&amp;", line).replace("<", "&lt;")


def _started(markdown: str) -> str:
    """Return inline Markdown whose first characters cannot start a list, heading, quotation or reference."""
    return _BLOCK_START.sub(r"\1\\", markdown.strip(), count=1)


def _section(section: Section, plots: str) -> Iterable[str]:
    yield f"## {escape(section.title)}"
    for block in section.blocks:
        yield from _block(block, plots)


def _block(block: Block, plots: str) -> Iterable[str]:
    match block:
        case Paragraph(spans, alert):
            yield f"> **{_inline(spans)}**" if alert else _started(_inline(spans))
        case Bullets(items, heading):
            if heading:
                yield f"{_started(escape(heading))}:"
            yield "\n".join(f"- {_started(_inline(item))}" for item in items)
        case Table():
            if block.heading:
                yield f"### {escape(block.heading)}"
            yield _table(block)
            if block.footnotes:
                yield "\n".join(f"- {_started(escape(note))}" for note in block.footnotes)
        case Code(heading, text):
            yield f"{_started(escape(heading))}:\n\n{_fenced(text)}"
        case Chart(name, title, caption, _):
            yield f"![{_bracketed(title)}]({plots}/{name}.svg)"
            yield f"*{escape(caption)}*"


def _table(table: Table) -> str:
    head = [escape(column.title) for column in table.columns]
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rules, *rows))


def _cell(cell: Cell) -> str:
    text = _inline(cell.spans)
    return f"{text} {_inline(plain(cell.detail))}" if cell.detail else text


def _inline(spans: tuple[Span, ...]) -> str:
    return "".join(_span(span) for span in spans)


def _span(span: Span) -> str:
    shown = printable(span.text)
    text = _code(span.text) if span.style is Style.CODE else escape(span.text) if shown.strip() else shown
    if span.style is Style.PLAIN and shown.strip():
        # Spaces at the ends separate this piece from its neighbours.
        text = " " * span.text.startswith(" ") + text + " " * span.text.endswith(" ")
    # Sections have anchors in HTML only.
    linked = span.href is not None and not span.href.startswith("#")
    return f"[{_bracketed(span.text)}]({span.href})" if linked else text


def _bracketed(text: str) -> str:
    """Return plain text escaped for a link's brackets."""
    return re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", escape(text))


def _code(text: str) -> str:
    line = " ".join(printable(text).split()).replace("|", "\\|")
    ticks = _longest_run(line) + 1
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{'`' * ticks}{pad}{line}{pad}{'`' * ticks}"


def _fenced(text: str) -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}\n{printable(text)}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
