"""The warm-up test: had the step times become steady when the measured window began, and did they stay so?

Change points in the mean of correlated steps, after Chakar, Lebarbier, Lévy-Leduc and Robin ("A robust approach for
estimating change-points in the mean of an AR(1) process", Bernoulli 23, 2017) and the circular binary segmentation of
Olshen, Venkatraman, Lucito and Wigler (Biostatistics 5, 2004):

1. logarithms of the step times; single slow steps are taken out by a Hampel filter (7 steps, 4 MAD), because one
   slow step is neither a warm-up nor a change. From 200 steps on, means of several, so that 100 to 199 values are left;
2. the correlation of neighbouring values, in two ways: ``robust`` from the differences over one and over two steps,
   which few changes disturb (AR1seg); ``cautious`` from what remains when the series is cut wherever its parts would
   differ were the steps independent, which correlation disturbs. Each errs on one side, so both are used;
3. the series less the correlated part, ``e(t) = y(t) - r y(t-1)``, is scanned for the stretch (of at least 5 values)
   whose mean differs most from the rest's, in units of its standard error;
4. a change is found where the largest is above the threshold for that number of values and that correlation. The
   thresholds were set by simulation for at most 5 % false reports at correlations up to 0.95
   (``benchmarks/trust.py --part warmup`` counts them).

What is found is then said only if it matters: parts that differ by less than 1 % are one, and a window whose mean is
within half a percent of its steady part's is steady. A window that might hide a change by a fifth over its quarter
says nothing: such a change would not be found, and some quarter does differ from the rest by half of that.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from trainmark.schema.measurement import CannotSay, Cause, Level, Shape, Steadiness

Series = NDArray[np.float64]

LEAST_STEPS = 20
LEAST_STRETCH = 5
MOST_VALUES = 200
TOLERANCE = 0.01
"""Parts whose levels differ by less are one."""
MATTERS = 0.005
"""A window whose mean is off by less is steady."""
BLIND = 0.2
"""A change over a quarter of the window, as a share, that a window must be able to show if it is to say anything."""
FIRST_STEPS = 3
"""As many steps of the window at most are a compilation's, where they take more than ``LONG`` times the median."""
LONG = 1.5
_MAD = 1.4826
_CLIP = 2.5
_MOST_CUTS = 12


