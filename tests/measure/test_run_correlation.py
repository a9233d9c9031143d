"""Runs that resemble the run before them: their correlation over a table, and the error that it adds."""

import math

import numpy as np
import pytest

from trainmark.measure import estimate
from trainmark.measure.campaigns import TABLE_LEVEL, contrast, judge_table
from trainmark.measure.run_correlation import autocorrelation, inflation, run_correlation

Array = np.ndarray


def series(random: np.random.Generator, cases: int, runs: int, correlation: float) -> Array:
    """Return runs of the spread 1 (cases, runs), each correlated with the one before it."""
    drawn = random.standard_normal((cases, runs))
    for run in range(1, runs):
        drawn[:, run] = correlation * drawn[:, run - 1] + math.sqrt(1 - correlation**2) * drawn[:, run]
    return drawn


@pytest.mark.parametrize("runs", [3, 5, 10])
@pytest.mark.parametrize("correlation", [0.3, 0.6, 0.9])
def test_the_correlation_of_many_cases_is_found(runs: int, correlation: float) -> None:
    found = run_correlation(series(np.random.default_rng(runs), 20_000, runs, correlation).tolist())

    assert found == pytest.approx(correlation, abs=0.06)


def test_cases_of_different_spread_and_number_of_runs_count_alike() -> None:
    random = np.random.default_rng(2)
    many = [*(1000 * series(random, 2000, 5, 0.5)).tolist(), *series(random, 2000, 10, 0.5).tolist()]

    assert run_correlation(many) == pytest.approx(0.5, abs=0.05)


def test_independent_runs_show_a_correlation_in_one_table_of_six() -> None:
    random = np.random.default_rng(3)
    found = [run_correlation(series(random, 32, 5, 0.0).tolist()) for _ in range(400)]

    assert 0.1 < np.mean([value > 0 for value in found]) < 0.22
    assert np.mean(found) < 0.06


def test_runs_that_alternate_show_none() -> None:
    assert run_correlation([[1.0, 2.0, 1.0, 2.0, 1.0]] * 40) == 0.0


@pytest.mark.parametrize(
    "few",
    [
        [],
        [[1.0, 2.0, 3.0, 4.0]] * 5,
        [[1.0, 2.0]] * 50,
        [[1.0, 1.0, 1.0]] * 50,
        [[7.0]] * 50,
    ],
    ids=["none", "two cases", "two runs", "equal runs", "one run"],
)
def test_what_shows_no_correlation_has_none(few: list[list[float]]) -> None:
    assert run_correlation(few) == 0.0


def test_equal_runs_have_no_autocorrelation() -> None:
    assert autocorrelation(np.array([2.0, 2.0, 2.0])) is None


@pytest.mark.parametrize("correlation", [0.3, 0.6])
@pytest.mark.parametrize("runs", [3, 5, 10])
def test_the_spread_of_correlated_runs_shows_so_much_too_little(runs: int, correlation: float) -> None:
    drawn = series(np.random.default_rng(4), 100_000, runs, correlation)
    grown = inflation(runs, correlation)

    shown = drawn.var(axis=1, ddof=1) / runs
    assert grown.variance == pytest.approx(drawn.mean(axis=1).var() / shown.mean(), rel=0.03)
    freedom = 2 * shown.mean() ** 2 / shown.var()
    assert grown.freedom == pytest.approx(freedom / (runs - 1), rel=0.05)


def test_independent_runs_are_left_as_they_are() -> None:
    assert inflation(5, 0.0) == inflation(1, 0.9)
    assert (inflation(5, 0.0).variance, inflation(5, 0.0).freedom) == (1.0, 1.0)


def test_few_tables_of_correlated_runs_have_a_false_call() -> None:
    random, without, allowed = np.random.default_rng(5), 0, 0
    for _ in range(40):
        sides = [series(random, 16, 5, 0.6) for _ in range(2)]
        before, now = ([estimate(np.exp(0.01 * row).tolist()) for row in side] for side in sides)
        for counted in (0.0, run_correlation([*sides[0].tolist(), *sides[1].tolist()])):
            contrasts = [
                contrast(candidate, [baseline], counted)
                for candidate, baseline in zip(now, before, strict=True)
                if candidate is not None and baseline is not None
            ]
            called = any(value <= TABLE_LEVEL for value in judge_table(contrasts, None))
            without, allowed = without + (called and not counted), allowed + (called and counted > 0)
    assert without > 12
    assert allowed <= 6
