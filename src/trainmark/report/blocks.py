"""Parts of a report before it is rendered: sections of paragraphs, tables, charts and code.

All text here is plain: the renderers escape it for their format.
"""

from dataclasses import dataclass
from enum import StrEnum

from trainmark.report.drawing import Drawing


class Style(StrEnum):
    """Style of a piece of text."""

    PLAIN = "plain"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text; ``href`` is a path relative to the report's own folder, percent-encoded."""

    text: str
    style: Style = Style.PLAIN
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A table's cell; ``detail`` (an interval) comes after the text, less prominently."""

    spans: tuple[Span, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column; numbers are aligned to the right."""

    title: str
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph; an alert is something that a reader must not miss."""

    spans: tuple[Span, ...]
    alert: bool = False


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of short statements with its own heading (may be empty)."""

    items: tuple[tuple[Span, ...], ...]
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from zero beside a table's row, as fractions of the longest one's axis, with its interval."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its own heading (may be empty) and footnotes.

    Its first ``keys`` columns name the row: a page that is too narrow for all columns repeats them in a second table.
    ``bars`` has a bar for each row and ``bars_note`` their meaning, which only HTML shows; empty for a table without.
    """

    heading: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    footnotes: tuple[str, ...] = ()
    keys: int = 1
    bars: tuple[Bar, ...] = ()
    bars_note: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """A listing, such as a command; ``heading`` describes it."""

    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: its file's name without suffix, a description in words, and the drawing."""

    name: str
    title: str
    caption: str
    drawing: Drawing


Block = Paragraph | Bullets | Table | Code | Chart


@dataclass(frozen=True, slots=True)
class Section:
    """A section; ``anchor`` is its name in links. A long one may be collapsed if the format allows it."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report in one language (a BCP 47 tag); ``subtitle`` is the lead in a few words."""

    language: str
    title: str
    subtitle: str
    lead: str
    sections: tuple[Section, ...]
    colophon: str

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The charts of all sections."""
        return tuple(b for section in self.sections for b in section.blocks if isinstance(b, Chart))


def plain(text: str) -> tuple[Span, ...]:
    """Return one piece of plain text."""
    return (Span(text),)


def code(text: str) -> tuple[Span, ...]:
    """Return one piece of code."""
    return (Span(text, Style.CODE),)


def marked(text: str) -> tuple[Span, ...]:
    """Return a sentence whose code is between backticks, as in the terminal."""
    pieces = enumerate(text.split("`"))
    return tuple(Span(piece, Style.CODE if at % 2 else Style.PLAIN) for at, piece in pieces if piece)


def cell(text: str, detail: str = "") -> Cell:
    """Return a cell of plain text."""
    return Cell(plain(text), detail)
