"""Strings of many JSON objects, one on a line, found at once where only the values of the objects differ.

The quotes of a line that no backslash escapes are where its strings begin and end. Lines of one outline have as many of
them, and the same text between their values but for numbers; one line of the outline is decoded as JSON.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.lines.digits import Bytes, Characters, Ints

_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"(?=(\s*:)?)')
_SCALAR = re.compile(rb"(?<=[:,\[\s])(?:-?\d[-+.\deE]*|true|false|null)(?=[,\]}\s])")
_ANY_SCALAR = rb"(?:-?(?:0|[1-9]\d{0,30})(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null)"
_FIRST_PRINTED = 0x20
"""JSON allows no character below this one, a tab for example, in a string."""
_NEWLINE, _QUOTE, _BACKSLASH = b'\n"\\'
_ESCAPED_LINE_END = rb"\n"
_MOSTLY = 0.5
"""Least share of the lines that have the outline; fewer are decoded faster without it."""

Flags = NDArray[np.bool_]


class Strings(NamedTuple):
    """The first and the last characters of the text, and of the time if it is wanted, in lines of one outline.

    ``lines`` are the numbers of these lines, ``starts`` the first characters of all lines and the end of the last.
    ``is_plain``: the text has no escape but that of the line end that it may have, which ``ends_line`` shows.
    """

    lines: Ints
    starts: Ints
    texts: tuple[Ints, Ints]
    times: tuple[Ints, Ints] | None
    is_plain: Flags
    ends_line: Flags

    @property
    def total(self) -> int:
        """The number of all lines."""
        return len(self.starts) - 1


class Outline(NamedTuple):
    """The text around the values that are strings, their places among the quotes, and which are text and time."""

    around: tuple[bytes, ...]
    opens: tuple[int, ...]
    quotes: int
    text: int
    time: int | None
    has_parts: bool
    """Whether the objects are Docker's, which writes a line in parts."""

    @classmethod
    def of(cls, line: bytes, key: str, times: Sequence[str]) -> "Outline | None":
        """Return the outline of an object with a text at ``key`` and its time at the first of ``times``; None without.

        ``times`` may be empty; a time that is no string is none.
        """
        found = list(_STRING.finditer(line))
        values = [number for number, string in enumerate(found) if string[2] is None]
        if any(b"\\" in string[1] for string in found if string[2] is not None):
            return None
        spans = [found[number].span(1) for number in values]
        bounds = [0, *(place for span in spans for place in span), len(line)]
        around = tuple(line[bounds[at] : bounds[at + 1]] for at in range(0, len(bounds), 2))
        try:
            numbered = json.loads(b"".join(_alternate(around, [b"%d" % at for at in range(len(values))])))
        except ValueError:
            return None
        places = {name: int(value) for name, value in _items(numbered) if isinstance(value, str)}
        if key not in places:
            return None
        time = next((places[name] for name in times if name in places), None)
        has_parts = "stream" in numbered and "time" in numbered
        opens = tuple(2 * number for number in values)
        return cls(around, opens, 2 * len(found), places[key], time, has_parts)

    def find(self, text: bytes) -> Strings | None:
        """Return the strings of the lines in ``text``, which is UTF-8, that have this outline; None if few have it."""
        characters = Characters.of(text)
        single = characters.single[: len(text)]
        breaks = np.flatnonzero(single < _FIRST_PRINTED)
        is_end = single[breaks] == _NEWLINE
        ends = breaks[is_end] + 1
        escapes = _escapes(single)
        quotes = np.flatnonzero(single == _QUOTE)
        if (escaped := escapes[single[escapes + 1] == _QUOTE]).size:
            quotes = np.setdiff1d(quotes, escaped + 1, assume_unique=True)
        starts = np.concatenate(([0], ends))
        rows = quotes.reshape(-1, self.quotes) if len(quotes) == self.quotes * len(ends) else quotes[:0]
        lines = np.arange(len(ends))
        if not (
            is_end.all() and len(rows) and (rows[:, 0] >= starts[:-1]).all() and (rows[:, -1] < ends).all()
        ):
            counts = _counts(quotes, ends)
            is_alike = counts == self.quotes
            is_alike[np.searchsorted(ends, breaks[~is_end], side="right")] = False
            lines, rows = lines[is_alike], quotes[np.repeat(is_alike, counts)].reshape(-1, self.quotes)
        fits = self._fits(text, characters, rows, starts, lines)
        if not fits.all():
            lines, rows = lines[fits], rows[fits]
        begins, stops = self._value(rows, self.text)
        own = np.searchsorted(escapes, stops) - np.searchsorted(escapes, begins)
        is_whole = (own == _counts(escapes, ends)[lines]) if own.sum() < len(escapes) else own >= 0
        if np.count_nonzero(is_whole) < max(1, _MOSTLY * len(ends)):
            return None
        ends_line = (own == 1) & (stops - begins > 1) & characters.have(_ESCAPED_LINE_END, stops - 2)
        times = None if self.time is None else self._value(rows[is_whole], self.time)
        return Strings(
            lines[is_whole],
            starts,
            (begins[is_whole], stops[is_whole]),
            times,
            ((own == 0) | ends_line)[is_whole],
            ends_line[is_whole],
        )

    def _value(self, rows: Ints, number: int) -> tuple[Ints, Ints]:
        place = self.opens[number]
        begins: Ints = rows[:, place] + 1
        return begins, rows[:, place + 1]

    def _fits(self, text: bytes, characters: Characters, rows: Ints, starts: Ints, lines: Ints) -> Flags:
        """Return which ``lines``, with quotes at ``rows``, have this outline's text around their values."""
        fits = np.ones(len(lines), np.bool_)
        begins = starts[lines]
        for number, around in enumerate(self.around):
            is_last = number == len(self.opens)
            stops = starts[lines + 1] if is_last else rows[:, self.opens[number]] + 1
            equal = stops - begins == len(around)
            equal[equal] = characters.have(around, begins[equal])
            if not equal.all() and _SCALAR.search(around):
                others = np.flatnonzero(~equal & fits)
                words = [
                    text[begin:stop]
                    for begin, stop in zip(begins[others].tolist(), stops[others].tolist(), strict=True)
                ]
                pattern = _with_any_scalars(around)
                fitting = {word for word in set(words) if pattern.fullmatch(word)}
                equal[others] = [word in fitting for word in words]
            fits &= equal
            if not is_last:
                begins = rows[:, self.opens[number] + 1]
        return fits


