"""The formulas against numpy, in memory and out of it."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.logs.model import BUFFERED_VALUES, Column, Floats
from trainmark.measure.rules.series import (
    Blocks,
    block_median,
    count,
    harmonic_mean,
    mean,
    order_statistic,
    trimmed_mean,
)

_RATES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60)


def _blocks(values: list[float], size: int = 7) -> Blocks:
    def blocks() -> Iterator[Floats]:
        for start in range(0, len(values), size):
            yield np.array(values[start : start + size])

    return blocks


@given(values=_RATES)
def test_order_statistics_are_exact(values: list[float]) -> None:
    for k, value in enumerate(sorted(values)):
        assert order_statistic(_blocks(values), k) == value


@given(values=_RATES)
def test_the_median_is_the_median(values: list[float]) -> None:
    assert block_median(_blocks(values)) == pytest.approx(float(np.median(values)), rel=1e-12)


@given(
    values=st.lists(st.sampled_from([1.0, 2.0, 2.5, 7.0]) | st.floats(0.1, 100), min_size=11, max_size=60),
    drop=st.integers(1, 5),
)
def test_a_trimmed_mean_drops_its_share_at_each_end_with_ties(values: list[float], drop: int) -> None:
    expected = float(np.mean(sorted(values)[drop:-drop]))

    assert trimmed_mean(_blocks(values), drop) == pytest.approx(expected, rel=1e-12)


@given(values=_RATES)
def test_the_harmonic_mean_of_rates_is_samples_over_time(values: list[float]) -> None:
    samples = [3.0] * len(values)

    found = harmonic_mean(_blocks(values), _blocks(samples, size=5))

    assert found == pytest.approx(3.0 * len(values) / sum(3.0 / rate for rate in values))


def test_values_that_are_not_finite_are_ignored() -> None:
    values = [1.0, float("nan"), 3.0]

    assert count(_blocks(values)) == 2
    assert mean(_blocks(values)) == 2.0
    assert block_median(_blocks(values)) == 2.0


@given(
    chunks=st.lists(st.integers(0, 40_000), max_size=12),
    window=st.tuples(st.integers(0, 400_000), st.integers(0, 400_000)),
)
@settings(max_examples=30, deadline=None)
def test_a_column_returns_any_slice_of_its_values(chunks: list[int], window: tuple[int, int]) -> None:
    column, expected = Column(), []
    for number, size in enumerate(chunks):
        values = np.arange(size, dtype=np.float64) + number * 1e6
        column.append(values)
        expected.append(values)
    everything = np.concatenate(expected) if expected else np.empty(0)

    assert len(column) == len(everything)
    assert np.array_equal(column.array(*window), everything[window[0] : window[1]])


def test_a_large_column_leaves_memory_for_a_file() -> None:
    column = Column()
    for _ in range(10):
        column.append(np.ones(BUFFERED_VALUES // 2))

    assert column._buffered_count <= BUFFERED_VALUES
    assert len(column) == 5 * BUFFERED_VALUES
    assert float(sum(block.sum() for block in column.blocks())) == 5.0 * BUFFERED_VALUES
