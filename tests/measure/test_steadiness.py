"""The warm-up test: windows that it must report as unsteady, and windows that it must not."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trainmark.measure import judge_steadiness
from trainmark.schema.measurement import CannotSay, Cause, Shape

STEPS = 100
Series = NDArray[np.float64]


def noisy(shape: NDArray[np.floating[Any]] | float, spread: float = 0.01, seed: int = 0) -> Series:
    noise = np.random.default_rng(seed).standard_normal(STEPS).clip(-3, 3)
    series: Series = 0.1 * (np.ones(STEPS) + shape + spread * noise)
    return series


index = np.arange(STEPS)

UNSTEADY = {
    "ten slow steps at the start": 0.5 * (index < 10),
    "an exponential warm-up": np.exp(-index / 10),
    "a third of the window slow": 0.2 * (index < 30),
    "slow beyond the middle": 0.2 * (index < 60),
    "slower all the time": 0.1 * index / STEPS,
    "a sudden slowdown": 0.1 * (index >= 70),
    "only the very first step": 5.0 * (index < 1),
}

STEADY = {
    "nothing but noise": np.zeros(STEPS),
    "every seventh step slow": 0.3 * (index % 7 == 0),
    "every sixteenth step slow": 0.5 * (index % 16 == 0),
    "a slow wave": 0.05 * np.sin(index),
    "one hiccup in the middle": 2.0 * (index == 41),
}


@pytest.mark.parametrize("name", UNSTEADY)
@pytest.mark.parametrize("seed", range(5))
def test_an_unsteady_window_is_found(name: str, seed: int) -> None:
    verdict = judge_steadiness(noisy(UNSTEADY[name], seed=seed))
    assert verdict.steady is False


@pytest.mark.parametrize("name", STEADY)
@pytest.mark.parametrize("seed", range(5))
def test_a_steady_window_is_reported_as_steady(name: str, seed: int) -> None:
    assert judge_steadiness(noisy(STEADY[name], seed=seed)).steady is True


@pytest.mark.parametrize("spread", [0.001, 0.01, 0.1, 0.2])
def test_noise_is_rarely_taken_for_a_warm_up(spread: float) -> None:
    verdicts = [judge_steadiness(noisy(0.0, spread, seed)).steady for seed in range(300)]
    assert verdicts.count(False) / 300 < 0.08


def test_the_step_at_which_the_window_settled_is_reported() -> None:
    verdict = judge_steadiness(noisy(UNSTEADY["ten slow steps at the start"]))
    assert verdict.settled_after in (10, 15), "the noise may make MSER leave out five steps more"
    assert verdict.bias == pytest.approx(0.05, abs=0.005)
    assert judge_steadiness(noisy(UNSTEADY["slow beyond the middle"])).settled_after is None


def test_the_time_unit_does_not_matter() -> None:
    series = noisy(UNSTEADY["an exponential warm-up"])
    milli = judge_steadiness(series * 1000)
    assert milli.bias == pytest.approx(judge_steadiness(series).bias)
    assert milli.steady is False


def test_fewer_than_twenty_steps_give_no_verdict() -> None:
    assert judge_steadiness(np.full(19, 0.1)).steady is None
    assert judge_steadiness(np.array([], dtype=np.float64)).steady is None


def test_equal_steps_are_steady() -> None:
    verdict = judge_steadiness(np.full(40, 0.1))
    assert (verdict.steady, verdict.settled_after, verdict.bias) == (True, 0, 0.0)


def test_steps_without_a_time_are_ignored() -> None:
    times = np.full(40, 0.1)
    times[3] = np.nan
    assert judge_steadiness(times).steady is True


def correlated(rho: float, seed: int, n: int = STEPS) -> Series:
    noise = np.random.default_rng(seed).standard_normal(n)
    series = np.empty(n)
    series[0] = noise[0]
    for t in range(1, n):
        series[t] = rho * series[t - 1] + np.sqrt(1 - rho**2) * noise[t]
    return series


FOUND = {
    "a burst": (0.5 * ((index >= 40) & (index < 60)), Shape.BURST, None),
    "throttling late": (0.1 * (index >= 80), Shape.SLOWDOWN, None),
    "throttling at the very end": (0.1 * (index >= 90), Shape.SLOWDOWN, None),
    "a queue that empties": (-0.1 * (index < 20), Shape.FAST_START, 20),
    "a slow start": (0.1 * (index < 20), Shape.SLOW_START, 20),
    "half three times slower": (2.0 * (index >= 50), Shape.FAST_START, 50),
    "a drift": (0.2 * index / STEPS, Shape.DRIFT, None),
    "two levels": (0.1 * ((index // 20) % 2), Shape.LEVELS, None),
    "faster late": (-0.1 * (index >= 70), Shape.SPEEDUP, None),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_shape_and_its_first_step_are_reported(name: str) -> None:
    form, shape, after = FOUND[name]
    found = [judge_steadiness(noisy(form, seed=seed)) for seed in range(10)]
    right = [one for one in found if one.steady is False and one.shape is shape]
    assert len(right) >= 8
    if after is not None:
        assert sum(abs((one.settled_after or 0) - after) <= 3 for one in right) >= 8


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.8, 0.9])
def test_correlated_steps_are_rarely_taken_for_a_change(rho: float) -> None:
    found = [judge_steadiness(0.1 * np.exp(0.03 * correlated(rho, seed))) for seed in range(150)]
    assert sum(one.steady is False for one in found) / 150 < 0.08


def test_halves_of_one_and_three_thirds_of_a_second_are_not_steady() -> None:
    times = np.concatenate([np.full(15, 0.35), np.full(15, 1.05)]) * np.exp(0.02 * correlated(0.3, 4, 30))
    assert judge_steadiness(times).steady is False


def test_a_window_with_too_much_variation_gives_no_verdict() -> None:
    verdicts = [judge_steadiness(0.1 * np.exp(0.3 * correlated(0.8, seed, 30))) for seed in range(30)]
    assert any(one.cannot_say is CannotSay.TOO_NOISY for one in verdicts)
    assert all(one.steady is None for one in verdicts if one.cannot_say)
    assert judge_steadiness(np.full(19, 0.1)).cannot_say is CannotSay.TOO_FEW_STEPS


@pytest.mark.parametrize("n", [24, 38, 60, 100])
@pytest.mark.parametrize("last", [2.0, 1.3, 0.5])
def test_an_even_drift_is_not_called_noise(n: int, last: float) -> None:
    found = judge_steadiness(np.linspace(1, last, n) * np.exp(0.01 * correlated(0, 7, n)))

    assert found.steady is False
    assert found.shape in (Shape.DRIFT, Shape.SLOWDOWN, Shape.SPEEDUP)
    assert found.levels


@pytest.mark.parametrize("rho", [0.8, 0.95, 0.98])
def test_correlated_steps_of_a_short_window_are_rarely_a_drift(rho: float) -> None:
    found = [judge_steadiness(np.exp(0.1 * correlated(rho, seed, 38))) for seed in range(200)]
    assert sum(one.shape is Shape.DRIFT for one in found) / 200 < 0.04


def test_the_power_is_reported_and_grows_with_the_steps() -> None:
    few, many = (judge_steadiness(0.1 * np.exp(0.02 * correlated(0, 1, n))).detectable for n in (40, 160))
    assert few is not None
    assert many is not None
    assert 0.005 < many < few < 0.2


def test_a_compilation_in_the_window_is_distinguished_from_a_slow_start() -> None:
    times = noisy(5.0 * (index < 1))
    assert judge_steadiness(times).cause is Cause.COMPILE
    assert judge_steadiness(times).settled_after == 1
    assert judge_steadiness(noisy(0.1 * (index < 20))).cause is None


def test_slow_steps_at_an_epoch_start_have_that_cause() -> None:
    times, starts = noisy(0.5 * ((index >= 40) & (index < 50))), index == 40
    assert judge_steadiness(times, starts).cause is Cause.EPOCH
    assert judge_steadiness(times, index == 70).cause is None


def test_slow_steps_that_waited_for_data_have_that_cause() -> None:
    slow = (index >= 80).astype(np.float64)
    found = judge_steadiness(noisy(0.2 * slow), data_waits_s=0.018 * slow)
    assert (found.shape, found.cause) == (Shape.SLOWDOWN, Cause.DATA)


def test_a_window_of_many_steps_is_tested_by_their_means() -> None:
    steps = np.arange(2000)
    times = 0.1 * (1 + 0.1 * (steps >= 1600) + 0.02 * np.random.default_rng(2).standard_normal(2000))
    found = judge_steadiness(times)
    assert found.shape is Shape.SLOWDOWN
    assert abs(found.levels[-1].first - 1600) <= 40
