"""Statistics over repeats: the run is the unit of replication, and gives one throughput.

The result of a case is the median of its runs. Its 95 % interval is computed on the logarithms of the runs, so that it
is relative, never negative, and the interval of a time is the reciprocal of the interval of a rate:

* fewer than 3 runs, equal runs, runs of different numbers of steps: no interval;
* 3 to 5 runs: Student's t, ``mean(ln x) ± t(0.975, n-1) · s(ln x) / sqrt(n)``. It assumes one distribution, which so
  few runs cannot show; if the fastest run is more than 1.5 times as fast as the slowest, no interval is given;
* 6 runs and more: interpolated order statistics (Hettmansperger and Sheather, "Confidence intervals based on
  interpolated order statistics", Statistics & Probability Letters 4, 1986). The interval between ``x(k)`` and
  ``x(n+1-k)`` covers ``c(k) = 1 - 2 P(binomial(n, 1/2) < k)``; of the two neighbours around 95 % the ends are
  interpolated by ``(n-k) I / (k + (n-2k) I)`` with ``I = (c(k) - 0.95) / (c(k) - c(k+1))``. No distribution is assumed.

With a stopping rule instead of a fixed number of runs (protocol ``adaptive``), stopping favours runs that happen to be
close to each other. The formulas are then used at a higher level, so that the coverage is still 95 %: ``WAITED`` has
the levels, found by simulation (``benchmarks/trust.py --part adaptive``).

A ratio is the quotient of two medians. Its interval is computed from the two sides' intervals on logarithms, by the
method of variance estimates recovery (MOVER; Zou and Donner, "Construction of confidence limits about effect measures",
Statistics in Medicine 27, 2008): each side's distance from median to end, divided by its Student's t quantile, is taken
as its standard error; the degrees of freedom follow Welch and Satterthwaite and give the ratio's quantile.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from trainmark.schema.measurement import (
    Estimate,
    Interval,
    IntervalMethod,
    NoInterval,
    Ratio,
    Sampling,
    Speedup,
)
from trainmark.schema.results import RunResult, pooled, sound

CONFIDENCE = 0.95
MIN_RUNS = 3
MIN_RUNS_FOR_ORDER_STATISTICS = 6
MAX_RATE_RATIO = 1.5
"""Runs whose rates differ by more than this factor have no interval: random variation is a few percent."""
MOST_DIFFERENT_STEPS = 1.1

WAITED = {3: 0.96, 4: 0.97, 5: 0.975}
WAITED_MORE = 0.965
"""The levels, by number of runs, at which the formulas cover 95 % under the stopping rule."""
STOPPING = {3: 0.9975, 4: 0.9925, 5: 0.9925}
"""The levels whose interval must be narrow for fewer than 6 runs to be enough; for more it is ``WAITED_MORE``."""


def estimate(
    throughputs: Sequence[float], sampling: Sampling = Sampling.FIXED, steps: Sequence[int] = ()
) -> Estimate | None:
    """Return the estimate over runs (each a positive finite throughput), or None when there is no run.

    ``steps`` are the numbers of steps that the runs measured, if known.
    """
    if not throughputs:
        return None
    runs = np.sort(np.asarray(throughputs, dtype=np.float64))
    if not (np.isfinite(runs).all() and runs[0] > 0):
        raise ValueError("a throughput must be a positive finite number; an outcome is never a number")
    why_not = _no_interval(runs, steps)
    return Estimate(
        n=runs.size,
        median=float(np.median(runs)),
        mean=float(runs.mean()),
        minimum=float(runs[0]),
        maximum=float(runs[-1]),
        std=float(runs.std(ddof=1)) if runs.size > 1 else None,
        interval=None if why_not else _interval(runs, _level(runs.size, sampling)),
        no_interval=why_not,
    )


def narrow_enough(throughputs: Sequence[float], target: float, steps: Sequence[int] = ()) -> bool:
    """Return whether the stopping rule is met: half the interval's width is at most ``target`` of the median.

    Fewer than 6 runs must meet it at the stricter level of ``STOPPING``. Equal runs meet it: more runs add nothing.
    ``steps`` are as in ``estimate``.
    """
    found = estimate(throughputs, Sampling.WAITED, steps)
    if found is None or found.interval is None:
        return found is not None and found.no_interval is NoInterval.EQUAL_RUNS
    if found.n in STOPPING:
        runs = np.sort(np.asarray(throughputs, dtype=np.float64))
        interval = _interval(runs, STOPPING[found.n])
        return (interval.high - interval.low) / 2 / found.median <= target
    return (found.half_width or 0.0) <= target


def ratio(numerator: Estimate | None, denominator: Estimate | None) -> Ratio | None:
    """Return the ratio of two cases' medians, or None when either has no run."""
    if numerator is None or denominator is None:
        return None
    value = numerator.median / denominator.median
    above, below = numerator.interval, denominator.interval
    if above is None or below is None:
        return Ratio(value=value, interval=None, no_interval=numerator.no_interval or denominator.no_interval)
    freedoms = numerator.n - 1, denominator.n - 1
    up = _combined(
        (math.log(above.high / numerator.median), math.log(denominator.median / below.low)), freedoms
    )
    down = _combined(
        (math.log(numerator.median / above.low), math.log(below.high / denominator.median)), freedoms
    )
    interval = Interval(
        low=value * math.exp(-down), high=value * math.exp(up), method=IntervalMethod.MOVER_LOG
    )
    return Ratio(value=value, interval=interval)


