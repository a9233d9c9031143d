"""Estimates, intervals and ratios over runs: their mathematics, by brute force, by properties and by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.measure import estimate, ratio, scaled, speedup
from trainmark.measure.statistics import _order
from trainmark.words.measurement import IntervalMethod

throughputs = st.floats(min_value=1e-3, max_value=1e6, allow_nan=False)


@given(st.lists(throughputs, min_size=3, max_size=5))
def test_the_interval_of_three_to_five_runs_contains_the_median(runs: list[float]) -> None:
    result = estimate(runs)
    assert result is not None
    assert result.interval is not None
    assert result.interval.method is IntervalMethod.STUDENT_T_LOG
    slack = 1e-9 * result.maximum
    assert result.interval.low - slack <= result.median <= result.interval.high + slack


@given(st.lists(throughputs, min_size=6, max_size=40))
def test_the_interval_of_more_runs_lies_between_two_of_them(runs: list[float]) -> None:
    result = estimate(runs)
    assert result is not None
    assert result.interval is not None
    assert result.interval.method is IntervalMethod.ORDER_STATISTICS
    assert {result.interval.low, result.interval.high} <= set(runs)
    assert result.interval.low <= result.median <= result.interval.high


@pytest.mark.parametrize("n", range(6, 120))
def test_the_order_statistics_are_the_innermost_that_cover_95_percent(n: int) -> None:
    def outside(k: int) -> float:
        return float(2 * sum(math.comb(n, j) for j in range(k)) / 2**n)

    innermost = max(k for k in range(1, n // 2 + 1) if outside(k) <= 0.05)
    assert _order(n) == innermost
    result = estimate([float(value) for value in range(1, n + 1)])
    assert result is not None
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == (innermost, n + 1 - innermost)


@pytest.mark.parametrize("n", [3, 5, 6, 9, 10, 20])
def test_the_interval_covers_the_true_median_in_95_of_100_campaigns(n: int) -> None:
    """Normal runs, 4000 campaigns; the bounds are three standard errors of the simulation below 95 %."""
    noise = np.random.default_rng(7)
    hits = 0
    for _ in range(4000):
        result = estimate((100 + noise.standard_normal(n)).tolist())
        assert result is not None
        assert result.interval is not None
        hits += result.interval.low <= 100 <= result.interval.high
    assert hits / 4000 > 0.95 - 3 * math.sqrt(0.05 * 0.95 / 4000)


def test_a_skewed_machine_is_covered_by_order_statistics_too() -> None:
    noise = np.random.default_rng(8)
    hits = 0
    for _ in range(2000):
        result = estimate((1 + noise.exponential(size=10)).tolist())
        assert result is not None
        assert result.interval is not None
        hits += result.interval.low <= 1 + math.log(2) <= result.interval.high
    assert hits / 2000 > 0.94


def test_a_speedups_interval_covers_the_true_ratio() -> None:
    noise = np.random.default_rng(9)
    hits = 0
    for _ in range(3000):
        quotient = ratio(
            (200 * np.exp(0.02 * noise.standard_normal(5))).tolist(),
            (100 * np.exp(0.01 * noise.standard_normal(4))).tolist(),
        )
        assert quotient is not None
        assert quotient.interval is not None
        hits += quotient.interval.low <= 2.0 <= quotient.interval.high
    assert hits / 3000 > 0.94


@given(
    st.lists(throughputs, min_size=3, max_size=9),
    st.lists(throughputs, min_size=3, max_size=9),
    st.floats(0.1, 10),
)
def test_a_ratio_scales_with_its_numerator_and_turns_over_with_its_sides(
    a: list[float], b: list[float], factor: float
) -> None:
    one, times, turned = ratio(a, b), ratio([factor * value for value in a], b), ratio(b, a)
    assert one is not None
    assert times is not None
    assert turned is not None
    assert one.interval is not None
    assert times.interval is not None
    assert turned.interval is not None
    assert times.value == pytest.approx(factor * one.value)
    by_hand = scaled(one, factor).interval
    assert by_hand is not None
    assert (times.interval.low, times.interval.high) == pytest.approx((by_hand.low, by_hand.high))
    assert turned.value == pytest.approx(1 / one.value)
    assert (turned.interval.low, turned.interval.high) == pytest.approx(
        (1 / one.interval.high, 1 / one.interval.low)
    )


def test_equal_runs_have_an_interval_of_no_width() -> None:
    result = estimate([5.0, 5.0, 5.0])
    assert result is not None
    assert result.half_width == 0
    quotient = ratio([4.0, 4.0, 4.0], [2.0, 2.0, 2.0])
    assert quotient is not None
    assert quotient.interval is not None
    assert quotient.interval.low == quotient.interval.high == pytest.approx(2)


@pytest.mark.parametrize("runs", [[1.0], [1.0, 2.0]])
def test_fewer_than_three_runs_have_no_interval(runs: list[float]) -> None:
    result = estimate(runs)
    assert result is not None
    assert (result.interval, result.half_width) == (None, None)
    quotient = ratio(runs, [1.0, 1.0, 1.0])
    assert quotient is not None
    assert quotient.interval is None


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_an_outcome_is_never_a_number(bad: float) -> None:
    with pytest.raises(ValueError, match="an outcome is never a number"):
        estimate([100.0, bad])


def test_without_runs_or_baseline_there_is_no_estimate_and_no_speedup() -> None:
    assert estimate([]) is None
    assert ratio([], [1.0]) is None
    assert speedup("8", 8, {"8": [700.0]}, None) is None
    assert speedup("8", 8, {"8": [700.0], "1": []}, "1") is None
    assert speedup("8", 8, {"1": [100.0]}, "1") is None


def test_a_speedup_over_its_devices_is_the_efficiency() -> None:
    found = speedup("8", 8, {"8": [700.0, 720.0, 710.0], "1": [100.0, 100.0, 101.0]}, "1")
    assert found is not None
    assert found.speedup.value == pytest.approx(7.1)
    assert found.efficiency.value == pytest.approx(7.1 / 8)
    assert found.efficiency.interval is not None
    assert found.speedup.interval is not None
    assert found.efficiency.interval.high == pytest.approx(found.speedup.interval.high / 8)


def test_the_median_of_five_runs_is_the_middle_one_in_any_order() -> None:
    result = estimate([383.7, 385.2, 382.1, 386.0, 384.4])
    assert result is not None
    assert (result.median, result.minimum, result.maximum, result.n) == (384.4, 382.1, 386.0, 5)
    assert result.mean == pytest.approx(384.28)


def test_runs_of_two_kinds_give_a_speedup_inside_its_interval() -> None:
    result = ratio([100, 100, 100, 99, 99, 30, 31, 30.5, 29] * 2, [50] * 18)
    assert result is not None
    assert result.interval is not None
    assert result.interval.low <= result.value <= result.interval.high
