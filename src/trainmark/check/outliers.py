"""Which host is slower than the others, by a test with a stated rate of false alarms.

A timing's fastest round says what its device can do: what else runs there makes a round slower, never faster. Devices
of one kind that are healthy differ by a per cent or two; how sure the fastest round is shows in the second fastest,
for what is left of noise there is about as wide as the gap between the two. A device is named when it is slower than
the median of its like by more than both allow. The test is one-sided, and its level is shared out over all devices and
quantities of the check (Bonferroni). ``benchmarks/check_alarms.py`` counts its alarms.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from trainmark.schema.check import Quantity, Timing

LEVEL = 0.05
"""How often a check of healthy hosts may name one."""

HEALTHY_SPREAD = 0.04
"""The standard deviation of the logarithm over healthy devices of one kind, at least.

Twice the 2 per cent that is seen, for what is seen has heavier tails than a normal law.
"""

NOISE_FACTOR = 4.0
"""How many gaps between the two fastest rounds the fastest may be off."""

CLEAR_BOUND = 1.22
"""Where a host that is this much slower would be named, one that is 1.3 times slower is, but in few per cent."""

_ENOUGH = 5
"""Of fewer others the spread cannot be told from them, and the assumed one holds."""

_TO_SIGMA = 1.4826
"""From the median absolute deviation of normal values to their standard deviation."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Timings that were held against each other. ``bound`` is the factor from which on one of them is named.

    ``slow`` are those that are named, each with its factor over the median of the others.
    """

    quantity: Quantity
    kind: str
    timings: tuple[Timing, ...]
    bound: float
    slow: tuple[tuple[Timing, float], ...]


def compare(timings: Iterable[Timing], level: float = LEVEL) -> tuple[Compared, ...]:
    """Return the timings by quantity and kind of device, as far as there are two or more to compare."""
    groups: dict[tuple[Quantity, str], list[Timing]] = {}
    for timing in timings:
        groups.setdefault((timing.quantity, timing.kind), []).append(timing)
    comparable = {key: found for key, found in groups.items() if len(found) > 1}
    comparisons = sum(map(len, comparable.values()))
    return tuple(
        _compared(quantity, kind, found, level / comparisons)
        for (quantity, kind), found in comparable.items()
    )


def is_clear(timings: Iterable[Timing]) -> bool:
    """Tell whether more rounds are not needed to see what a check is meant to see."""
    return all(compared.bound <= CLEAR_BOUND for compared in compare(timings))


def _compared(quantity: Quantity, kind: str, timings: Sequence[Timing], level: float) -> Compared:
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
    return Compared(quantity, kind, tuple(timings), math.exp(median(bounds)), tuple(slow))


def _gap(timing: Timing) -> float:
    """Return how far the second fastest round is behind the fastest, as a logarithm."""
    first, second, *_ = (*sorted(timing.seconds), math.inf)
    return math.log(second / first) if second < math.inf else 0.0


def _spread(logs: Sequence[float]) -> float:
    if len(logs) < _ENOUGH:
        return HEALTHY_SPREAD
    middle = median(logs)
    return max(HEALTHY_SPREAD, _TO_SIGMA * median(abs(log - middle) for log in logs))
