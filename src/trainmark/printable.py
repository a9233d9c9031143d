"""Text from logs, events and file names made safe to print: one policy for terminals, reports and CSV files.

Standard output and error of the command line are streams through which no text can control the terminal.
"""

import codecs
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

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
