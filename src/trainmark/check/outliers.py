"""Detection of hosts that are slower than the others, with a stated false-alarm rate.

A timing's fastest round shows the speed of its device: other load makes a round slower, never faster. Healthy devices
of one kind differ by a per cent or two; the noise left in the fastest round is about as large as its gap to the second
fastest. A device is reported when it is slower than the median of its kind by more than both allow. The test is
one-sided, and its level is divided over all devices and quantities of the check (Bonferroni).
``benchmarks/check_alarms.py`` counts its alarms.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from trainmark.schema.check import Quantity, Timing
from trainmark.schema.precision import Precision

LEVEL = 0.05
"""The share of checks of healthy hosts that may report one as slow."""

HEALTHY_SPREAD = 0.04
"""Lower bound for the standard deviation of log time over healthy devices of one kind.

Twice the observed 2 per cent, because the observed distribution has heavier tails than a normal one.
"""

NOISE_FACTOR = 4.0
"""The error of the fastest round, in gaps between the two fastest rounds."""

CLEAR_BOUND = 1.22
"""If a host this much slower would be reported, one 1.3 times slower is missed in only a few per cent of checks."""

_MIN_OTHERS = 5
"""With fewer other devices their spread cannot be estimated, so ``HEALTHY_SPREAD`` is assumed."""

_TO_SIGMA = 1.4826
"""Factor from the median absolute deviation of normal values to their standard deviation."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compared timings of one quantity and kind of device; ``bound`` is the factor above which one is reported.

    ``slow`` are the reported ones, each with its factor over the median of the others.
    """

    quantity: Quantity
    kind: str
    precision: Precision | None
    timings: tuple[Timing, ...]
    bound: float
    slow: tuple[tuple[Timing, float], ...]


def compare(timings: Iterable[Timing], level: float = LEVEL) -> tuple[Comparison, ...]:
    """Return a comparison for each quantity, kind of device and precision that has two or more timings."""
    groups: dict[tuple[Quantity, str, Precision | None], list[Timing]] = {}
    for timing in timings:
        groups.setdefault((timing.quantity, timing.kind, timing.precision), []).append(timing)
    comparable = {key: found for key, found in groups.items() if len(found) > 1}
    comparisons = sum(map(len, comparable.values()))
    return tuple(_compared(key, found, level / comparisons) for key, found in comparable.items())


def is_clear(timings: Iterable[Timing]) -> bool:
    """Return whether the timings suffice to detect the slowdown that a check should detect."""
    return all(compared.bound <= CLEAR_BOUND for compared in compare(timings))


def _compared(
    key: tuple[Quantity, str, Precision | None], timings: Sequence[Timing], level: float
) -> Comparison:
    logs = [math.log(timing.fastest_s) for timing in timings]
    noise = NOISE_FACTOR * median(map(_gap, timings))
    quantile = NormalDist().inv_cdf(1 - level)
    bounds, slow = [], []
    for place, (timing, log) in enumerate(zip(timings, logs, strict=True)):
        others = logs[:place] + logs[place + 1 :]
        bound = quantile * _spread(others) * math.sqrt(1 + 1 / len(others)) + noise
        bounds.append(bound)
        if (excess := log - median(others)) > bound:
            slow.append((timing, math.exp(excess)))
    return Comparison(*key, tuple(timings), math.exp(median(bounds)), tuple(slow))


def _gap(timing: Timing) -> float:
    """Return the logarithm of the second fastest round's time over the fastest's."""
    first, second, *_ = (*sorted(timing.seconds), math.inf)
    return math.log(second / first) if second < math.inf else 0.0


def _spread(logs: Sequence[float]) -> float:
    if len(logs) < _MIN_OTHERS:
        return HEALTHY_SPREAD
    middle = median(logs)
    return max(HEALTHY_SPREAD, _TO_SIGMA * median(abs(log - middle) for log in logs))
