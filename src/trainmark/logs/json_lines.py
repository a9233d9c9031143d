"""Numbers of JSON objects, one on a line after a prefix, decoded as arrays.

Lines that differ only in their digits (``shapes``) have the same keys, and numbers at the same places: one line of each
shape is decoded as JSON, and its numbers name the places of the others. Text of too many shapes has to be decoded line
by line: the result is the same, only slower.
"""

import json
import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.digits import Characters, IrregularError
from trainmark.logs.shapes import LineTable, shapes_of

Hooks = Mapping[str, Any]
"""Arguments of ``json.loads`` that a reader of one object has to pass on."""
Row = tuple[float, ...]
ReadRow = Callable[[str, Hooks], Row | None]
"""Returns the numbers of one object, unchanged as JSON has them; ``None`` for an object that is left out."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?)(\d{1,2}))?')

_FEW = 3
"""Most lines of a shape that are decoded one by one."""


class Places(NamedTuple):
    """The numbers of lines as rows, and lines that represent the text except for its digits."""

    rows: Floats
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
    rows, lines = [np.empty((0, columns))], [np.empty(0, np.int64)]
    try:
        for number, line in enumerate(shapes.examples):
            if prefix not in line:
                continue
            for table in shapes.some([number]).tables:
                found = _rows(table, line, line.index(prefix) + len(prefix), read_row)
                if found is not None:
                    rows.append(found)
                    lines.append(table.lines)
    except IrregularError:
        return None
    order = np.argsort(np.concatenate(lines))
    return Places(np.concatenate(rows)[order], shapes.examples)


def _rows(table: LineTable, line: bytes, start: int, read_row: ReadRow) -> Floats | None:
    """Return the rows of the lines of one shape, of which ``line`` is the first; ``None`` if they are left out."""
    if len(table.lines) <= _FEW:
        rows = table.characters.single[: len(table.lines) * table.row_bytes].reshape(-1, table.row_bytes)
        words = [read_row(_body(row.tobytes()[start:]), {}) for row in rows]
        if any(word is None for word in words):
            if all(word is None for word in words):
                return None
            raise IrregularError
        return np.array(words, np.float64)
    tokens = [match for match in _TOKEN.finditer(line, start) if match[1] is not None]
    row = read_row(_body(line[start:]), _numbering())
    return None if row is None else np.column_stack([_column(word, tokens, table) for word in row])


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


def _column(word: float, tokens: list[re.Match[bytes]], table: LineTable) -> Floats:
    """Return the values of the lines of one shape, given that of its first line."""
    if not isinstance(word, _Number):
        return np.full(len(table.lines), word)
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
