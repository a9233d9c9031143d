"""The warm-up test: what it must find, and what it must leave alone."""

import numpy as np
import pytest
from numpy.typing import NDArray

from trainmark.measure import judge_steadiness

STEPS = 100
Series = NDArray[np.float64]


def noisy(shape: Series | float, spread: float = 0.01, seed: int = 0) -> Series:
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
def test_what_is_not_steady_is_found(name: str, seed: int) -> None:
    verdict = judge_steadiness(noisy(UNSTEADY[name], seed=seed))
    assert verdict.steady is False


@pytest.mark.parametrize("name", STEADY)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_steady_is_left_alone(name: str, seed: int) -> None:
    assert judge_steadiness(noisy(STEADY[name], seed=seed)).steady is True


@pytest.mark.parametrize("spread", [0.001, 0.01, 0.1, 0.2])
def test_noise_alone_is_rarely_taken_for_a_warm_up(spread: float) -> None:
    verdicts = [judge_steadiness(noisy(0.0, spread, seed)).steady for seed in range(300)]
    assert verdicts.count(False) / 300 < 0.08


def test_where_the_window_settled_is_told() -> None:
    verdict = judge_steadiness(noisy(UNSTEADY["ten slow steps at the start"]))
    assert verdict.settled_after in (10, 15), "the noise may make MSER leave out five steps more"
    assert verdict.bias == pytest.approx(0.05, abs=0.005)
    assert judge_steadiness(noisy(UNSTEADY["slow beyond the middle"])).settled_after is None


def test_the_time_unit_does_not_matter() -> None:
    series = noisy(UNSTEADY["an exponential warm-up"])
    milli = judge_steadiness(series * 1000)
    assert milli.bias == pytest.approx(judge_steadiness(series).bias)
    assert milli.steady is False


def test_fewer_than_twenty_steps_say_nothing() -> None:
    assert judge_steadiness(np.full(19, 0.1)).steady is None
    assert judge_steadiness(np.array([], dtype=np.float64)).steady is None


def test_equal_steps_are_steady() -> None:
    verdict = judge_steadiness(np.full(40, 0.1))
    assert (verdict.steady, verdict.settled_after, verdict.bias) == (True, 0, 0.0)


def test_steps_without_a_time_are_left_out() -> None:
    times = np.full(40, 0.1)
    times[3] = np.nan
    assert judge_steadiness(times).steady is True
