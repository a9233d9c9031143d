"""Fast encoding and decoding of samples of clicks as Examples with one value per column.

An Example is a sequence of features that are encoded independently, so features that many samples share are encoded and
decoded once and cached. A float is always the last four bytes of its feature. Examples in the form of
``encode_sample``, with the columns in order, are decoded in batches: column by column, for all samples at once.
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

CACHED_FEATURES = 1 << 17
"""Size of the cache of features."""

NO_NUMBER = 0x7FC00000
"""The word for a missing or invalid float: a NaN."""
NO_CATEGORY = 2**32 - 1
"""The word for an invalid integer, or one that does not fit."""


def encode_sample(row: NDArray[np.uint32]) -> bytes:
    """Return the Example of a sample of 40 words: ``label`` and C1 to C26 integers, I1 to I13 floats."""
    values, raw = row.tolist(), row[1 : 1 + DENSE].tobytes()
    dense = [head + raw[4 * at : 4 * at + 4] for at, head in enumerate(_FLOATS)]
    whole = zip(COLUMNS[1 + DENSE :], values[1 + DENSE :], strict=True)
    return encode_features([_encoded(COLUMNS[0], values[0]), *dense, *(_encoded(*pair) for pair in whole)])


def decode_sample(data: bytes) -> dict[str, int]:
    """Return the word of each column of an Example; raise ``ValueError`` if the data is not an Example.

    A value of the wrong type or out of range becomes ``NO_NUMBER`` or ``NO_CATEGORY``.
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
    """Return the words (samples, 40) of Examples, and a mask of the samples that were decoded.

    Only Examples with the exact form of ``encode_sample`` (integers may be encoded longer) are decoded, to the same
    words as by ``decode_sample``. The words of the others are undefined: use ``decode_sample`` for them.
    """
    data = np.frombuffer(b"".join([*records, bytes(_LONGEST_EXAMPLE)]), np.uint8)
    sizes = np.fromiter(map(len, records), np.int64, len(records))
    ends = np.cumsum(sizes)
    starts = ends - sizes
    length = sizes - _EXAMPLE_HEAD
    known = (length >= 1 << 7) & (length < 1 << 14)
    head = (0x0A, length & 0x7F | 0x80, length >> 7)
    for at, byte in enumerate(head):
        known &= data[starts + at] == byte
    words = np.empty((len(records), len(COLUMNS)), np.uint32)
    positions = starts + _EXAMPLE_HEAD
    for column, encoding in enumerate(_ENCODINGS):
        found = sliding_window_view(data, encoding.size + encoding.most)[np.where(known, positions, 0)]
        words[:, column], taken = encoding.read(found, known)
        positions += taken
    known &= positions == ends
    return words, known


@dataclass(frozen=True, slots=True)
class _Encoding:
    """The first bytes of a column's feature: ``head``, plus the value's length in bytes where ``grows`` is 1.

    A float has four value bytes and a constant head; an integer has one to five value bytes.
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
        """Return the words and sizes in bytes of features; clear ``known`` for features with another head."""
        value = found[:, self.size :]
        if not self.grows.any():
            known &= (found[:, : self.size] == self.head).all(axis=1)
            return np.ascontiguousarray(value).view("<u4")[:, 0], np.full(len(found), self.size + 4)
        length = found[:, self.size - 1]
        known &= (length >= 1) & (length <= self.most)
        known &= (found[:, : self.size] == self.head + length[:, None] * self.grows).all(axis=1)
        whole = np.zeros(len(found), np.uint64)
        for position in range(self.most):
            byte = value[:, position]
            # Every byte of a varint but the last has its highest bit set.
            known &= (position >= length) | ((byte >= 0x80) == (position + 1 < length))
            whole |= np.where(position < length, byte & 0x7F, 0).astype(np.uint64) << np.uint64(7 * position)
        known &= whole < 1 << 32
        return whole.astype(np.uint32), self.size + length.astype(np.int64)


def _encoding(name: str) -> _Encoding:
    """Return the encoding of a column's feature."""
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


@lru_cache(CACHED_FEATURES)
def _encoded(name: str, value: float) -> bytes:
    return encode_feature(name, [value])


@lru_cache(CACHED_FEATURES)
def _decoded(feature: bytes) -> tuple[str, int] | None:
    name, values = decode_feature(feature)
    return (name, _word(name, values)) if name in COLUMNS and values else None


def _word(name: str, values: Sequence[float]) -> int:
    """Return the word of the first of a feature's values."""
    value = values[0]
    if name in _FLOATS.values():
        return int(np.array(value, "<f4").view("<u4")) if isinstance(value, float) else NO_NUMBER
    return value if isinstance(value, int) and 0 <= value < 2**32 else NO_CATEGORY


_FLOATS: Mapping[bytes, str] = {encode_feature(name, [0.0])[:-4]: name for name in COLUMNS[1 : 1 + DENSE]}
"""The names of float columns by the first bytes of their features."""

_EXAMPLE_HEAD = 3
"""Bytes before the first feature of an Example with all columns: a tag, and a length of two bytes."""
_LONGEST_WORD = 5
"""Bytes of an integer of 32 bits."""
_ENCODINGS = tuple(map(_encoding, COLUMNS))
_LONGEST_EXAMPLE = _EXAMPLE_HEAD + sum(encoding.size + encoding.most for encoding in _ENCODINGS)
