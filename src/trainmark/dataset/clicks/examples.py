"""A sample of clicks as an Example of one value for each column, written and read quickly.

An Example is its features one after another: each is encoded by itself, and those that many samples have are encoded,
and decoded, once. A float is always the last four bytes of its feature.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
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
