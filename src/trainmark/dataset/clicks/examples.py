"""A sample of clicks as an Example of one value for each column, written and read quickly.

An Example is its features one after another: each is encoded by itself, and those that many samples have are encoded,
and decoded, once. A float is always the last four bytes of its feature. Samples that stand there as they are written
here, the columns in their order, are read many at a time: column by column, each of all samples at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from trainmark.dataset.example import decode_feature, encode_feature, encode_features, features_of
from trainmark.worker.tasks.recommendation.architectures import DENSE
from trainmark.worker.tasks.recommendation.records import COLUMNS

KEPT = 1 << 17
"""Features that are remembered."""

NO_NUMBER = 0x7FC00000
"""The word of a float that is none."""
NO_CATEGORY = 2**32 - 1
"""The word of a whole number that has no room in one."""


def encode_sample(row: NDArray[np.uint32]) -> bytes:
    """Return the Example of a sample, 40 words: ``label`` and C1 to C26 whole numbers, I1 to I13 floats."""
    values, raw = row.tolist(), row[1 : 1 + DENSE].tobytes()
    dense = [head + raw[4 * at : 4 * at + 4] for at, head in enumerate(_FLOATS)]
    whole = zip(COLUMNS[1 + DENSE :], values[1 + DENSE :], strict=True)
    return encode_features([_encoded(COLUMNS[0], values[0]), *dense, *(_encoded(*pair) for pair in whole)])


def decode_sample(data: bytes) -> dict[str, int]:
    """Return the word of each column that an Example has; raises ``ValueError`` for no Example.

    A value of the wrong type or beyond a word has one that is no number, or no category.
    """
    words: dict[str, int] = {}
    for feature in features_of(data):
        name = _FLOATS.get(feature[:-4])
        if name is not None:
            words[name] = int.from_bytes(feature[-4:], "little")
        elif (found := _decoded(feature)) is not None:
            words[found[0]] = found[1]
    return words


def decode_samples(records: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Return the words (samples, 40) of Examples, and of which it has them.

    It has those alone that are, to the byte, what ``encode_sample`` writes but for longer forms of an integer; of these
    ``decode_sample`` gives the same. The words of the others say nothing, and ``decode_sample`` has to look at them.
    """
    data = np.frombuffer(b"".join([*records, bytes(_LONGEST_EXAMPLE)]), np.uint8)
    sizes = np.fromiter(map(len, records), np.int64, len(records))
    ends = np.cumsum(sizes)
    starts = ends - sizes
    inside = sizes - _EXAMPLE_HEAD
    known = (inside >= 1 << 7) & (inside < 1 << 14)
    head = (0x0A, inside & 0x7F | 0x80, inside >> 7)
    for at, byte in enumerate(head):
        known &= data[starts + at] == byte
    words = np.empty((len(records), len(COLUMNS)), np.uint32)
    places = starts + _EXAMPLE_HEAD
    for column, encoding in enumerate(_ENCODINGS):
        found = sliding_window_view(data, encoding.size + encoding.most)[np.where(known, places, 0)]
        words[:, column], taken = encoding.read(found, known)
        places += taken
    known &= places == ends
    return words, known


@dataclass(frozen=True, slots=True)
class _Encoding:
    """How a column's feature begins: ``head``, to whose bytes the length of the value is added where ``grows`` has 1.

    A float has four bytes behind it, and nothing of its head grows; an integer has one to five.
    """

    head: NDArray[np.uint8]
    grows: NDArray[np.uint8]
    most: int

    @property
    def size(self) -> int:
        """Bytes of the head."""
        return len(self.head)

    def read(
        self, found: NDArray[np.uint8], known: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the words of features, and their bytes; what does not begin so is not ``known`` any more."""
        value = found[:, self.size :]
        if not self.grows.any():
            known &= (found[:, : self.size] == self.head).all(axis=1)
            return np.ascontiguousarray(value).view("<u4")[:, 0], np.full(len(found), self.size + 4)
        length = found[:, self.size - 1]
        known &= (length >= 1) & (length <= self.most)
        known &= (found[:, : self.size] == self.head + length[:, None] * self.grows).all(axis=1)
        whole = np.zeros(len(found), np.uint64)
        for place in range(self.most):
            byte = value[:, place]
            # All bytes of an integer but its last one have their highest bit, which says that another follows.
            known &= (place >= length) | ((byte >= 0x80) == (place + 1 < length))
            whole |= np.where(place < length, byte & 0x7F, 0).astype(np.uint64) << np.uint64(7 * place)
        known &= whole < 1 << 32
        return whole.astype(np.uint32), self.size + length.astype(np.int64)


def _encoding(name: str) -> _Encoding:
    """Return how a column's feature begins among the features of an Example."""
    if name in _FLOATS.values():
        head = np.frombuffer(_feature(name, 0.0)[:-4], np.uint8)
        return _Encoding(head, np.zeros_like(head), 4)
    one, two = (
        np.frombuffer(_feature(name, value)[:-size], np.uint8) for value, size in ((0, 1), (1 << 7, 2))
    )
    return _Encoding(one - (two - one), two - one, _LONGEST_WORD)


def _feature(name: str, value: float) -> bytes:
    feature = encode_feature(name, [value])
    return encode_features([feature])[-len(feature) - 2 :]


@lru_cache(KEPT)
def _encoded(name: str, value: float) -> bytes:
    return encode_feature(name, [value])


@lru_cache(KEPT)
def _decoded(feature: bytes) -> tuple[str, int] | None:
    name, values = decode_feature(feature)
    return (name, _word(name, values)) if name in COLUMNS and values else None


def _word(name: str, values: Sequence[float]) -> int:
    """Return what stands in a record of words for the first of a feature's values."""
    value = values[0]
    if name in _FLOATS.values():
        return int(np.array(value, "<f4").view("<u4")) if isinstance(value, float) else NO_NUMBER
    return value if isinstance(value, int) and 0 <= value < 2**32 else NO_CATEGORY


_FLOATS: Mapping[bytes, str] = {encode_feature(name, [0.0])[:-4]: name for name in COLUMNS[1 : 1 + DENSE]}
"""The columns of floats by how their features begin."""

_EXAMPLE_HEAD = 3
"""Bytes before the first feature of an Example of all columns: a tag, and a length of two bytes."""
_LONGEST_WORD = 5
"""Bytes of an integer of 32 bits."""
_ENCODINGS = tuple(map(_encoding, COLUMNS))
_LONGEST_EXAMPLE = _EXAMPLE_HEAD + sum(encoding.size + encoding.most for encoding in _ENCODINGS)
