"""Numbers decoded as arrays are the doubles that ``float`` gives, to the last bit."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.logs.lines.digits import Characters

_REPRS = st.floats(1e-3, 1e12, allow_nan=False).map(repr).filter(lambda word: "e" not in word)
_LONG = st.tuples(st.integers(1, 10**9), st.integers(8, 17), st.integers(0, 10**17 - 1)).map(
    lambda parts: f"{parts[0]}.{parts[2]:017d}"[: len(str(parts[0])) + 1 + parts[1]]
)
_HALFWAY = st.tuples(st.floats(1, 1e5), st.integers(9, 13)).map(
    lambda parts: f"{(parts[0] + math.nextafter(parts[0], math.inf)) / 2:.{parts[1]}f}"
)
_WHOLE = st.integers(0, 10**18 - 1).map(str)
_WORDS = st.one_of(_REPRS, _LONG, _HALFWAY, _WHOLE).filter(
    lambda word: len(word.replace(".", "")) <= 18 and len(word.partition(".")[2]) <= 17
)


def _decoded(words: list[str]) -> list[float]:
    text = "".join(f"{word} images/s\n" for word in words).encode()
    starts = np.cumsum([0] + [len(word) + 10 for word in words[:-1]])
    whole = np.array([len(word.partition(".")[0]) for word in words])
    places = np.array([len(word.partition(".")[2]) for word in words])
    found: list[float] = Characters.of(text).decimals(starts, whole, places).tolist()
    return found


@given(st.lists(_WORDS, min_size=1, max_size=40))
def test_numbers_of_all_sizes_side_by_side_are_the_nearest_doubles(words: list[str]) -> None:
    assert _decoded(words) == [float(word) for word in words]


@pytest.mark.parametrize(
    "word",
    [
        "9007199254740993.0",  # halfway between two doubles
        "4503599627370496.5",
        "4503599627370497.5",
        "9007199254740993.5",
        "99999999999999999.9",  # beyond 2**53 before the point
        "0.99999999999999999",  # next to a power of two
        "1.00000000000000000",
        "0.00000000000000000",
        "0.00000000000000001",
        "0",
    ],
)
def test_a_number_that_is_hard_to_round_is_the_nearest_double(word: str) -> None:
    assert _decoded([word, "1.5", "100000000000.4375"]) == [float(word), 1.5, 100000000000.4375]
