"""Lines of a text that are JSON objects: their places, and those of the characters that JSON treats differently."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.lines.digits import ROOM, Bytes, Characters, Ints, places

Flags = NDArray[np.bool_]

NEWLINE, QUOTE, BACKSLASH = b'\n"\\'
FIRST_PRINTED = 0x20
"""JSON allows no character below this one, a tab for example, in a string."""
_BLOCK = 1 << 16
"""Characters that a core's fastest caches hold."""
_FEW_LINES = 64
"""So many lines are searched one by one; the characters of more of them are counted in all of the text."""


@dataclass(frozen=True)
class Page:
    """Whole lines of UTF-8, with ``ROOM`` zeros behind them; ``ends`` are after each ``\\n``.

    ``controls`` are the places of all characters below ``FIRST_PRINTED``, which are the line ends in most texts.
    """

    padded: bytes
    characters: Characters
    single: Bytes
    controls: Ints
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, padded: bytes) -> "Page | None":
        """Return the lines in ``padded``; None if it does not end with a line, or is no UTF-8."""
        size = len(padded) - ROOM
        if size < 1 or padded[size - 1] != NEWLINE or not _is_utf8(padded):
            return None
        characters = Characters(np.frombuffer(padded, np.uint8))
        single = characters.single[:size]
        is_control = characters.single[: len(padded) // 8 * 8] < FIRST_PRINTED
        is_control[size:] = False
        controls = places(is_control)
        is_end = single[controls] == NEWLINE
        ends = (controls if is_end.all() else controls[is_end]) + 1
        return cls(padded, characters, single, controls, np.concatenate(([0], ends[:-1])), ends)

    def text(self, first: int, after: int) -> bytes:
        """Return the lines from number ``first`` up to ``after``, which is none of them."""
        return self.padded[self.starts[first] : self.ends[after - 1]]

    def total(self, character: int) -> int:
        """Return how often ``character`` occurs."""
        is_it, single = np.empty(_BLOCK, np.bool_), self.single
        found = 0
        for at in range(0, len(single), _BLOCK):
            part = single[at : at + _BLOCK]
            found += int(np.count_nonzero(np.equal(part, character, out=is_it[: len(part)])))
        return found

    def total_in(self, character: int, lines: Ints) -> int:
        """Return how often ``character`` occurs in some lines."""
        if len(lines) > _FEW_LINES:
            return int(self.counts(np.flatnonzero(self.single == character))[lines].sum())
        spans = zip(self.starts[lines].tolist(), self.ends[lines].tolist(), strict=True)
        return sum(int(np.count_nonzero(self.single[start:end] == character)) for start, end in spans)

    def counts(self, places: Ints) -> Ints:
        """Return how many of ``places`` are in each line."""
        found: Ints = np.diff(np.searchsorted(places, self.ends), prepend=0)
        return found

    def line_of(self, places: Ints) -> Ints:
        """Return the number of the line that has each of ``places``."""
        found: Ints = np.searchsorted(self.ends, places, side="right")
        return found

    @cached_property
    def escapes(self) -> Ints:
        """The places of the backslashes that escape what follows, not those that one escapes."""
        found = np.flatnonzero(self.single == BACKSLASH)
        is_first = np.diff(found, prepend=-2) > 1
        if is_first.all():
            return found
        # Each second one of those that follow each other is escaped.
        numbers = np.arange(len(found))
        begins = np.maximum.accumulate(np.where(is_first, numbers, 0))
        unescaped: Ints = found[(numbers - begins) % 2 == 0]
        return unescaped

    @cached_property
    def quotes(self) -> Ints:
        """The places of the quotes that no backslash escapes."""
        found = np.flatnonzero(self.single == QUOTE)
        escaped = self.escapes[self.single[self.escapes + 1] == QUOTE]
        return np.setdiff1d(found, escaped + 1, assume_unique=True) if escaped.size else found


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except ValueError:
        return False
    return True
