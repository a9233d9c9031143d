"""Text from logs, events and file names made safe to print: one policy for terminals, reports and CSV files."""

import re

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, line separators, changes of the writing direction, undecodable bytes."""


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