def product(terms: Sequence[tuple[Estimate, int]]) -> Ratio | None:
    """Return the product of medians to integer powers, with its interval by MOVER on logarithms.

    ``ratio`` is the case of the powers 1 and -1. None without terms; powers of 0 are left out.
    """
    used = [(one, power) for one, power in terms if power]
    if not used:
        return None
    value = math.prod(one.median**power for one, power in used)
    freedoms = [one.n - 1 for one, _ in used]
    up, down = [], []
    for one, power in used:
        if one.interval is None:
            return Ratio(value=value, interval=None, no_interval=one.no_interval)
        above = abs(power) * math.log(one.interval.high / one.median)
        below = abs(power) * math.log(one.median / one.interval.low)
        up.append(above if power > 0 else below)
        down.append(below if power > 0 else above)
    interval = Interval(
        low=value * math.exp(-_combined(down, freedoms)),
        high=value * math.exp(_combined(up, freedoms)),
        method=IntervalMethod.MOVER_LOG,
    )
    return Ratio(value=value, interval=interval)


def scaled(value: Ratio, factor: float) -> Ratio:
    """Return ``value`` times ``factor``: a speedup over n devices times 1/n is the scaling efficiency."""
    interval = value.interval
    if interval is not None:
        interval = interval.model_copy(update={"low": interval.low * factor, "high": interval.high * factor})
    return value.model_copy(update={"value": value.value * factor, "interval": interval})


def log_margin(share: float, *, rises: bool) -> float:
    """Return how far a rate that rises, or falls, by ``share`` of itself moves on logarithms."""
    if rises:
        return math.log1p(share)
    return -math.log1p(-share) if share < 1 else math.inf


def expected_half_width(spread: float, n: int) -> float:
    """Return the half width expected of ``n`` runs (at least 3); ``spread`` is their logarithms' standard deviation.

    From 6 runs on it is the half width of the median of normal runs, whose variance is pi/2 times the mean's.
    """
    if n < MIN_RUNS_FOR_ORDER_STATISTICS:
        unbiased = math.sqrt(2 / (n - 1)) * math.gamma(n / 2) / math.gamma((n - 1) / 2)
        return student_t(n - 1) * unbiased * spread / math.sqrt(n)
    return 1.96 * math.sqrt(math.pi / 2) * spread / math.sqrt(n)


def runs_to_wait_for(spread: float, target: float, least: int, most: int) -> int | None:
    """Return the expected number of runs, ``least`` to ``most``, until ``narrow_enough``; None if it is more.

    ``spread`` is as in ``expected_half_width``.
    """
    return next((n for n in range(least, most) if _stopping_half_width(spread, n) <= target), None)


def _stopping_half_width(spread: float, n: int) -> float:
    expected = expected_half_width(spread, n)
    return expected * student_t(n - 1, STOPPING[n]) / student_t(n - 1) if n in STOPPING else expected


def spread_of(found: Estimate) -> float | None:
    """Return the standard deviation of the runs' logarithms that corresponds to the interval's width."""
    half = found.half_width
    return None if half is None else half / expected_half_width(1.0, found.n)


