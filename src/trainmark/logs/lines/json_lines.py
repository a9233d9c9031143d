"""Numbers of JSON objects, one on a line after a prefix, decoded as arrays.

Lines that differ only in their digits (``shapes``) have the same keys, and numbers at the same places: one line of each
shape is decoded as JSON, and its numbers name the places of the others. Text of too many shapes has to be decoded line
by line (``rows_by_line``): the result is the same, only slower.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from trainmark.logs.lines.digits import Characters, IrregularError
from trainmark.logs.lines.shapes import DIGITS_ALIKE, LineTable, shapes_of
from trainmark.logs.model import Floats

Hooks = Mapping[str, Any]
"""Arguments of ``json.loads`` that a reader of one object has to pass on."""
Row = tuple[float, ...]
ReadRow = Callable[[str, Hooks], Row | None]
"""Returns the numbers of one object, unchanged as JSON has them; ``None`` for an object that is left out."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?)(\d{1,2}))?')

_FEW = 3
"""Most lines of a shape that are decoded one by one."""


class Places(NamedTuple):
    """The numbers of lines as columns (``None`` without any), and lines that represent the text but for its digits."""

    columns: list[Floats | None]
    samples: list[bytes]


class _Number(float):
    """A number of an object, with its place among the object's numbers."""

    place: int


def rows_by_shape(text: bytes, prefix: bytes, columns: int, read_row: ReadRow) -> Places | None:
    """Return the rows of the lines in ``text`` that have ``prefix``, in their order; ``None`` if it is irregular.

    ``read_row`` returns ``columns`` numbers. It raises ``IrregularError`` if digits within a string decide them, unless
    the hooks are empty.
    """
    if not text.endswith(b"\n"):
        return None
    shapes = shapes_of(text, Characters.of(text))
    if shapes is None:
        return None
    found: list[Floats | None] = [None] * columns
    used = np.zeros(shapes.count, np.bool_)
    try:
        for number, line in enumerate(shapes.examples):
            if prefix not in line:
                continue
            for table in shapes.some([number]).tables:
                words = _rows(table, line, line.index(prefix) + len(prefix), read_row)
                if words is None:
                    continue
                used[table.lines] = True
                for at, values in enumerate(words):
                    if isinstance(values, float) and math.isnan(values):
                        continue
                    column = found[at]
                    if column is None:
                        column = found[at] = np.full(len(used), np.nan)
                    column[table.lines] = values
    except IrregularError:
        return None
    if not used.all():
        found = [None if column is None else column[used] for column in found]
    return Places(found, shapes.examples)


def rows_by_line(bodies: Iterable[bytes], read_row: ReadRow) -> Iterator[Row]:
    """Yield the rows of JSON objects; of objects of one shape all but the first two are read without decoding them."""
    shapes: dict[bytes, _Shape | None] = {}
    once: set[bytes] = set()
    for body in bodies:
        kind = body.translate(DIGITS_ALIKE)
        if kind in once and kind not in shapes:
            shapes[kind] = _Shape.of(body, read_row)
        once.add(kind)
        shape = shapes.get(kind)
        row = shape.row_of(body) if shape is not None else None
        if row is None:
            row = read_row(_body(body), {})
        if row is not None:
            yield row


class _Shape(NamedTuple):
    """The row of objects that differ only in digits: constants, and for some of them the place of the number."""

    constants: Row
    places: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, body: bytes, read_row: ReadRow) -> "_Shape | None":
        """Return the shape of ``body``; ``None`` if it has no row, or digits within its strings decide its numbers."""
        tokens = _tokens(body, 0)
        try:
            row = read_row(_body(body), _numbering())
        except IrregularError:
            return None
        numbers = [(at, word.place) for at, word in enumerate(row or ()) if isinstance(word, _Number)]
        if row is None or any(place >= len(tokens) for _, place in numbers):
            return None
        return cls(row, tuple((at, *tokens[place].span()) for at, place in numbers))

    def row_of(self, body: bytes) -> Row | None:
        """Return the row of ``body``; ``None`` if it has a number with a leading zero, which JSON does not allow."""
        row = list(self.constants)
        for at, start, end in self.places:
            word = body[start:end]
            if word.lstrip(b"-").startswith(b"0"):
                return None
            row[at] = float(word)
        return tuple(row)


def _tokens(line: bytes, start: int) -> list[re.Match[bytes]]:
    """Return the numbers in ``line`` that are outside of strings."""
    return [match for match in _TOKEN.finditer(line, start) if match[1] is not None]


def _rows(table: LineTable, line: bytes, start: int, read_row: ReadRow) -> tuple[Floats | float, ...] | None:
    """Return the rows of the lines of one shape as columns, those of equal numbers as one; ``None`` if left out.

    ``line`` is the first of the lines.
    """
    if len(table.lines) <= _FEW:
        rows = table.characters.single[: len(table.lines) * table.row_bytes].reshape(-1, table.row_bytes)
        words = [read_row(_body(row.tobytes()[start:]), {}) for row in rows]
        if any(word is None for word in words):
            if all(word is None for word in words):
                return None
            raise IrregularError
        return tuple(np.array(words, np.float64).T)
    row = read_row(_body(line[start:]), _numbering())
    tokens = _tokens(line, start)
    return None if row is None else tuple(_column(word, tokens, table) for word in row)


def _body(line: bytes) -> str:
    return str(line.rstrip(b"\0"), "utf-8", "replace").rstrip()


def _numbering() -> Hooks:
    """Return hooks that give each number its place."""
    places = count()

    def numbered(word: str) -> _Number:
        number = _Number(word)
        number.place = next(places)
        return number

    return {"parse_int": numbered, "parse_float": numbered}


def _column(word: float, tokens: list[re.Match[bytes]], table: LineTable) -> Floats | float:
    """Return the values of the lines of one shape, given that of its first line; one value if it is no number of it."""
    if not isinstance(word, _Number):
        return word
    if word.place >= len(tokens):
        raise IrregularError
    token = tokens[word.place]
    whole, places = len(token[1]), len(token[2] or b"")
    starts = table.starts([token.start(1)])
    if whole > 1 and (table.characters.single[np.asarray(starts)] == ord("0")).any():
        raise IrregularError  # JSON has no leading zeros
    if token[4] is None:
        values = table.characters.decimals(starts, whole, places)
    else:
        powers = table.characters.decimals(table.starts([token.start(4)]), len(token[4]), 0).astype(np.int64)
        signed = powers * (-1 if token[3] == b"-" else 1)
        values = table.characters.scientific(starts, whole, places, signed)
    return -values if token[0].startswith(b"-") else values


def read_object(body: str, hooks: Hooks) -> dict[str, Any] | None:
    """Return the JSON object in ``body``; ``None`` if it is damaged, or no object."""
    try:
        found = json.loads(body, **hooks)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
