"""Plain-text tables that fit the terminal: cells are wrapped, and a row that is too wide becomes a block of lines."""

import os
import sys
from collections.abc import Sequence
from textwrap import wrap

_GAP = 2
_LEAST = 14
"""The narrowest column of words; words longer than that are broken."""


def terminal_width() -> int | None:
    """Return the columns of the terminal that standard output is, by ``COLUMNS`` first; None if it is none."""
    if not sys.stdout.isatty():
        return None
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated) > 0:
        return int(stated)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def fit(lines: Sequence[Sequence[str]], right: Sequence[bool], width: int) -> list[str] | None:
    """Return rows of cells, the headings first, as lines of at most ``width`` columns; None if they fit already.

    Columns of words are narrowed as far as they can be, the widest first; columns of numbers (``right``) keep their
    width. If that is not enough, each row is a block with one line for each cell.
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if _total(widths) <= width:
        return None
    for _ in range(10_000):
        wide = [at for at, one in enumerate(widths) if not right[at] and one > _LEAST]
        if _total(widths) <= width or not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    if _total(widths) > width:
        return _blocks(lines, width)
    return [text for line in lines for text in _wrapped(line, widths, right)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _wrapped(line: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    cells = [wrap(cell, size) or [""] for cell, size in zip(line, widths, strict=True)]
    found = []
    for number in range(max(map(len, cells))):
        parts = [cell[number] if number < len(cell) else "" for cell in cells]
        padded = (
            part.rjust(size) if is_number else part.ljust(size)
            for part, size, is_number in zip(parts, widths, right, strict=True)
        )
        found.append((" " * _GAP).join(padded).rstrip())
    return found


def _blocks(lines: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return each row as lines of heading and cell; the first cell is the heading of the block."""
    headings, *rows = lines
    size = max(map(len, headings[1:]), default=0)
    found: list[str] = []
    for row in rows:
        found += wrap(row[0], width) or ["-"]
        for heading, cell in zip(headings[1:], row[1:], strict=True):
            room = max(_LEAST, width - size - 2 * _GAP)
            first, *others = wrap(cell, room) or ["-"]
            found.append(f"  {heading.ljust(size)}  {first}")
            found += [f"  {' ' * size}  {other}" for other in others]
    return found


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return ``rows`` under ``headings`` as aligned lines that fit the terminal; numbers are right-aligned."""
    columns = list(zip(headings, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [all(_is_number(cell) for cell in column[1:]) and len(column) > 1 for column in columns]
    screen = terminal_width()
    if screen is not None and (fitted := fit((headings, *rows), numeric, screen)) is not None:
        return "\n".join(fitted) + "\n"
    lines = []
    for row in (headings, *rows):
        cells = zip(row, widths, numeric, strict=True)
        line = "  ".join(cell.rjust(w) if right else cell.ljust(w) for cell, w, right in cells)
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(".", "", 1).replace("e+", "", 1).lstrip("+-").rstrip("%").isdecimal()
