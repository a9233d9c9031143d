"""Runs that resemble the run before them: how strongly, judged over a table, and what it costs.

The speed of a machine may change slowly, so that neighbouring runs of a case are alike: a first-order autoregressive
series. The runs' own spread then shows too little of the error of their mean. A few runs of one case cannot show such a
correlation; those of a table's cases together can, each as a series of its own around its own mean.

``run_correlation`` solves for the correlation at which the mean of the cases' lag-1 autocorrelations is as expected.
The expectation is exact for normal runs: of a quotient of quadratic forms (Magnus, Annales d'Economie et de Statistique
4, 1986). It is negative without any correlation, because residuals around their own mean sum to zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

LEAST_SERIES = 6
"""The least series (of three cases on two sides) that show a correlation."""
LEAST_RUNS = 3
_LARGEST = 0.95
_GRID = 0.05
_LEAST_DEVIATIONS = 1.0
"""A correlation counts from so many standard deviations: of uncorrelated tables, one in six has more."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Inflation:
    """The effect of a correlation on the spread of some runs, as factors.

    ``variance`` multiplies the variance of the mean that the spread shows, ``freedom`` its degrees of freedom.
    """

    variance: float
    freedom: float


def run_correlation(series: Sequence[Sequence[float]]) -> float:
    """Return the correlation of a run with the one before it; 0 if the series do not show one.

    Each of the ``series`` has the logarithms of the rates of one case's runs in one campaign, in their order.
    """
    known = [
        (len(values), found)
        for values in series
        if len(values) >= LEAST_RUNS and (found := autocorrelation(np.asarray(values, float))) is not None
    ]
    if len(known) < LEAST_SERIES:
        return 0.0
    # Independent runs have -1 / n each.
    excess = math.fsum(found + 1 / runs for runs, found in known)
    if excess < _LEAST_DEVIATIONS * math.sqrt(math.fsum(_without_correlation(runs) for runs, _ in known)):
        return 0.0
    curve = np.mean([_expected(runs) for runs, _ in known], axis=0)
    mean = math.fsum(found for _, found in known) / len(known)
    return round(float(np.interp(mean, curve, _correlations())), 4)


@cache
def inflation(runs: int, correlation: float) -> Inflation:
    """Return what a correlation does to the error that so many runs show."""
    if correlation <= 0 or runs < 2:
        return Inflation(1.0, 1.0)
    covariance, centre = _covariance(runs, correlation), np.eye(runs) - 1 / runs
    inner = centre @ covariance
    shown = float(np.trace(inner)) / (runs - 1) / runs
    freedom = float(np.trace(inner)) ** 2 / float(np.trace(inner @ inner))
    return Inflation(float(covariance.sum()) / runs**2 / shown, freedom / (runs - 1))


def autocorrelation(values: Array) -> float | None:
    """Return the lag-1 autocorrelation around the series' own mean; None if all values are equal."""
    own = values - values.mean()
    total = float(own @ own)
    return float(own[1:] @ own[:-1]) / total if total > 0 else None


def _correlations() -> Array:
    return np.arange(0, _LARGEST + _GRID / 2, _GRID)


@cache
def _expected(runs: int) -> tuple[float, ...]:
    """Return the expected autocorrelation of so many runs at each of ``_correlations``."""
    return tuple(_expected_at(runs, correlation) for correlation in _correlations())


def _expected_at(runs: int, correlation: float) -> float:
    """Return the expectation of the autocorrelation: the integral over t of |D|^-1/2 tr(N (1 + 2 t D)^-1)."""
    above, below = _forms(runs, correlation)
    scales, axes = np.linalg.eigh(below)
    turned = np.diag(axes.T @ above @ axes)
    # From (0, infinity) to (0, 1); Gauss and Legendre's nodes.
    nodes, weights = np.polynomial.legendre.leggauss(80)
    share, weight = (nodes + 1) / 2, weights / 2
    t = (share / (1 - share)) / scales.max()
    stretch = 1 / (1 - share) ** 2 / scales.max()
    stretched = 1 + 2 * np.outer(t, scales)
    values = (turned / stretched).sum(axis=1) * np.exp(-np.log(stretched).sum(axis=1) / 2)
    return float((weight * stretch * values).sum())


def _forms(runs: int, correlation: float) -> tuple[Array, Array]:
    """Return numerator and denominator of the autocorrelation as forms of independent normal numbers."""
    root = np.linalg.cholesky(_covariance(runs, correlation))
    centre = np.eye(runs) - 1 / runs
    neighbours = (np.eye(runs, k=1) + np.eye(runs, k=-1)) / 2
    inner = root.T @ centre
    return inner @ neighbours @ inner.T, inner @ inner.T


@cache
def _without_correlation(runs: int) -> float:
    """Return the variance of the autocorrelation of independent normal runs.

    Without correlation the quotient is independent of its denominator, whose second moment is (n - 1)(n + 1).
    """
    above, _ = _forms(runs, 0.0)
    mean = float(np.trace(above)) / (runs - 1)
    second = (2 * float(np.trace(above @ above)) + float(np.trace(above)) ** 2) / ((runs - 1) * (runs + 1))
    return second - mean**2


def _covariance(runs: int, correlation: float) -> Array:
    number = np.arange(runs)
    return np.asarray(float(correlation) ** np.abs(number[:, None] - number[None, :]))
