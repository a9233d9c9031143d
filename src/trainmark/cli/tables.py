"""Plain-text tables for a terminal."""

from collections.abc import Sequence

from trainmark.fitting import fit, terminal_width


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