@lru_cache(maxsize=4096)
def student_t(freedom: float, level: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t: ``level`` of the distribution is between minus it and it."""
    # scipy takes a fifth of a second to import, and most of what imports this module computes no interval.
    from scipy import special

    return float(special.stdtrit(freedom, (1 + level) / 2))


def _no_interval(runs: NDArray[np.float64], steps: Sequence[int]) -> NoInterval | None:
    if runs.size < MIN_RUNS:
        return NoInterval.ONE_RUN if runs.size == 1 else NoInterval.TWO_RUNS
    if runs[0] == runs[-1]:
        return NoInterval.EQUAL_RUNS
    if steps and max(steps) > MOST_DIFFERENT_STEPS * min(steps):
        return NoInterval.STEPS_DIFFER
    if runs.size < MIN_RUNS_FOR_ORDER_STATISTICS and runs[-1] > MAX_RATE_RATIO * runs[0]:
        return NoInterval.RUNS_DISAGREE
    return None


def _level(n: int, sampling: Sampling) -> float:
    return CONFIDENCE if sampling is Sampling.FIXED else WAITED.get(n, WAITED_MORE)


def _interval(runs: NDArray[np.float64], level: float) -> Interval:
    """Return the interval of sorted runs."""
    n, logs = runs.size, np.log(runs)
    if n < MIN_RUNS_FOR_ORDER_STATISTICS:
        method = IntervalMethod.STUDENT_T_LOG
        half = student_t(n - 1, level) * float(logs.std(ddof=1) / np.sqrt(n))
        low, high = float(logs.mean()) - half, float(logs.mean()) + half
    else:
        method = IntervalMethod.INTERPOLATED
        k, share = interpolation(n, level)
        low = float((1 - share) * logs[k - 1] + share * logs[k])
        high = float((1 - share) * logs[n - k] + share * logs[n - k - 1])
    # With so few runs the interval contains the median except for rounding.
    median = float(np.median(runs))
    return Interval(
        low=min(median, math.exp(low)), high=max(median, math.exp(high)), method=method, computed_at=level
    )


@cache
def interpolation(n: int, level: float) -> tuple[int, float]:
    """Return k and the share of the way from ``x(k)`` to ``x(k+1)`` at which the interval at ``level`` starts.

    If even the range of the runs covers less than ``level``, the interval is the range.
    """
    covers = [1 - 2 * sum(math.comb(n, j) for j in range(k)) / 2**n for k in range(n // 2 + 2)]
    k = max((k for k in range(1, n // 2 + 1) if covers[k] >= level), default=1)
    if covers[k] <= level:
        return k, 0.0
    inner = covers[k + 1] if k + 1 <= n // 2 else 0.0
    part = (covers[k] - level) / (covers[k] - inner)
    return k, (n - k) * part / (k + (n - 2 * k) * part)


def _combined(distances: Sequence[float], freedoms: Sequence[int]) -> float:
    """Return the one-sided width of a ratio's interval from those of its sides (all on logarithms)."""
    variances = [(reach / student_t(of)) ** 2 for reach, of in zip(distances, freedoms, strict=True)]
    both = sum(variances)
    if both == 0:
        return 0.0
    freedom = both**2 / sum(v**2 / of for v, of in zip(variances, freedoms, strict=True))
    return student_t(freedom) * math.sqrt(both)


def speedup(
    name: str, world_size: int, estimates: Mapping[str, Estimate | None], baseline: str | None
) -> Speedup | None:
    """Return the speedup of the case ``name`` over the case ``baseline``, both keys of ``estimates``.

    Without a baseline, or when either side has no successful run, the speedup is None and not 1.0. The baseline's own
    speedup is 1 by definition and has no interval.
    """
    if baseline is None:
        return None
    quotient = ratio(estimates.get(name), estimates.get(baseline))
    if quotient is None:
        return None
    if name == baseline:
        quotient = Ratio(value=1.0, interval=None)
    return Speedup(baseline=baseline, speedup=quotient, efficiency=scaled(quotient, 1 / world_size))


def estimate_of(
    runs: Sequence[RunResult], sampling: Sampling, *, one_machine: bool = True
) -> Estimate | None:
    """Return the estimate over a case's sound runs, or over its spoiled runs if it has no others.

    Runs from several machines (``one_machine`` is false) have no interval: it would describe none of the machines.
    """
    measured = [run.measurement for run in pooled(runs) if run.measurement is not None]
    found = estimate([m.throughput for m in measured], sampling, [m.measured_steps for m in measured])
    if found is None or (sound(runs) and one_machine):
        return found
    why = NoInterval.SPOILED if one_machine else NoInterval.MACHINES_DIFFER
    return found.model_copy(update={"interval": None, "no_interval": why})
