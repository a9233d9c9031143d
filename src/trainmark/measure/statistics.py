"""Statistics over repeats: the run is the unit of replication, and a run gives one throughput.

The result of a case is the median of its runs. Its 95 % interval comes from the runs alone:

* fewer than 3 runs: none;
* 3 to 5 runs: Student's t on the logarithms, ``exp(mean(ln x) ± t(0.975, n-1) · s(ln x) / sqrt(n))``. It takes
  the runs to be roughly log-normal, which so few cannot show; it is never negative, as a rate is not, and
  symmetric in the ratio; for these n it contains the median;
* 6 runs and more: the distribution-free interval of the median between order statistics ``x(k)`` and
  ``x(n+1-k)``, with the largest k for which a binomial(n, 1/2) leaves at most 2.5 % on each side (Conover,
  "Practical Nonparametric Statistics", section on quantiles). Its coverage is at least 95 %.

A speedup is the quotient of two medians. Its interval is Welch's on the logarithms of the runs, with
Welch-Satterthwaite degrees of freedom, so that it is a relative one and never negative. It belongs to the
quotient of the geometric means; where the quotient of the medians lies outside (runs of two kinds), the interval
is widened to it, so that it never denies the value that it stands beside.
"""

import math
from collections.abc import Sequence

import numpy as np

from trainmark.words.measurement import Estimate, Interval, IntervalMethod, Ratio

CONFIDENCE = 0.95
LEAST_RUNS = 3
LEAST_RUNS_FOR_ORDER_STATISTICS = 6


def estimate(throughputs: Sequence[float]) -> Estimate | None:
    """Return the estimate over runs (each a positive finite throughput), or None when there is no run."""
    if not throughputs:
        return None
    runs = np.sort(np.asarray(throughputs, dtype=np.float64))
    if not (np.isfinite(runs).all() and runs[0] > 0):
        raise ValueError("a throughput must be a positive finite number; an outcome is never a number")
    return Estimate(
        n=runs.size,
        median=float(np.median(runs)),
        mean=float(runs.mean()),
        minimum=float(runs[0]),
        maximum=float(runs[-1]),
        std=float(runs.std(ddof=1)) if runs.size > 1 else None,
        interval=_interval(runs),
    )


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Ratio | None:
    """Return the ratio of medians of two cases' throughputs, or None when either has no run."""
    if not numerator or not denominator:
        return None
    value = float(np.median(numerator) / np.median(denominator))
    if min(len(numerator), len(denominator)) < LEAST_RUNS:
        return Ratio(value=value, interval=None)
    a, b = np.log(numerator), np.log(denominator)
    va, vb = a.var(ddof=1) / a.size, b.var(ddof=1) / b.size
    if va + vb == 0:
        half = 0.0
    else:
        freedom = (va + vb) ** 2 / (va**2 / (a.size - 1) + vb**2 / (b.size - 1))
        half = student_t(float(freedom)) * float(np.sqrt(va + vb))
    centre = float(a.mean() - b.mean())
    ends = np.exp(centre - half), np.exp(centre + half)
    return Ratio(value=value, interval=_around(value, *ends, IntervalMethod.WELCH_LOG))


def scaled(value: Ratio, factor: float) -> Ratio:
    """Return ``value`` times ``factor``: a speedup over n devices times 1/n is the scaling efficiency."""
    interval = value.interval
    if interval is not None:
        interval = interval.model_copy(update={"low": interval.low * factor, "high": interval.high * factor})
    return Ratio(value=value.value * factor, interval=interval)


def _interval(runs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Interval | None:
    n = runs.size
    if n < LEAST_RUNS:
        return None
    if n < LEAST_RUNS_FOR_ORDER_STATISTICS:
        if runs[0] == runs[-1]:
            # The way through logarithms would round equal runs away from themselves.
            return Interval(low=float(runs[0]), high=float(runs[0]), method=IntervalMethod.STUDENT_T_LOG)
        logs = np.log(runs)
        half = student_t(n - 1) * float(logs.std(ddof=1) / np.sqrt(n))
        centre, method = float(logs.mean()), IntervalMethod.STUDENT_T_LOG
        return _around(float(np.median(runs)), np.exp(centre - half), np.exp(centre + half), method)
    k = _order(n)
    return Interval(low=float(runs[k - 1]), high=float(runs[n - k]), method=IntervalMethod.ORDER_STATISTICS)


def _around(value: float, low: float, high: float, method: IntervalMethod) -> Interval:
    """Return the interval, widened to hold ``value`` where it would not: it belongs to geometric means."""
    return Interval(low=min(value, float(low)), high=max(value, float(high)), method=method)


def student_t(freedom: float) -> float:
    """Return the quantile of Student's t that leaves 2.5 % above it."""
    # scipy takes a fifth of a second to import, and most of what imports this module computes no interval.
    from scipy import special

    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _order(n: int) -> int:
    """Return the largest k with P(binomial(n, 1/2) < k) at most 2.5 %; it is 1 at least for n >= 6."""
    below, k = 0.0, 0
    while (below := below + math.comb(n, k) / 2**n) <= (1 - CONFIDENCE) / 2:
        k += 1
    return k
