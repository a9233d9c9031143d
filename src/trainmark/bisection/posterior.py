"""The probability of each candidate to be the first bad one, given noisy runs.

A run's rate is compared with the good runs nearest to it, so that a drift of the machine cancels. The
difference between good and bad comes from their runs; the noise from the spread of all runs around their level, with a
prior of 1 % that counts as two runs. A run's likelihood is Student's t at either level, mixed with 3 % of runs that
say nothing, because the machine disturbed them. Candidates are equally likely before the first run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

GOOD = 0
_PRIOR_SPREAD, _PRIOR_RUNS = 0.01, 2.0
_DISTURBED, _RANGE = 0.03, 2.0
"""The share of runs that say nothing, and the range of logarithms over which they spread."""
_MOST_DISTURBED, _FAR = 0.15, 16.0
_NEAREST = 3


@dataclass(frozen=True, slots=True)
class Run:
    """One run with a number: the candidate and the logarithm of its rate."""

    candidate: int
    log_rate: float


@dataclass(frozen=True, slots=True)
class Contrast:
    """The difference of the bad from the good runs: ``size`` on logarithms, its standard ``error``, the ``spread``."""

    size: float
    error: float
    spread: float
    degrees: float

    @property
    def score(self) -> float:
        """The t-value of the difference."""
        return abs(self.size) / self.error


def relative(runs: Sequence[Run]) -> Array:
    """Return each run's logarithm minus the good level at its place: the median of the three nearest good runs.

    A good run is compared with the other good runs.
    """
    good = [i for i, run in enumerate(runs) if run.candidate == GOOD]
    rates = []
    for i, run in enumerate(runs):
        near = sorted((j for j in good if j != i), key=lambda j: abs(j - i))[:_NEAREST]
        level = float(np.median([runs[j].log_rate for j in near])) if near else run.log_rate
        rates.append(run.log_rate - level)
    return np.asarray(rates)


def contrast(runs: Sequence[Run], bad: int) -> Contrast | None:
    """Return the difference between bad and good; None before each has a run."""
    names = np.asarray([run.candidate for run in runs])
    if not ((names == GOOD).any() and (names == bad).any()):
        return None
    rates = relative(runs)
    of_bad, of_good = rates[names == bad], rates[names == GOOD]
    size = float(np.median(of_bad))
    # A difference of two runs has twice the variance of one, one to two levels one and a half.
    squares = [(1.0, _PRIOR_SPREAD**2)] * int(_PRIOR_RUNS)
    squares += [(1.5, float(one) ** 2) for one in of_bad - size] if of_bad.size > 1 else []
    squares += [(1.5, float(one) ** 2) for one in of_good] if of_good.size > 1 else []
    for candidate in set(names.tolist()) - {GOOD, bad}:
        own = rates[names == candidate]
        if own.size > 1:
            squares += [(1.0, float(one) ** 2) for one in own - np.median(own)]
    spread = _spread([square / weight for weight, square in squares])
    # Two bad runs that disagree leave open which of them was disturbed; of three, the median shows it.
    around = 1.4826 * float(np.median(np.abs(of_bad - size))) if of_bad.size > 1 else 0.0
    error = math.hypot(max(spread, around) / math.sqrt(of_bad.size), spread / math.sqrt(of_good.size))
    return Contrast(size, error, spread, len(squares) - 1.0)


def _spread(squares: Sequence[float]) -> float:
    """Return the root of the mean square without a few that are far larger than most: disturbed runs."""
    ordered = sorted(squares)
    for _ in range(int(_MOST_DISTURBED * len(squares))):
        if ordered[-1] > _FAR * ordered[len(ordered) // 2]:
            ordered.pop()
    return math.sqrt(sum(ordered) / len(ordered))


def posterior(runs: Sequence[Run], count: int, difference: Contrast) -> Array:
    """Return the probability of each candidate 1 to ``count`` - 1 to be the first bad one; 0 for the good one."""
    logs = np.zeros(count)
    logs[GOOD] = -np.inf
    rates = relative(runs)
    for run, rate in zip(runs, rates, strict=True):
        if run.candidate in (GOOD, count - 1):
            continue
        good = _likelihood(float(rate), 0.0, difference.spread * math.sqrt(1.5), difference.degrees)
        wide = math.hypot(difference.spread * math.sqrt(1.5), difference.error)
        bad = _likelihood(float(rate), difference.size, wide, difference.degrees)
        logs[1 : run.candidate + 1] += math.log(bad)
        logs[run.candidate + 1 :] += math.log(good)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _likelihood(rate: float, level: float, spread: float, degrees: float) -> float:
    score = (rate - level) / spread
    constant = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
    density = (
        constant / math.sqrt(degrees * math.pi) / spread * (1 + score**2 / degrees) ** (-(degrees + 1) / 2)
    )
    return float((1 - _DISTURBED) * density + _DISTURBED / _RANGE)