def judge_steadiness(
    step_times_s: Series, epoch_starts: NDArray[np.bool_] | None = None, data_waits_s: Series | None = None
) -> Steadiness:
    """Test the step times of one measured window (seconds, in order).

    ``epoch_starts`` is true for the first step of an epoch and ``data_waits_s`` has the seconds that each step waited
    for its data; both are as long as the step times, and tell causes apart where they are there. The records of a
    foreign log, each the mean of several steps, are tested in the same way; what is counted is then records.
    """
    known = np.isfinite(step_times_s) & (step_times_s > 0)
    times = step_times_s[known]
    if times.size < LEAST_STEPS:
        return Steadiness(steady=None, settled_after=None, bias=None, cannot_say=CannotSay.TOO_FEW_STEPS)
    starts = epoch_starts[known] if epoch_starts is not None else np.zeros(times.size, dtype=np.bool_)
    waits = data_waits_s[known] if data_waits_s is not None else np.zeros(times.size)
    if times.min() == times.max():
        return Steadiness(steady=True, settled_after=0, bias=0.0, detectable=0.0, correlation=0.0)
    if (compiled := _first_steps(times)) is not None:
        return compiled
    width = max(1, times.size // (MOST_VALUES // 2))
    values = _means(times, width)
    scan = look_for_change(np.log(values))
    seen: dict[str, Any] = {"detectable": scan.detectable, "correlation": scan.correlation}
    levels = _levels(times, [min(cut * width, times.size) for cut in scan.cuts]) if scan.strength > 1 else []
    judged = _judge(times, levels) if len(levels) > 1 else None
    if judged is not None:
        cause = _cause(times, judged.levels, starts, waits)
        return judged.model_copy(update={**seen, "cause": cause})
    if scan.strength <= 1 and scan.detectable > BLIND:
        return Steadiness(steady=None, settled_after=None, bias=None, cannot_say=CannotSay.TOO_NOISY, **seen)
    return Steadiness(steady=True, settled_after=0, bias=0.0, **seen)


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found in a series: a change where ``strength`` is above 1, and then where the series is cut.

    ``cuts`` begin with 0 and end with the number of values. ``detectable`` and ``correlation`` as in ``Steadiness``.
    """

    strength: float
    cuts: tuple[int, ...]
    detectable: float
    correlation: float


def look_for_change(logs: Series) -> Scan:
    """Scan the logarithms of 20 to 200 values for changes of their mean."""
    y = _without_single_outliers(logs)
    n = y.size
    noise = _noise(np.diff(y))
    rough = _cut(y, noise * 4.0)
    rest = y - _step_function(y, rough)
    left = float((rest * rest).sum())
    cautious = float((rest[1:] * rest[:-1]).sum()) / left if left > 0 else 0.0
    robust = float(np.clip(_square(y[2:] - y[:-2]) / max(_square(np.diff(y)), 1e-300) - 1, 0, 0.98))
    attempts = []
    for correlation, threshold in (
        (cautious + 0.1, _threshold_cautious(cautious, n)),
        (robust + 1.6 / np.sqrt(n), _threshold_robust(robust, n)),
    ):
        r = float(np.clip(correlation, 0, 0.98))
        e = y[1:] - r * y[:-1]
        unit = _noise(np.diff(e))
        size, _, _ = _largest(e)
        quarter = np.sqrt(n * 3 / 16)
        least = (threshold + 0.84) * unit / ((1 - r) * quarter)
        attempts.append((size / (unit * threshold), float(np.expm1(least)), unit / (1 - r), threshold))
    strength = max(attempt[0] for attempt in attempts)
    _, _, unit, threshold = max(attempts)
    cuts = _cut(y, unit * max(threshold / 2, 5.0)) if strength > 1 else [0, n]
    if strength > 1 and len(cuts) == 2:
        cuts = rough
    return Scan(
        strength=strength,
        cuts=tuple(cuts),
        detectable=min([attempt[1] for attempt in attempts] + [2 * float(np.expm1(_most_by_quarters(y)))]),
        correlation=max(robust, cautious, 0.0),
    )


def _threshold_cautious(correlation: float, n: int) -> float:
    # A few changes leave little correlation behind when they are cut out; a correlated series leaves much.
    small = max(1.0, 100 / n)
    return float(np.interp(correlation + 1 / np.sqrt(n), [0.10, 0.22], [6.0 * small, 44.0 * small**0.5]))


def _threshold_robust(correlation: float, n: int) -> float:
    # The correlation is known to about 1.6 / sqrt(n); that matters the more the nearer it is to 1.
    return 6.0 + 1.65 * float(np.log(n / 30) / np.log(100 / 30) + np.interp(correlation, [0.5, 0.8], [0, 1]))


def _without_single_outliers(y: Series) -> Series:
    """Return the series with values that stand alone put to their neighbours' median (Hampel's filter)."""
    padded = np.pad(y, 3, mode="reflect")
    middle = np.median(sliding_window_view(padded, 7), axis=-1)
    off = np.abs(y - middle)
    return np.where(off > 4 * _MAD * np.median(off), middle, y)


def _square(differences: Series) -> float:
    """Return the mean square, of what is beyond 2.5 MAD no more than that: a change of level is one such difference."""
    sizes = np.abs(differences)
    return float((np.minimum(sizes, _CLIP * _MAD * np.median(sizes)) ** 2).mean())


def _noise(differences: Series) -> float:
    return max(float(np.sqrt(_square(differences) / 2)), 1e-9)


@cache
def _weights(n: int) -> Series:
    """Return, for each stretch of n values, from i to j, what makes its sum's excess a contrast of variance 1."""
    i, j = np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]
    length = (j - i).astype(np.float64)
    at_ends = ((i == 0) | (i >= LEAST_STRETCH)) & ((j == n) | (n - j >= LEAST_STRETCH))
    fits = (length >= LEAST_STRETCH) & (n - length >= LEAST_STRETCH) & at_ends
    return np.where(fits, 1 / np.sqrt(np.where(fits, length * (n - length) / n, 1.0)), 0.0)


def _largest(y: Series) -> tuple[float, int, int]:
    """Return the largest contrast of a stretch with the rest, and the stretch."""
    n = y.size
    if n < 2 * LEAST_STRETCH:
        return 0.0, 0, 0
    sums = np.concatenate([[0.0], np.cumsum(y - y.mean())])
    contrasts = np.abs(sums[None, :] - sums[:, None]) * _weights(n)
    at = int(contrasts.argmax())
    return float(contrasts.flat[at]), at // (n + 1), at % (n + 1)


def _most_by_quarters(y: Series) -> float:
    """Return by how much the mean of a stretch of about a quarter of the series differs from the rest's at most.

    A change twice as large is not there, whatever the steps' correlation: chance would have to hide half of it.
    """
    n = y.size
    sums = np.concatenate([[0.0], np.cumsum(y - y.mean())])
    most = 0.0
    for length in range(n // 5, n // 3 + 1):
        most = max(most, float(np.abs(sums[length:] - sums[:-length]).max()) * n / (length * (n - length)))
    return most


def _cut(y: Series, threshold: float) -> list[int]:
    """Cut the series, again and again, at the ends of the stretch that differs most from the rest of its part."""
    cuts, parts = {0, y.size}, [(0, y.size)]
    while parts and len(cuts) < _MOST_CUTS:
        begin, end = parts.pop(0)
        size, i, j = _largest(y[begin:end])
        if size > threshold:
            inner = sorted({begin, begin + i, begin + j, end})
            parts += pairwise(inner)
            cuts.update(inner)
    return sorted(cuts)


def _step_function(y: Series, cuts: list[int]) -> Series:
    return np.concatenate([np.full(b - a, y[a:b].mean()) for a, b in pairwise(cuts)])


def _means(times: Series, width: int) -> Series:
    """Return the means of each ``width`` steps; the last takes what is over."""
    if width == 1:
        return times
    return np.array([part.mean() for part in np.split(times, range(width, times.size - width + 1, width))])


def _first_steps(times: Series) -> Steadiness | None:
    """Return the verdict on a window whose first steps alone are as long as several: they are a compilation's."""
    middle = float(np.median(times))
    long = int((times[: FIRST_STEPS + 1] > LONG * middle).argmin())
    if not 0 < long <= FIRST_STEPS or times[long] > LONG * middle:
        return None
    settled = float(times[long:].mean())
    bias = float(times.mean()) / settled - 1
    # A first step no longer than others of the window is one of its slow steps.
    if bias <= MATTERS or times[0] <= 1.2 * times[long:].max():
        return None
    off = float(times[:long].mean()) / settled - 1
    return Steadiness(
        steady=False,
        settled_after=long,
        bias=bias,
        shape=Shape.SLOW_START,
        cause=Cause.COMPILE,
        levels=(Level(first=0, steps=long, off=off), Level(first=long, steps=times.size - long, off=0.0)),
    )


Part = tuple[int, int, float]
"""From which step up to which, and the mean step time there."""


def _levels(times: Series, cuts: list[int]) -> list[Part]:
    """Return the parts between cuts; neighbours whose means are nearer than the tolerance are one."""
    parts = [(a, b, float(times[a:b].mean())) for a, b in pairwise(cuts)]
    while len(parts) > 1:
        gaps = [abs(b[2] / a[2] - 1) for a, b in pairwise(parts)]
        at = int(np.argmin(gaps))
        if gaps[at] > TOLERANCE:
            break
        begin, end = parts[at][0], parts[at + 1][1]
        parts[at : at + 2] = [(begin, end, float(times[begin:end].mean()))]
    return parts


def _judge(times: Series, parts: list[Part]) -> Steadiness | None:
    """Return the verdict on a window of several parts; None where their differences do not matter."""
    last, longest = parts[-1], max(parts, key=lambda part: part[1] - part[0])
    settles = last[1] - last[0] >= times.size / 2
    steady = last if settles else longest
    bias = float(times.mean()) / steady[2] - 1
    if abs(bias) <= MATTERS:
        return None
    return Steadiness(
        steady=False,
        settled_after=last[0] if settles else None,
        bias=bias,
        shape=_start(parts, steady) if settles else _shape(parts),
        levels=tuple(Level(first=a, steps=b - a, off=mean / steady[2] - 1) for a, b, mean in parts),
    )


def _start(parts: list[Part], steady: Part) -> Shape:
    before = sum((b - a) * mean for a, b, mean in parts[:-1]) / steady[0]
    return Shape.SLOW_START if before > steady[2] else Shape.FAST_START


def _shape(parts: list[Part]) -> Shape:
    means = [mean for _, _, mean in parts]
    rises = [b > a for a, b in pairwise(means)]
    if len(parts) == 2:
        return Shape.SLOWDOWN if rises[0] else Shape.SPEEDUP
    if all(rises) or not any(rises):
        return Shape.DRIFT
    if len(parts) == 3 and abs(means[2] / means[0] - 1) < max(
        2 * TOLERANCE, abs(means[1] / means[0] - 1) / 4
    ):
        return Shape.BURST
    return Shape.LEVELS


def _cause(
    times: Series, levels: tuple[Level, ...], starts: NDArray[np.bool_], waits: Series
) -> Cause | None:
    """Return what the events show beside the slower parts; None where they show nothing."""
    slow = [level for level in levels if level.off > TOLERANCE]
    if not slow:
        return None
    if all(starts[max(0, level.first - 2) : level.first + 3].any() for level in slow):
        return Cause.EPOCH
    inside = np.zeros(times.size, dtype=np.bool_)
    for level in slow:
        inside[level.first : level.first + level.steps] = True
    if not np.isfinite(waits).all() or inside.all():
        return None
    longer = float(times[inside].mean() - times[~inside].mean())
    waited = float(waits[inside].mean() - waits[~inside].mean())
    return Cause.DATA if longer > 0 and waited > longer / 2 else None
