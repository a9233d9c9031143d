"""Text from logs, events and file names made safe to print: one policy for terminals, reports and CSV files.

Standard output and error of the command line are streams through which no text can control the terminal. Tables fit
the terminal: cells are wrapped, and a row that is still too wide becomes a block of lines.
"""

import codecs
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from textwrap import wrap
from typing import Any, TextIO, cast


def significant(value: float, digits: int = 5) -> str:
    """Return a number rounded to so many digits that count; a large one without an exponent: ``227560``."""
    rounded = f"{value:.{digits}g}"
    return f"{float(rounded):.0f}" if 10**digits <= abs(value) < 1e15 else rounded


def rate_text(value: float) -> str:
    """Return a rate with six digits, or with all before its point if it has more: ``1973413``."""
    return f"{value:.6g}" if abs(value) < 1e5 else f"{value:.0f}"


def counted(number: int, what: str) -> str:
    """Return a number with its noun: ``1 run``, ``2 runs``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, line separators, changes of the writing direction, undecodable bytes."""
_SIGNS = str.maketrans(
    {
        "†": "*",
        "‡": "**",
        "±": "+-",
        "×": "x",
        "–": "-",
        "—": "-",
        "…": "...",
        "→": "->",
        "≤": "<=",
        "≥": ">=",
    }
    | {"“": '"', "”": '"', "‘": "'", "’": "'", "µ": "u", "·": "*", "Δ": "delta"}
)
_GAP = 2
_LEAST = 14
"""The narrowest column of words; words longer than that are broken."""


def printable(text: str) -> str:
    """Return ``text`` with each character that controls a terminal escaped, such as ``\\u001b``; newlines stay.

    JSON stays valid and keeps its meaning. Tabs become spaces.
    """
    return _UNPRINTABLE.sub(_escaped, text).replace("\t", " ")


def printable_line(text: str) -> str:
    """Return ``text`` as ``printable`` does, with newlines escaped too."""
    return printable(text).replace("\n", "\\n")


def last_line(text: str) -> str:
    """Return the last line of ``text`` that is not blank, without the blanks around it; empty if there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _escaped(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"


class PrintableStream:
    """A text stream that writes ``printable`` text; all else is that of the ``unfiltered`` stream.

    Progress bars, which control the terminal, are written to the ``unfiltered`` stream.
    """

    def __init__(self, unfiltered: TextIO) -> None:
        self.unfiltered = unfiltered

    def write(self, text: str) -> int:
        """Write the text, and return its length."""
        self.unfiltered.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the unfiltered stream."""
        return getattr(self.unfiltered, name)


def unfiltered(stream: TextIO) -> TextIO:
    """Return the stream behind a ``PrintableStream``, or the stream itself."""
    return cast("TextIO", getattr(stream, "unfiltered", stream))


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Return a stand-in for characters that an encoding lacks: in JSON their escape, in text a similar sign.

    A sign without a similar one is escaped too, so nothing is lost and nothing raises.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    if not error.object.lstrip().startswith(("{", "[", '"')):
        part = part.translate(_SIGNS)
    units = part.encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    words = (int.from_bytes(pair, "big") for pair in pairs)
    return "".join(chr(word) if word < 128 else f"\\u{word:04x}" for word in words), error.end


def _accept_any_text(stream: TextIO) -> None:
    """Let a stream write characters that its encoding (such as Latin-1) lacks."""
    if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
        codecs.register_error("trainmark", _replace_unencodable)
        # It is set before the position is read, which fails if the stream's file was replaced by a pipe.
        with suppress(OSError):
            reconfigure(errors="trainmark")


@contextmanager
def printable_output() -> Iterator[None]:
    """Make standard output and error printable while the context lasts."""
    out, error = sys.stdout, sys.stderr
    _accept_any_text(out)
    _accept_any_text(error)
    sys.stdout, sys.stderr = cast("TextIO", PrintableStream(out)), cast("TextIO", PrintableStream(error))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, error


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


def folded(line: str, indent: int) -> str:
    """Return a line as lines of the terminal's width, broken between words, the further ones indented.

    On no terminal, and on one that has no room beside the indentation, it is as it was.
    """
    screen = terminal_width()
    if screen is None or len(line) <= screen or screen < 2 * indent:
        return line
    parts = wrap(line, screen, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(parts)


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
