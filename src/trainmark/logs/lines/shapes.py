"""Lines of a text grouped by shape: two lines have one shape if they are equal after replacing every digit by 0.

The numbers in lines of one shape are at the same offsets and have the same number of digits. The lines of a log have
few shapes, so matching one line per shape is enough.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trainmark.logs.lines.digits import ROOM, Bytes, Characters, Ints, Starts, Words, first_bytes

MOST_SHAPES = 64
_MOST_IN_SAMPLE = 24
_SAMPLE_BYTES = 1 << 14
_LONGEST_LINE = 1 << 16
_MUCH_LONGER = 1.25
"""Lines longer than the mean by this factor get a table of their own: each row is as long as the longest line."""
_ZERO, _NINES = np.uint8(ord("0")), np.full(1 << 18, 9, np.uint8)
"""An array, because comparing two arrays is ten times faster than comparing an array with a number."""


def _mixed(numbers: Words) -> Words:
    """Return odd factors that differ in all bits, one per number: SplitMix64, without loading NumPy's generators."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
    return mixed | np.uint64(1)


_FACTORS = _mixed(np.arange(1, _LONGEST_LINE // 4 + 1, dtype=np.uint64))
DIGITS_ALIKE = bytes.maketrans(b"123456789", b"0" * 9)


class LineTable(NamedTuple):
    """Lines of similar length, stored as rows of ``characters``; ``kinds`` are their shape numbers.

    ``lines`` are the line numbers in the text, in its order; ``present`` are the shape numbers in the table, each once.
    """

    lines: Ints
    kinds: Ints
    present: list[int]
    characters: Characters
    row_bytes: int

    def each(self, values: Sequence[int]) -> Ints | int:
        """Return for each line the value of its shape; a single number if all are equal."""
        distinct = {values[kind] for kind in self.present}
        return distinct.pop() if len(distinct) == 1 else np.array(values)[self.kinds]

    def starts(self, columns: Sequence[int]) -> Starts:
        """Return the position of each line's column, given one column per shape."""
        column, end = self.each(columns), len(self.lines) * self.row_bytes
        if isinstance(column, int):
            return range(column, column + end, self.row_bytes)
        return np.arange(0, end, self.row_bytes) + column


@dataclass(frozen=True, slots=True)
class Shapes:
    """The lines of a text in tables, and the first line of each shape (with its line end) in the order of the text."""

    examples: list[bytes]
    tables: list[LineTable]

    @property
    def count(self) -> int:
        """The number of lines."""
        return sum(len(table.lines) for table in self.tables)

    def some(self, numbers: Sequence[int]) -> "Shapes":
        """Return only the lines of the shapes with these ``numbers``."""
        if len(numbers) == len(self.examples):
            return self
        renumbered = np.full(len(self.examples), -1)
        renumbered[numbers] = np.arange(len(numbers))
        tables = []
        for table in self.tables:
            kinds = renumbered[table.kinds]
            chosen = np.flatnonzero(kinds >= 0)
            if len(chosen):
                rows = _rows(table.characters.single, chosen * table.row_bytes, table.row_bytes)
                present = [number for kind in table.present if (number := int(renumbered[kind])) >= 0]
                tables.append(
                    LineTable(table.lines[chosen], kinds[chosen], present, Characters(rows), table.row_bytes)
                )
        return Shapes([self.examples[number] for number in numbers], tables)


def shapes_of(text: bytes, characters: Characters) -> Shapes | None:
    """Return the lines of ``text`` (whole lines, at least one) by shape; ``None`` if there are many shapes."""
    sample = text[:_SAMPLE_BYTES].translate(DIGITS_ALIKE)
    if len(set(sample.split(b"\n"))) > _MOST_IN_SAMPLE:
        return None
    ends = characters.line_ends()
    starts = np.concatenate(([0], ends[:-1]))
    lengths = ends - starts
    if lengths.max() > _LONGEST_LINE:
        return None
    tables: list[LineTable] = []
    first: list[int] = []
    for lines in _group_by_length(lengths):
        alone = len(lines) == len(lengths)
        made = _table(characters, lines, *((starts, lengths) if alone else (starts[lines], lengths[lines])))
        if made is None or len(first) + len(made[1]) > MOST_SHAPES:
            return None
        tables.append(made[0])
        first += made[1]
    examples = [text[starts[at] : ends[at]] for at in sorted(first)]
    return Shapes(examples, _in_order(tables, first))


def one_of_each(text: bytes) -> bytes:
    """Return the first line of each shape in ``text``, or all of ``text`` if it has many shapes."""
    if len(text) <= _SAMPLE_BYTES or not text.endswith(b"\n"):
        return text
    found = shapes_of(text, Characters.of(text))
    return text if found is None else b"".join(found.examples)


def few_of_each(text: bytes, most: int) -> bytes:
    """Return the first ``most`` lines of each shape in ``text``, or all of ``text`` if it has many shapes."""
    end = text.rfind(b"\n") + 1
    if end <= _SAMPLE_BYTES:
        return text
    characters = Characters.of(text[:end])
    found = shapes_of(text[:end], characters)
    if found is None:
        return text
    lines = sorted(
        line
        for table in found.tables
        for number in table.present
        for line in table.lines[np.flatnonzero(table.kinds == number)[:most]].tolist()
    )
    ends = [0, *characters.line_ends().tolist()]
    return b"".join(text[ends[line] : ends[line + 1]] for line in lines) + text[end:]


def _in_order(tables: list[LineTable], first: list[int]) -> list[LineTable]:
    """Return ``tables`` with shapes numbered by the order of their ``first`` lines in the text."""
    if len(tables) == 1 and first == sorted(first):
        return tables
    place = {line: number for number, line in enumerate(sorted(first))}
    ordered, before = [], 0
    for table in tables:
        present = [place[line] for line in first[before : before + len(table.present)]]
        ordered.append(table._replace(kinds=np.array(present)[table.kinds], present=present))
        before += len(present)
    return ordered


def _group_by_length(lengths: Ints) -> Iterator[Ints]:
    """Yield groups of line numbers, each of lines not much longer than the mean of the remaining ones."""
    lines = np.arange(len(lengths))
    while len(lines):
        here = lengths[lines]
        short = here <= max(_MUCH_LONGER * float(here.mean()), 8)
        yield lines if short.all() else lines[short]
        lines = lines[~short]


def _table(
    characters: Characters, lines: Ints, starts: Ints, lengths: Ints
) -> tuple[LineTable, list[int]] | None:
    """Return the lines that begin at ``starts``, and the first line of each shape; ``None`` if there are many."""
    size = int(lengths.max() + 7) // 8
    rows = _rows(characters.single, starts, 8 * size)
    block: Words = rows[: 8 * size * len(lines)].view("<u8").reshape(-1, size)
    # Clear the characters after each line's end.
    for word in range(int(lengths.min()) // 8, size):
        block[:, word] &= first_bytes(lengths - 8 * word)
    alike: Words = _digits_alike(rows[: 8 * block.size]).view("<u8").reshape(-1, size)
    if (alike[1:] == alike[:-1]).all():
        return LineTable(lines, np.zeros(len(lines), np.int64), [0], Characters(rows), 8 * size), lines[
            :1
        ].tolist()
    sums = alike @ _FACTORS[:size]
    ordered = np.sort(sums)
    distinct = ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
    if len(distinct) > MOST_SHAPES:
        return None
    kinds = np.searchsorted(distinct, sums) if len(distinct) > 1 else np.zeros(len(lines), np.int64)
    first = np.empty(len(distinct), np.int64)
    first[kinds[::-1]] = np.arange(len(lines))[::-1]  # the last assignment to an index wins
    wanted = alike[first]
    if len(distinct) > 1:
        wanted = np.take(wanted, kinds, axis=0)
    if (alike != wanted).any():
        return None  # two shapes have the same sum by chance
    table = LineTable(lines, kinds, list(range(len(distinct))), Characters(rows), 8 * size)
    return table, lines[first].tolist()


def _digits_alike(characters: Bytes) -> Bytes:
    """Return the characters minus ``0`` with all digits mapped to 9; other characters stay distinct."""
    alike = characters - _ZERO
    for at in range(0, len(alike), len(_NINES)):
        part = alike[at : at + len(_NINES)]
        np.maximum(part, _NINES[: len(part)], out=part)
    return alike


def _rows(characters: Bytes, starts: Ints, size: int) -> Bytes:
    """Return the ``size`` characters at each of ``starts``, concatenated, followed by padding."""
    last = int(starts.max()) + size
    if last > len(characters):
        characters = np.concatenate((characters, np.zeros(last - len(characters), np.uint8)))
    everywhere = np.ndarray((len(characters) - size + 1,), f"V{size}", characters, strides=(1,))
    rows: Bytes = everywhere[np.concatenate((starts, [starts[-1]] * -(-ROOM // size)))].view(np.uint8)
    return rows