def _alternate(around: Sequence[bytes], values: Sequence[bytes]) -> list[bytes]:
    """Return what is around values and these, in turn."""
    return [part for pair in zip(around, (*values, b""), strict=True) for part in pair]


def _items(found: Any) -> list[tuple[str, Any]]:
    return list(found.items()) if isinstance(found, dict) else []


def _counts(places: Ints, ends: Ints) -> Ints:
    """Return how many of ``places`` are in each line."""
    found: Ints = np.diff(np.searchsorted(places, ends), prepend=0)
    return found


def _escapes(single: Bytes) -> Ints:
    """Return the places of the backslashes that escape what follows, not those that one escapes."""
    found = np.flatnonzero(single == _BACKSLASH)
    is_first = np.diff(found, prepend=-2) > 1
    if is_first.all():
        return found
    # Each second one of those that follow each other is escaped.
    numbers = np.arange(len(found))
    begins = np.maximum.accumulate(np.where(is_first, numbers, 0))
    unescaped: Ints = found[(numbers - begins) % 2 == 0]
    return unescaped


def _with_any_scalars(around: bytes) -> re.Pattern[bytes]:
    """Return the pattern of the text around values with any numbers and words in the place of its own."""
    parts = [re.escape(part) for part in _SCALAR.split(around)]
    return re.compile(_ANY_SCALAR.join(parts))
