"""The main tables as plain text, for the end of ``trainmark run``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len

from trainmark.printable import printable
from trainmark.report.blocks import Cell, Table
from trainmark.report.context import Context, context
from trainmark.report.language import Language
from trainmark.report.sections.machine import bound_lines
from trainmark.report.sections.runs import repeats_section
from trainmark.report.sections.summary import advice_lines, inspection_sentence, lead, required_lines
from trainmark.report.sections.throughput import caption, equality, per_device, tables
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results

_MOST_NAMES = 3
"""The cases that a line names; the table above it shows which ones they are."""


def render_table(results: Results, language: Language = Language.EN) -> str:
    """Return the tables of throughputs, the findings on equal work, and a line for each case without a number."""
    about = context(results, Path(), language)
    say = about.say
    parts = [lead(about), caption(about), *(text for text, _ in equality(about))]
    parts += [_table(table) for table in tables(about)]
    parts += [f"{say('per_device_title')}\n\n{_table(table)}" for table in per_device(about)]
    parts += bound_lines(about)
    waited = repeats_section(about)
    if waited is not None:
        parts.append(waited.title)
        parts += [_table(block) for block in waited.blocks if isinstance(block, Table)]
    parts += inspection_sentence(about)
    if about.findings.requirements:
        title = f"{say('required_title')}{say('colon')}".rstrip()
        parts.append("\n".join([title, *required_lines(about)]))
    parts += advice_lines(about)
    if missing := list(_missing(about)):
        parts.append("\n".join(missing))
    return printable("\n\n".join(parts)) + "\n"


def _missing(about: Context) -> Iterator[str]:
    """Yield a line for each reason why cases have no number, with their names or how many they are."""
    say, cases = about.say, about.results.cases
    named: dict[tuple[Outcome, str], list[str]] = {}
    for case in cases:
        if case.outcome is not Outcome.OK:
            named.setdefault((case.outcome, case.reason or "-"), []).append(about.axes.label(case.case))
    for (outcome, reason), names in named.items():
        which = say.joined(names) if len(names) <= _MOST_NAMES else say.count("cases", len(names))
        yield say("colon").join((which, say.outcome(outcome), say.translated(reason)))


def _table(table: Table) -> str:
    lines = [
        [column.title for column in table.columns],
        *([_text(cell) for cell in row] for row in table.rows),
    ]
    text, widths = aligned(lines, [column.numeric for column in table.columns])
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*([table.heading] if table.heading else []), *text, *table.footnotes])


def aligned(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> tuple[list[str], list[int]]:
    """Return lines of cells as aligned columns (right-aligned if ``right`` is true), and each column's width."""
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(map(_aligned, line, widths, right)).rstrip() for line in lines]
    return text, widths


def _text(cell: Cell) -> str:
    words = " ".join("".join(span.text for span in cell.spans).split())
    return f"{words} {cell.detail}" if cell.detail else words


def _aligned(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks
