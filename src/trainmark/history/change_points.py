"""Changes of level in a noisy series, robust to spikes, two levels, correlation, drift and several machines.

The series are logarithms of rates. For each possible place of a change, the step is fitted together with a level for
each machine, and its t-value is divided by what the correlation of neighbours adds to the variance of a mean,
``sqrt((1 + phi) / (1 - phi))``. The place with the largest t-value is a change if

* the t-value exceeds ``T_STEP``, the step is at least ``least``, and it keeps a t-value of ``T_WITH_TREND`` if a
  straight line is fitted as well: a drift is no step;
* or, where a line explains more than the step does (``T_TREND``), if the step next to the line exceeds ``T_NEXT``.

Both sides of a change are then searched again. If there is none, steps may hide each other (a fall and its repair, or
two falls): the series is partitioned, and each step is judged between its neighbours (``_hidden``). Spikes are replaced
by the median of their neighbours before, unless they are so many that they are a second level.
``benchmarks/history.py`` has the simulation that chose the constants.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainmark.measure.statistics import log_margin

Array = NDArray[np.float64]

LEAST_AFTER = 4
"""The results after a change, and before it, that confirm it."""
LEAST_POINTS = 10
LEAST_CHANGE = 0.015
T_STEP = 3.6
T_TREND = 2.4
T_WITH_TREND = 2.2
T_NEXT = 3.2
T_UNCONFIRMED = 4.0
_SPIKE = 3.5
_NEIGHBOURS = 3
_MOST_SPIKES = 0.12
_SMALLEST_SPIKE = 0.002
_MOST_CORRELATION = 0.9
_LOCATION = 7.0
"""A place whose squared t-value is smaller by less than this may be the true one as well."""
_PENALTY = 6.0
_CLEAR = 4.0
"""A step that only its neighbours show is at least so many times the noise between results."""
_OF_A_LINE = 0.25
"""Such steps leave at most this part of the squared residuals that a straight line leaves."""
_NOTHING = 1e-24
"""The sum of squares of what is only the rounding of numbers."""
_TWO_LEVELS = 4.0
_SMALLER_LEVEL = 0.15


@dataclass(frozen=True, slots=True)
class Step:
    """A change before ``index``: the logarithm of its ratio, its t-value, the limits of its place."""

    index: int
    earliest: int
    latest: int
    size: float
    score: float
    confirmed: bool = True

    def moved(self, by: int) -> "Step":
        """Return the step in a series that starts ``by`` results earlier."""
        return replace(self, index=self.index + by, earliest=self.earliest + by, latest=self.latest + by)


@dataclass(frozen=True, slots=True)
class Found:
    """The steps of a series in order, its spikes, and what remains as noise.

    ``levels`` has the level of each point, with that of its machine.
    """

    steps: tuple[Step, ...]
    spikes: NDArray[np.bool_]
    levels: Array
    spread: float
    correlation: float
    drift: float | None
    two_levels: float | None


def find_changes(
    values: Sequence[float] | Array, machines: Sequence[int] = (), least: float = LEAST_CHANGE
) -> Found:
    """Return the changes of level of logarithms in the order of time; ``machines`` are numbers of machines."""
    series = np.asarray(values, dtype=np.float64)
    factor = np.asarray(machines, dtype=np.int64) if len(machines) else np.zeros(series.size, dtype=np.int64)
    factor = _comparable(factor)
    on_level = series - _machine_levels(series, factor)
    spikes = _spikes(on_level)
    clean = np.where(spikes, _running_median(on_level) + (series - on_level), series)
    steps = sorted(_split(clean, factor, 0, least), key=lambda step: step.index)
    levels = _levels(clean, factor, [step.index for step in steps])
    late = _unconfirmed(series, levels, steps, least)
    rest = clean - levels
    degrees = max(1, series.size - len(steps) - len(set(factor.tolist())))
    spread = float(np.sqrt((rest @ rest) / degrees))
    slope, score = _slope(rest, factor, [step.index for step in steps])
    drift = (
        slope * (series.size - 1)
        if _normal(score / _inflation(rest), max(1, series.size - 3)) > T_TREND
        else None
    )
    return Found(
        steps=(*steps, *late),
        spikes=spikes,
        levels=levels,
        spread=spread,
        correlation=_correlation(rest),
        drift=drift,
        two_levels=_two_levels(series - levels),
    )


def _split(series: Array, factor: NDArray[np.int64], offset: int, least: float) -> list[Step]:
    """Return the steps of a part of the series, by splitting it at its clearest one."""
    step = _clearest(series, factor, least)
    steps = _hidden(series, factor, least) if step is None else [step]
    found, places = [], [0, *(step.index for step in steps), series.size]
    for start, end in pairwise(places if steps else ()):
        found += _split(series[start:end], _comparable(factor[start:end]), offset + start, least)
    return [*found, *(step.moved(offset) for step in steps)]


def _hidden(series: Array, factor: NDArray[np.int64], least: float) -> list[Step]:
    """Return steps that hide each other from the search for one: each is judged between its neighbours.

    The places are those of the least squared residuals with a penalty for each place (Jackson and others, "An algorithm
    for optimal partitioning of data on an interval", 2005).
    """
    rest = series - _machine_levels(series, factor)
    places = _partition(rest)
    found: list[Step] = []
    for start, at, end in zip([0, *places], places, [*places[1:], series.size], strict=False):
        step = _clearest(series[start:end], _comparable(factor[start:end]), least)
        noise = np.concatenate([part - part.mean() for part in (rest[start:at], rest[at:end])])
        if step is not None and abs(step.size) > _CLEAR * float(noise.std()):
            found.append(step.moved(start))
    left = rest - _levels(rest, np.zeros_like(factor), [step.index for step in found])
    line = np.polynomial.Polynomial.fit(np.arange(rest.size), rest, 1)(np.arange(rest.size))
    # A drift is a staircase too.
    return found if left @ left < _OF_A_LINE * float((rest - line) @ (rest - line)) else []


def _partition(rest: Array) -> list[int]:
    """Return the places between parts of ``LEAST_AFTER`` results or more."""
    sums, squares = (np.concatenate([[0.0], np.cumsum(one)]) for one in (rest, rest**2))
    scale = max(1.4826 * float(np.median(np.abs(np.diff(rest)))) / math.sqrt(2), _SMALLEST_SPIKE)
    penalty = _PENALTY * scale**2 * math.log(rest.size)
    costs = np.full(rest.size + 1, math.inf)
    costs[0], last = -penalty, np.zeros(rest.size + 1, dtype=np.int64)
    for end in range(LEAST_AFTER, rest.size + 1):
        starts = np.arange(end - LEAST_AFTER + 1)
        inner = squares[end] - squares[starts] - (sums[end] - sums[starts]) ** 2 / (end - starts)
        totals = costs[starts] + inner + penalty
        last[end] = int(np.argmin(totals))
        costs[end] = totals[last[end]]
    places, end = [], rest.size
    while (end := int(last[end])) > 0:
        places.append(end)
    return places[::-1]


def _clearest(series: Array, factor: NDArray[np.int64], least: float) -> Step | None:
    if series.size < LEAST_POINTS:
        return None
    names = tuple(factor.tolist()) if factor.any() else (0,) * series.size
    plain, with_line = _scan(series, names, trend=False), _scan(series, names, trend=True)
    if plain is None or with_line is None:
        return None
    places, scores, sizes = plain
    best = _best(places, scores, series.size)
    if best is None:
        return None
    rest = series - _levels(series, factor, [int(places[best])])
    wider = _inflation(rest)
    degrees = max(1, series.size - 2 - len(set(names)))
    _, line = _slope(rest, factor, [int(places[best])])
    if _normal(line / wider, degrees) > T_TREND:
        places, scores, sizes = with_line
        best = _best(places, scores, series.size)
        if best is None:
            return None
        found = _normal(scores[best] / wider, degrees) > T_NEXT
    else:
        found = (
            _normal(scores[best] / wider, degrees) > T_STEP
            and _normal(_at(with_line, int(places[best])) / wider, degrees) > T_WITH_TREND
        )
    if not found or abs(sizes[best]) < log_margin(least, rises=bool(sizes[best] > 0)):
        return None
    best = _refined(places, scores, best)
    if not LEAST_AFTER <= places[best] <= series.size - LEAST_AFTER:
        # The results of the new level are too few: this may be a change that is not confirmed yet.
        return None
    near = places[scores**2 >= scores[best] ** 2 - _LOCATION * wider**2]
    return Step(
        index=int(places[best]),
        earliest=int(near.min()),
        latest=int(near.max()),
        size=float(sizes[best]),
        score=_normal(scores[best] / wider, degrees),
    )


def _best(places: NDArray[np.int64], scores: Array, count: int) -> int | None:
    """Return the number of the place with the highest score among those with enough results on both sides."""
    allowed = (places >= LEAST_AFTER) & (places <= count - LEAST_AFTER)
    if not allowed.any():
        return None
    return int(np.argmax(np.where(allowed, np.abs(scores), -1.0)))


def _refined(places: NDArray[np.int64], scores: Array, best: int) -> int:
    """Return the number of the place with the highest score near ``best``, also next to the ends of the series."""
    near = np.abs(places - places[best]) < LEAST_AFTER
    return int(np.argmax(np.where(near, np.abs(scores), -1.0)))


def _at(scan: tuple[NDArray[np.int64], Array, Array], place: int) -> float:
    """Return the score at a place; 0 if it cannot be told from a change of machine there."""
    found = np.flatnonzero(scan[0] == place)
    return float(scan[1][found[0]]) if found.size else 0.0


def _normal(score: float, degrees: int) -> float:
    """Return the score of a normal distribution that is as rare as a t-value: short series have more large ones."""
    from scipy import special

    rare = float(special.stdtr(degrees, -abs(score)))
    return float(-special.ndtri(rare)) if rare > 1e-300 else abs(float(score))


def _scan(
    series: Array, names: tuple[int, ...], *, trend: bool
) -> tuple[NDArray[np.int64], Array, Array] | None:
    """Return the places of a step, its t-value and its size at each; None if there is no place."""
    basis, places, steps, lengths = _design(names, trend)
    if not places.size:
        return None
    rest = series - basis @ (basis.T @ series)
    projected = (steps.T @ rest) / lengths
    left = np.maximum(rest @ rest - projected**2, 1e-18)
    degrees = max(1, series.size - basis.shape[1] - 1)
    return places, projected / np.sqrt(left / degrees), projected / lengths


@lru_cache(maxsize=512)
def _design(names: tuple[int, ...], trend: bool) -> tuple[Array, NDArray[np.int64], Array, Array]:
    """Return a basis of levels (and a line), the places of a step, and the steps without their part in the basis."""
    factor, n = np.asarray(names), len(names)
    columns = [(factor == name).astype(np.float64) for name in sorted(set(names))]
    if trend:
        columns.append(np.arange(n) - (n - 1) / 2)
    basis, _ = np.linalg.qr(np.stack(columns, axis=1))
    places = np.arange(1, n)
    steps = (np.arange(n)[:, None] >= places[None, :]).astype(np.float64)
    steps -= basis @ (basis.T @ steps)
    lengths = np.sqrt((steps**2).sum(axis=0))
    # A step that coincides with a change of machine cannot be told from it.
    distinct = lengths > 0.3
    return basis, places[distinct], steps[:, distinct], lengths[distinct]


def _comparable(factor: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the machines with one number for those that took turns in time but never alternated.

    A machine that replaced another for good has no other evidence of its level: its change is a change of level.
    """
    names = sorted(set(factor.tolist()), key=lambda name: int(np.argmax(factor == name)))
    if len(names) < 2:
        return np.zeros_like(factor)
    spans = [
        (int(np.argmax(factor == name)), int(factor.size - np.argmax(factor[::-1] == name))) for name in names
    ]
    own = [
        name
        for name, (first, last) in zip(names, spans, strict=True)
        if any(
            first < end and start < last
            for other, (start, end) in zip(names, spans, strict=True)
            if other != name
        )
    ]
    return np.asarray([1 + own.index(name) if name in own else 0 for name in factor.tolist()], dtype=np.int64)


def _machine_levels(series: Array, factor: NDArray[np.int64]) -> Array:
    """Return the median of each point's machine."""
    levels = np.zeros_like(series)
    for name in set(factor.tolist()):
        levels[factor == name] = np.median(series[factor == name])
    return levels


def _levels(series: Array, factor: NDArray[np.int64], places: Sequence[int]) -> Array:
    """Return the fitted level of each point: that of its machine plus that of its part between two changes."""
    n = series.size
    columns = [(factor == name).astype(np.float64) for name in sorted(set(factor.tolist()))]
    columns += [(np.arange(n) >= place).astype(np.float64) for place in places]
    design = np.stack(columns, axis=1)
    weights, *_ = np.linalg.lstsq(design, series, rcond=None)
    return np.asarray(design @ weights, dtype=np.float64)


def _running_median(series: Array) -> Array:
    padded = np.pad(series, _NEIGHBOURS, mode="reflect") if series.size > _NEIGHBOURS else series
    if padded.size < 2 * _NEIGHBOURS + 1 or padded is series:
        return np.full_like(series, np.median(series))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1)
    return np.asarray(np.median(windows, axis=1), dtype=np.float64)


def _spikes(series: Array) -> NDArray[np.bool_]:
    """Return which points lie far from the median of their neighbours; none if they are too many for spikes."""
    distance = series - _running_median(series)
    scale = 1.4826 * float(np.median(np.abs(distance - np.median(distance))))
    found = np.abs(distance) > max(_SPIKE * scale, _SMALLEST_SPIKE)
    return found if found.mean() <= _MOST_SPIKES else np.zeros_like(found)


def _correlation(rest: Array) -> float:
    """Return the correlation of neighbours, corrected for its bias in short series; not negative."""
    total = float(rest @ rest)
    if total <= _NOTHING or rest.size < 3:
        return 0.0
    found = float(rest[1:] @ rest[:-1]) / total
    return float(min(max(found + (1 + 3 * found) / rest.size, 0.0), _MOST_CORRELATION))


def _inflation(rest: Array) -> float:
    correlation = _correlation(rest)
    return math.sqrt((1 + correlation) / (1 - correlation))


def _slope(rest: Array, factor: NDArray[np.int64], places: Sequence[int]) -> tuple[float, float]:
    """Return the slope of a straight line through the rest, fitted together with the levels, and its t-value."""
    n = rest.size
    line: Array = np.arange(n, dtype=np.float64) - (n - 1) / 2
    time = line - _levels(line, factor, places)
    length = float(time @ time)
    if length <= 0 or n < 4:
        return 0.0, 0.0
    slope = float(time @ rest) / length
    left = rest - slope * time
    variance = float(left @ left) / (n - 3)
    return slope, slope * math.sqrt(length) / math.sqrt(variance) if variance > 0 else 0.0


def _unconfirmed(series: Array, levels: Array, steps: Sequence[Step], least: float) -> list[Step]:
    """Return a possible change within the last results, which are too few to confirm it."""
    start = steps[-1].index if steps else 0
    rest = (series - levels)[start:]
    found: list[Step] = []
    for count in range(1, min(LEAST_AFTER, rest.size - LEAST_AFTER + 1)):
        before, after = rest[:-count], rest[-count:]
        middle = float(np.median(before))
        scale = max(1.4826 * float(np.median(np.abs(before - middle))), 1e-6)
        size = float(np.median(after)) - middle
        score = abs(size) / (scale * math.sqrt(1 / count + 1 / before.size))
        margin = log_margin(least, rises=size > 0)
        if np.all((after - middle) * np.sign(size) > margin) and score > T_UNCONFIRMED:
            at = series.size - count
            found.append(Step(at, at, at, size, score, confirmed=False))
    return sorted(found, key=lambda step: -step.score)[:1]


def _two_levels(rest: Array) -> float | None:
    """Return the distance of two levels between which the results jump; None if there are no two."""
    ordered = np.sort(rest)
    n = ordered.size
    least = max(2, math.ceil(_SMALLER_LEVEL * n))
    if n < LEAST_POINTS or n - least < least:
        return None
    sums, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    cuts = np.arange(least, n - least + 1)
    low, high = sums[cuts - 1] / cuts, (sums[-1] - sums[cuts - 1]) / (n - cuts)
    inner = squares[-1] - cuts * low**2 - (n - cuts) * high**2
    best = int(np.argmin(inner))
    within = math.sqrt(max(float(inner[best]), 1e-18) / (n - 2))
    gap = float(high[best] - low[best])
    return gap if gap > _TWO_LEVELS * within and gap > _SMALLEST_SPIKE else None
