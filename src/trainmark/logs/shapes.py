"""Lines of a text by their shape: which are the same, character for character, but for which digit a digit is.

A line has a shape; the numbers in lines of one shape stand at the same places and have as many digits. The lines of a
log have few shapes, so each is looked at once, and what holds for it holds for all its lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from trainmark.logs.digits import Bytes, Ints

MOST_SHAPES = 64
_MOST_IN_SAMPLE = 24
_SAMPLE_BYTES = 1 << 14
_LONGEST_LINE = 1 << 16
_NEWLINE = ord("\n")
_ZERO, _NINE = np.uint8(ord("0")), np.uint8(9)
DIGITS_ALIKE = bytes.maketrans(b"123456789", b"0" * 9)


@dataclass(frozen=True, slots=True)
class Shapes:
    """The lines of a text: where each starts, the first line of each shape, and which lines have it.

    ``examples`` are lines with their ends, as they come in the text; ``rows`` are the numbers of the lines of each.
    """

    starts: Ints
    examples: list[bytes]
    rows: list[Ints]
    _together: dict[tuple[int, ...], tuple[Ints, Ints]] = field(default_factory=dict)

    def together(self, numbers: tuple[int, ...]) -> tuple[Ints, Ints]:
        """Return the numbers of the lines of several shapes, one shape after the other, and where they start."""
        found = self._together.get(numbers)
        if found is None:
            rows = np.concatenate([self.rows[number] for number in numbers])
            found = self._together[numbers] = rows, self.starts[rows]
        return found


def shapes_of(text: bytes, characters: Bytes) -> Shapes | None:
    """Return the lines of ``text`` (whole lines, at least one) by shape; ``None`` where the shapes are many.

    ``characters`` are those of ``text``; there may be more of them.
    """
    sample = text[:_SAMPLE_BYTES].translate(DIGITS_ALIKE)
    if len(set(sample.split(b"\n"))) > _MOST_IN_SAMPLE:
        return None
    characters = characters[: len(text)]
    ends = np.flatnonzero(characters == _NEWLINE) + 1
    starts = np.concatenate(([0], ends[:-1]))
    lengths = ends - starts
    if lengths.max() > _LONGEST_LINE:
        return None
    alike = _digits_alike(characters)
    found: list[Ints] = []
    for length, of_length in _by_length(lengths):
        for rows in _alike(_block(alike, starts[of_length], length), of_length):
            if len(found) == MOST_SHAPES:
                return None
            found.append(rows)
    found.sort(key=lambda rows: int(rows[0]))
    return Shapes(starts, [text[starts[rows[0]] : ends[rows[0]]] for rows in found], found)


def one_of_each(text: bytes) -> bytes:
    """Return the first line of each shape in ``text``, or ``text`` itself where it has many."""
    if len(text) <= _SAMPLE_BYTES or not text.endswith(b"\n"):
        return text
    found = shapes_of(text, np.frombuffer(text, np.uint8))
    return text if found is None else b"".join(found.examples)


def _by_length(lengths: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each length and the numbers of the lines that have it."""
    counts = np.bincount(lengths)
    # Numbers of two bytes are sorted by counting.
    order = np.argsort(lengths.astype(np.min_scalar_type(len(counts))), kind="stable")
    met = np.flatnonzero(counts)
    yield from zip(met.tolist(), np.split(order, np.cumsum(counts[met])[:-1]), strict=True)


def _digits_alike(characters: Bytes) -> Bytes:
    """Return the characters less ``0``, all digits as zero; different ones but for digits stay different."""
    alike = characters - _ZERO
    others = (alike > _NINE).view(np.uint8)
    alike &= np.negative(others, out=others)
    return alike


def _block(alike: Bytes, starts: Ints, length: int) -> Bytes:
    """Return the lines of one ``length`` that begin at ``starts``, each a row."""
    first, count = int(starts[0]), len(starts)
    if int(starts[-1]) - first == (count - 1) * length:
        return alike[first : first + count * length].reshape(count, length)
    everywhere = np.ndarray((len(alike) - length + 1,), f"V{length}", alike, strides=(1,))
    return everywhere[starts].view(np.uint8).reshape(count, length)


def _alike(block: Bytes, rows: Ints) -> Iterator[Ints]:
    """Yield the ``rows`` whose lines in ``block`` are the same, for each that there is."""
    while block.tobytes() != block[0].tobytes() * len(block):
        others = (block != block[0]).any(axis=1)
        yield rows[~others]
        rows, block = rows[others], block[others]
    yield rows
