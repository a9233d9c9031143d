"""Estimates, intervals and ratios over runs, checked by brute force, by properties and by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from trainmark.measure import (
    estimate,
    expected_half_width,
    narrow_enough,
    ratio,
    scaled,
    speedup,
    spread_of,
)
from trainmark.measure.statistics import interpolation
from trainmark.schema.measurement import Estimate, Interval, IntervalMethod, NoInterval, Ratio, Sampling

throughputs = st.floats(min_value=1.0, max_value=1.4, allow_nan=False)


def known(runs: list[float], sampling: Sampling = Sampling.FIXED) -> tuple[Estimate, Interval]:
    found = estimate(runs, sampling)
    assert found is not None
    assert found.interval is not None
    return found, found.interval


def quotient(a: list[float], b: list[float]) -> Ratio:
    found = ratio(estimate(a), estimate(b))
    assert found is not None
    return found


@given(st.lists(throughputs, min_size=3, max_size=40, unique=True))
def test_the_interval_contains_the_median(runs: list[float]) -> None:
    result, interval = known(runs)
    assert interval.low <= result.median <= interval.high
    assert interval.method is (IntervalMethod.STUDENT_T_LOG if len(runs) < 6 else IntervalMethod.INTERPOLATED)


@given(st.lists(throughputs, min_size=3, max_size=40, unique=True))
def test_the_interval_of_times_is_the_reciprocal_of_that_of_rates(runs: list[float]) -> None:
    _, rates = known(runs)
    _, times = known([1 / rate for rate in runs])
    if len(runs) % 2:
        assert (times.low, times.high) == pytest.approx((1 / rates.high, 1 / rates.low))


@pytest.mark.parametrize("n", range(6, 60))
def test_the_ends_are_between_the_order_statistics_around_95_percent(n: int) -> None:
    def covers(k: int) -> float:
        return 1 - float(2 * sum(math.comb(n, j) for j in range(k)) / 2**n)

    k, share = interpolation(n, 0.95)
    assert covers(k) >= 0.95 > covers(k + 1)
    assert 0 <= share < 1
    _, interval = known([math.exp(value) for value in range(1, n + 1)])
    assert math.log(interval.low) == pytest.approx(k + share)
    assert math.log(interval.high) == pytest.approx(n + 1 - k - share)


def test_the_interpolation_is_hettmansperger_and_sheathers() -> None:
    """n = 10: 97.85 % and 89.06 %, so I = 0.3245 and the share is 8 I / (2 + 6 I)."""
    k, share = interpolation(10, 0.95)
    part = (0.978515625 - 0.95) / (0.978515625 - 0.890625)
    assert k == 2
    assert share == pytest.approx(8 * part / (2 + 6 * part))


Runs = NDArray[np.float64]


def two_levels(noise: np.random.Generator, size: tuple[int, int]) -> Runs:
    return 0.002 * noise.standard_normal(size) - 0.03 * (noise.random(size) < 0.3)


def normal(noise: np.random.Generator, size: tuple[int, int]) -> Runs:
    return 0.01 * noise.standard_normal(size)


def with_outliers(noise: np.random.Generator, size: tuple[int, int]) -> Runs:
    return normal(noise, size) - (noise.random(size) < 0.1) * noise.uniform(0.03, 0.2, size)


def skewed(noise: np.random.Generator, size: tuple[int, int]) -> Runs:
    return -0.01 * noise.exponential(size=size)


SHAPES = {"normal": normal, "outliers": with_outliers, "two levels": two_levels, "skewed": skewed}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("n", [3, 5, 7, 20])
def test_the_interval_covers_the_true_median_in_95_of_100_campaigns(name: str, n: int) -> None:
    """Check the coverage with 300 campaigns, so the bounds are wide; ``benchmarks/trust.py`` has the tables."""
    noise = np.random.default_rng(7)
    truth = math.exp(float(np.median(SHAPES[name](noise, (100_000, 1)))))
    hits = 0
    for logs in SHAPES[name](noise, (300, n)):
        _, interval = known(np.exp(logs).tolist())
        hits += interval.low <= truth <= interval.high
    assert 0.89 <= hits / 300 <= 0.997


@pytest.mark.parametrize("spread", [0.001, 0.006, 0.015])
def test_an_interval_under_the_stopping_rule_covers_95_percent(spread: float) -> None:
    noise, hits = np.random.default_rng(8), 0
    for logs in spread * noise.standard_normal((400, 10)):
        runs = np.exp(logs).tolist()
        n = next((n for n in range(3, 10) if narrow_enough(runs[:n], 0.01)), 10)
        _, interval = known(runs[:n], Sampling.WAITED)
        hits += interval.low <= 1 <= interval.high
    assert 0.90 <= hits / 400 <= 0.995


def test_the_stopping_rule_uses_a_higher_level_and_records_it() -> None:
    runs = [100.0, 100.4, 100.9, 99.2, 101.3, 100.2]
    (_, fixed), (_, waited) = known(runs), known(runs, Sampling.WAITED)
    assert (fixed.computed_at, waited.computed_at) == (0.95, 0.965)
    assert waited.low < fixed.low
    assert waited.high > fixed.high


def test_a_speedups_interval_covers_the_true_ratio() -> None:
    noise, hits = np.random.default_rng(9), 0
    for _ in range(500):
        found = quotient(
            (200 * np.exp(0.02 * noise.standard_normal(5))).tolist(),
            (100 * np.exp(two_levels(noise, (1, 20)))[0]).tolist(),
        )
        assert found.interval is not None
        hits += found.interval.low <= 2.0 / math.exp(-0.00113) <= found.interval.high
    assert 0.91 <= hits / 500 <= 0.99


@given(
    st.lists(throughputs, min_size=3, max_size=9, unique=True),
    st.lists(throughputs, min_size=3, max_size=9, unique=True),
    st.floats(0.1, 10),
)
def test_a_ratio_scales_with_its_numerator_and_inverts_with_its_sides(
    a: list[float], b: list[float], factor: float
) -> None:
    one, times, turned = quotient(a, b), quotient([factor * value for value in a], b), quotient(b, a)
    if one.interval is None or times.interval is None or turned.interval is None:
        return  # scaling may have made runs equal
    assert one.interval.low <= one.value <= one.interval.high
    assert times.value == pytest.approx(factor * one.value)
    by_hand = scaled(one, factor).interval
    assert by_hand is not None
    assert (times.interval.low, times.interval.high) == pytest.approx((by_hand.low, by_hand.high), rel=1e-6)
    assert turned.value == pytest.approx(1 / one.value)
    assert (turned.interval.low, turned.interval.high) == pytest.approx(
        (1 / one.interval.high, 1 / one.interval.low), rel=1e-6
    )


@pytest.mark.parametrize(
    ("runs", "steps", "why"),
    [
        ([1.0], (), NoInterval.ONE_RUN),
        ([1.0, 2.0], (), NoInterval.TWO_RUNS),
        ([5.0, 5.0, 5.0], (), NoInterval.EQUAL_RUNS),
        ([5.0] * 9, (), NoInterval.EQUAL_RUNS),
        ([217.5, 21.6, 218.0], (), NoInterval.RUNS_DISAGREE),
        ([100.0, 101.0, 102.0], (100, 100, 40), NoInterval.STEPS_DIFFER),
    ],
)
def test_a_missing_interval_has_a_reason(runs: list[float], steps: tuple[int, ...], why: NoInterval) -> None:
    result = estimate(runs, steps=steps)
    assert result is not None
    assert (result.interval, result.half_width, result.no_interval) == (None, None, why)
    other = ratio(result, estimate([1.0, 1.1, 1.2]))
    assert other is not None
    assert (other.interval, other.no_interval) == (None, why)


def test_an_interval_remains_when_one_run_of_many_is_ten_times_slower() -> None:
    result, interval = known([100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 10.0, 100.1, 99.9])
    assert interval.low > 98
    assert result.minimum == 10.0


def test_windows_that_differ_by_a_step_or_two_are_repeats() -> None:
    result = estimate([100.0, 101.0, 102.0], steps=(100, 99, 98))
    assert result is not None
    assert result.interval is not None


def test_few_runs_must_be_closer_to_meet_the_stopping_rule() -> None:
    assert narrow_enough([100.0, 100.05, 100.1], 0.01)
    assert not narrow_enough([100.0, 100.3, 100.6], 0.01), "the interval of 3 runs is narrow by luck"
    assert narrow_enough([100.0, 100.1, 100.2, 100.3, 100.4, 100.5], 0.01)
    assert narrow_enough([100.0] * 3, 0.01), "equal runs are as near as their numbers show"
    assert not narrow_enough([], 0.01)
    assert not narrow_enough([100.0, 100.0], 0.01)


@pytest.mark.parametrize("n", [3, 5, 6, 10, 20])
def test_the_expected_width_is_that_of_normal_runs(n: int) -> None:
    noise = np.random.default_rng(3)
    widths = [known(np.exp(logs).tolist())[0].half_width for logs in 0.01 * noise.standard_normal((600, n))]
    mean = sum(width for width in widths if width) / len(widths)
    assert expected_half_width(0.01, n) == pytest.approx(mean, rel=0.1)


def test_the_spread_is_the_inverse_of_the_expected_width() -> None:
    result, _ = known([100.0, 101.0, 99.0, 100.5, 99.5, 100.2])
    spread = spread_of(result)
    assert spread is not None
    assert expected_half_width(spread, 6) == pytest.approx(result.half_width)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_an_outcome_is_not_accepted_as_a_number(bad: float) -> None:
    with pytest.raises(ValueError, match="an outcome is never a number"):
        estimate([100.0, bad])


def test_without_runs_or_baseline_there_is_no_estimate_and_no_speedup() -> None:
    some = estimate([700.0])
    assert estimate([]) is None
    assert ratio(None, some) is None
    assert speedup("8", 8, {"8": some}, None) is None
    assert speedup("8", 8, {"8": some, "1": None}, "1") is None
    assert speedup("8", 8, {"1": some}, "1") is None


def test_the_efficiency_is_the_speedup_divided_by_the_devices() -> None:
    sides = {"8": estimate([700.0, 720.0, 710.0]), "1": estimate([100.0, 100.0, 101.0])}
    found = speedup("8", 8, sides, "1")
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


def test_bimodal_runs_give_a_speedup_within_its_interval() -> None:
    result = quotient([100, 100, 100, 99, 99, 30, 31, 30.5, 29] * 2, [50, 50.1, 49.9] * 6)
    assert result.interval is not None
    assert result.interval.low <= result.value <= result.interval.high
