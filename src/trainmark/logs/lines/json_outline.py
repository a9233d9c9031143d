"""Strings of many JSON objects, one on a line, found at once where only the values of the objects differ.

The quotes of a line that no backslash escapes are where its strings begin and end. Lines of one outline have as many of
them, and the same text between their values but for numbers; one line of the outline is decoded as JSON.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from trainmark.logs.lines.digits import Ints
from trainmark.logs.lines.json_page import NEWLINE, Flags, Page

_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"(?=(\s*:)?)')
SCALAR = re.compile(rb"(?<=[:,\[\s])(?:-?\d[-+.\deE]*|true|false|null)(?=[,\]}\s])")
_ANY_SCALAR = rb"(?:-?(?:0|[1-9]\d{0,30})(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null)"

Spans = tuple[Ints, Ints]
"""The first characters of strings, and those after their last."""


class Strings(NamedTuple):
    """The text, and the time if it is wanted, in lines that are objects; ``lines`` are their numbers, which rise.

    ``quotes`` and ``controls`` are how many of them a line has: quotes that no backslash escapes, and characters below
    the printed ones. ``has_parts`` shows the objects of Docker, which writes a line in parts.
    """

    lines: Ints
    texts: Spans
    times: Spans | None
    quotes: Ints
    controls: Ints
    has_parts: Flags

    @classmethod
    def alike(
        cls, lines: Ints, texts: Spans, times: Spans | None, quotes: int, controls: int, has_parts: bool
    ) -> "Strings":
        """Return the strings of lines that have the same numbers of quotes and controls."""
        size = len(lines)
        numbers = np.full(size, quotes), np.full(size, controls)
        return cls(lines, texts, times, *numbers, np.full(size, has_parts))

    def some(self, chosen: Flags | Ints) -> "Strings":
        """Return those of the ``chosen`` lines."""
        texts, times = _some(self.texts, chosen), self.times and _some(self.times, chosen)
        numbers = self.quotes[chosen], self.controls[chosen]
        return Strings(self.lines[chosen], texts, times, *numbers, self.has_parts[chosen])


def _some(spans: Spans, chosen: Flags | Ints) -> Spans:
    return spans[0][chosen], spans[1][chosen]


class Outline(NamedTuple):
    """The text around the values that are strings, their places among the quotes, and which are text and time.

    ``spans`` are those of the values in the line that has shown the outline.
    """

    around: tuple[bytes, ...]
    spans: tuple[tuple[int, int], ...]
    opens: tuple[int, ...]
    quotes: int
    text: int
    time: int | None
    has_parts: bool

    @classmethod
    def of(cls, line: bytes, key: str, times: Sequence[str]) -> "Outline | None":
        """Return the outline of an object with a text at ``key`` and its time at the first of ``times``; None without.

        ``times`` may be empty; a time that is no string is none.
        """
        found = list(_STRING.finditer(line))
        values = [number for number, string in enumerate(found) if string[2] is None]
        if any(b"\\" in string[1] for string in found if string[2] is not None):
            return None
        spans = tuple(found[number].span(1) for number in values)
        bounds = [0, *(place for span in spans for place in span), len(line)]
        around = tuple(line[bounds[at] : bounds[at + 1]] for at in range(0, len(bounds), 2))
        try:
            numbered = json.loads(b"".join(_alternate(around, [b"%d" % at for at in range(len(values))])))
        except ValueError:
            return None
        numbers = {name: int(value) for name, value in _items(numbered) if isinstance(value, str)}
        if key not in numbers:
            return None
        time = next((numbers[name] for name in times if name in numbers), None)
        has_parts = "stream" in numbered and "time" in numbered
        opens = tuple(2 * number for number in values)
        return cls(around, spans, opens, 2 * len(found), numbers[key], time, has_parts)

    def find(self, page: Page) -> Strings:
        """Return the strings of the lines of ``page`` that have this outline."""
        counts = page.counts(page.quotes)
        is_alike = counts == self.quotes
        is_alike[page.line_of(page.controls[page.single[page.controls] != NEWLINE])] = False
        lines = np.flatnonzero(is_alike)
        rows = page.quotes[np.repeat(is_alike, counts)].reshape(-1, self.quotes)
        fits = self._fits(page, rows, lines)
        lines, rows = lines[fits], rows[fits]
        times = None if self.time is None else self._value(rows, self.time)
        return Strings.alike(lines, self._value(rows, self.text), times, self.quotes, 1, self.has_parts)

    def _value(self, rows: Ints, number: int) -> Spans:
        place = self.opens[number]
        begins: Ints = rows[:, place] + 1
        return begins, rows[:, place + 1]

    def _fits(self, page: Page, rows: Ints, lines: Ints) -> Flags:
        """Return which ``lines``, with quotes at ``rows``, have this outline's text around their values."""
        fits = np.ones(len(lines), np.bool_)
        begins = page.starts[lines]
        for number, around in enumerate(self.around):
            is_last = number == len(self.opens)
            stops = page.ends[lines] if is_last else rows[:, self.opens[number]] + 1
            equal = stops - begins == len(around)
            equal[equal] = page.characters.have(around, begins[equal])
            if not equal.all() and SCALAR.search(around):
                others = np.flatnonzero(~equal & fits)
                words = [
                    page.padded[begin:stop]
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


def _with_any_scalars(around: bytes) -> re.Pattern[bytes]:
    """Return the pattern of the text around values with any numbers and words in the place of its own."""
    parts = [re.escape(part) for part in SCALAR.split(around)]
    return re.compile(_ANY_SCALAR.join(parts))
