"""The warm-up test decides whether step times are steady from the start of the measured window to its end.

Change points in the mean of correlated steps, after Chakar, Lebarbier, Lévy-Leduc and Robin ("A robust approach for
estimating change-points in the mean of an AR(1) process", Bernoulli 23, 2017) and the circular binary segmentation of
Olshen, Venkatraman, Lucito and Wigler (Biostatistics 5, 2004):

1. take logarithms of the step times and remove single slow steps with a Hampel filter (7 steps, 4 MAD), because one
   slow step is neither a warm-up nor a change. From 200 steps on, average groups so that 100 to 199 values are left;
2. estimate the correlation of neighbouring values twice: ``robust`` from the differences over one and over two steps,
   which few changes disturb (AR1seg); ``cautious`` from the residual after the series was cut wherever its parts would
   differ if the steps were independent, which correlation disturbs. They err in opposite directions, so both are used;
3. subtract the correlated part, ``e(t) = y(t) - r y(t-1)``, and find the stretch (of at least 5 values) whose mean
   differs most from the mean of the rest, in units of its standard error;
4. report a change if that difference is above the threshold for the number of values and the correlation. The
   thresholds were set by simulation for at most 5 % false reports at correlations up to 0.95
   (``benchmarks/trust.py --part warmup`` counts them).

A change is reported only if it matters: parts that differ by less than 1 % are merged, and a window whose mean is
within half a percent of the mean of its steady part is steady. If a change by a fifth over a quarter of the window
could go unnoticed, and some quarter does differ from the rest by half of that, the result is "too noisy".

The records of another program's log are tested like the steps of a built-in worker (``judge_records``); the doubts of
such a log are about its window or about its work (``log_suspicions``).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from trainmark.logs import Problem, Severity
from trainmark.logs.intervals import intervals
from trainmark.logs.model import Floats, Meaning, ParsedLog, median
from trainmark.measure.rules.series import NoNumberError, series
from trainmark.schema.measurement import About, CannotSay, Cause, Level, Shape, Steadiness, Suspicion

MIN_STEPS = 20
MIN_STRETCH = 5
MAX_VALUES = 200
LEVEL_TOLERANCE = 0.01
"""Neighbouring parts whose levels differ by less are merged."""
BIAS_TOLERANCE = 0.005
"""A window whose mean differs by less from its steady part is steady."""
MAX_DETECTABLE = 0.2
"""The change over a quarter of the window, as a share, that must be detectable for a verdict."""
MAX_COMPILE_STEPS = 3
"""At most this many steps at the window's start count as compilation, if each takes ``COMPILE_FACTOR`` medians."""
COMPILE_FACTOR = 1.5
_MAD = 1.4826
_CLIP = 2.5
_MOST_CUTS = 12
PARTS = 8
_STUDENT = 2.365
"""The quantile of Student's t for 95 % and ``PARTS - 1`` degrees of freedom."""
_OF_THE_WINDOW = frozenset(
    {
        "stall",
        "uneven-steps",
        "pace-changes",
        "few-records",
        "short-log",
        "few-steps",
        "few-digits",
        "between-epochs",
        "untimed",
        "pauses",
    }
)
"""Codes of doubts about how even and how long the measured window is; the others are about the work in it."""
_OF_A_PRINTED_SHARE = frozenset({"impossible-mfu", "mfu-of-another-peak"})
"""Codes of doubts about the MFU that a program prints, which no throughput is computed from."""


def judge_steadiness(
    step_times_s: Floats, epoch_starts: NDArray[np.bool_] | None = None, data_waits_s: Floats | None = None
) -> Steadiness:
    """Test the step times of one measured window (seconds, in order).

    ``epoch_starts`` is true for the first step of an epoch and ``data_waits_s`` has the seconds that each step waited
    for its data; both are optional, as long as the step times, and used to find the cause. The records of a foreign
    log, each the mean of several steps, are tested in the same way; counts are then in records.
    """
    known = np.isfinite(step_times_s) & (step_times_s > 0)
    times = step_times_s[known]
    if times.size < MIN_STEPS:
        return Steadiness(steady=None, settled_after=None, bias=None, cannot_say=CannotSay.TOO_FEW_STEPS)
    starts = epoch_starts[known] if epoch_starts is not None else np.zeros(times.size, dtype=np.bool_)
    waits = data_waits_s[known] if data_waits_s is not None else np.zeros(times.size)
    if times.min() == times.max():
        return Steadiness(steady=True, settled_after=0, bias=0.0, detectable=0.0, correlation=0.0)
    if (compiled := _first_steps(times)) is not None:
        return compiled
    width = max(1, times.size // (MAX_VALUES // 2))
    values = _means(times, width)
    scan = find_changes(np.log(values))
    power: dict[str, Any] = {"detectable": scan.detectable, "correlation": scan.correlation}
    levels = _levels(times, [min(cut * width, times.size) for cut in scan.cuts]) if scan.strength > 1 else []
    judged = _judge(times, levels) if len(levels) > 1 else None
    if judged is not None:
        cause = _cause(times, judged.levels, starts, waits)
        return judged.model_copy(update={**power, "cause": cause})
    if scan.strength <= 1 and scan.detectable > MAX_DETECTABLE:
        if (drift := _drift(times)) is not None:
            return drift.model_copy(update=power)
        return Steadiness(steady=None, settled_after=None, bias=None, cannot_say=CannotSay.TOO_NOISY, **power)
    return Steadiness(steady=True, settled_after=0, bias=0.0, **power)


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of scanning a series: it changes if ``strength`` is above 1, and then at ``cuts``.

    ``cuts`` start with 0 and end with the number of values. ``detectable`` and ``correlation`` are as in
    ``Steadiness``.
    """

    strength: float
    cuts: tuple[int, ...]
    detectable: float
    correlation: float


def find_changes(logs: Floats) -> Scan:
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
    # After cutting, a series with few changes has little correlation left; a correlated series has much.
    small = max(1.0, 100 / n)
    return float(np.interp(correlation + 1 / np.sqrt(n), [0.10, 0.22], [6.0 * small, 44.0 * small**0.5]))


def _threshold_robust(correlation: float, n: int) -> float:
    # The correlation is known to about 1.6 / sqrt(n), an error that matters more as it approaches 1.
    return 6.0 + 1.65 * float(np.log(n / 30) / np.log(100 / 30) + np.interp(correlation, [0.5, 0.8], [0, 1]))


def _without_single_outliers(y: Floats) -> Floats:
    """Return the series with isolated outliers replaced by their neighbours' median (Hampel filter)."""
    padded = np.pad(y, 3, mode="reflect")
    middle = np.median(sliding_window_view(padded, 7), axis=-1)
    off = np.abs(y - middle)
    return np.where(off > 4 * _MAD * np.median(off), middle, y)


def _square(differences: Floats) -> float:
    """Return the mean square with values clipped at 2.5 MAD, so that a change of level has little weight."""
    sizes = np.abs(differences)
    return float((np.minimum(sizes, _CLIP * _MAD * np.median(sizes)) ** 2).mean())


def _noise(differences: Floats) -> float:
    return max(float(np.sqrt(_square(differences) / 2)), 1e-9)


@cache
def _weights(n: int) -> Floats:
    """Return for each stretch i to j of n values the factor that scales its excess sum to a contrast of variance 1."""
    i, j = np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]
    length = (j - i).astype(np.float64)
    at_ends = ((i == 0) | (i >= MIN_STRETCH)) & ((j == n) | (n - j >= MIN_STRETCH))
    fits = (length >= MIN_STRETCH) & (n - length >= MIN_STRETCH) & at_ends
    return np.where(fits, 1 / np.sqrt(np.where(fits, length * (n - length) / n, 1.0)), 0.0)


def _largest(y: Floats) -> tuple[float, int, int]:
    """Return the largest contrast of a stretch with the rest, and the stretch."""
    n = y.size
    if n < 2 * MIN_STRETCH:
        return 0.0, 0, 0
    sums = np.concatenate([[0.0], np.cumsum(y - y.mean())])
    contrasts = np.abs(sums[None, :] - sums[:, None]) * _weights(n)
    at = int(contrasts.argmax())
    return float(contrasts.flat[at]), at // (n + 1), at % (n + 1)


def _most_by_quarters(y: Floats) -> float:
    """Return the largest difference of the mean of about a quarter of the series from the mean of the rest.

    A change twice as large can be ruled out at any correlation: random variation would have to hide half of it.
    """
    n = y.size
    sums = np.concatenate([[0.0], np.cumsum(y - y.mean())])
    most = 0.0
    for length in range(n // 5, n // 3 + 1):
        most = max(most, float(np.abs(sums[length:] - sums[:-length]).max()) * n / (length * (n - length)))
    return most


def _cut(y: Floats, threshold: float) -> list[int]:
    """Cut the series repeatedly at the ends of the stretch that differs most from the rest of its part."""
    cuts, parts = {0, y.size}, [(0, y.size)]
    while parts and len(cuts) < _MOST_CUTS:
        begin, end = parts.pop(0)
        size, i, j = _largest(y[begin:end])
        if size > threshold:
            inner = sorted({begin, begin + i, begin + j, end})
            parts += pairwise(inner)
            cuts.update(inner)
    return sorted(cuts)


def _step_function(y: Floats, cuts: list[int]) -> Floats:
    return np.concatenate([np.full(b - a, y[a:b].mean()) for a, b in pairwise(cuts)])


def _means(times: Floats, width: int) -> Floats:
    """Return the means of groups of ``width`` steps; the last group includes the remainder."""
    if width == 1:
        return times
    return np.array([part.mean() for part in np.split(times, range(width, times.size - width + 1, width))])


def _first_steps(times: Floats) -> Steadiness | None:
    """Return the verdict on a window in which only the first steps are long, as by a compilation; else None."""
    middle = float(np.median(times))
    long = int((times[: MAX_COMPILE_STEPS + 1] > COMPILE_FACTOR * middle).argmin())
    if not 0 < long <= MAX_COMPILE_STEPS or times[long] > COMPILE_FACTOR * middle:
        return None
    settled = float(times[long:].mean())
    bias = float(times.mean()) / settled - 1
    # If later steps are about as long as the first one, it is just one of the window's slow steps.
    if bias <= BIAS_TOLERANCE or times[0] <= 1.2 * times[long:].max():
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


def _drift(times: Floats) -> Steadiness | None:
    """Return the verdict on a window in which each of eight parts is slower, or faster, than the one before; else None.

    To the scan, an even drift is a series of high correlation, in which it cannot find a change. Even at a correlation
    of 0.98, eight parts of a steady series are in order in at most 2 % of cases.
    """
    edges = [round(times.size * part / PARTS) for part in range(PARTS + 1)]
    means = np.array([times[a:b].mean() for a, b in pairwise(edges)])
    in_order = (np.diff(means) > 0).all() or (np.diff(means) < 0).all()
    if not in_order or abs(np.log(means[-1] / means[0])) < np.log1p(MAX_DETECTABLE / 2):
        return None
    return _judge(times, _levels(times, edges))


Part = tuple[int, int, float]
"""The first step, the step after the last, and the mean step time."""


def _levels(times: Floats, cuts: list[int]) -> list[Part]:
    """Return the parts between cuts; neighbours whose means differ by less than the tolerance are merged."""
    parts = [(a, b, float(times[a:b].mean())) for a, b in pairwise(cuts)]
    while len(parts) > 1:
        gaps = [abs(b[2] / a[2] - 1) for a, b in pairwise(parts)]
        at = int(np.argmin(gaps))
        if gaps[at] > LEVEL_TOLERANCE:
            break
        begin, end = parts[at][0], parts[at + 1][1]
        parts[at : at + 2] = [(begin, end, float(times[begin:end].mean()))]
    return parts


def _judge(times: Floats, parts: list[Part]) -> Steadiness | None:
    """Return the verdict on a window of several parts; None if their differences do not matter."""
    last, longest = parts[-1], max(parts, key=lambda part: part[1] - part[0])
    settles = last[1] - last[0] >= times.size / 2
    steady = last if settles else longest
    bias = float(times.mean()) / steady[2] - 1
    if abs(bias) <= BIAS_TOLERANCE:
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
        2 * LEVEL_TOLERANCE, abs(means[1] / means[0] - 1) / 4
    ):
        return Shape.BURST
    return Shape.LEVELS


def _cause(
    times: Floats, levels: tuple[Level, ...], starts: NDArray[np.bool_], waits: Floats
) -> Cause | None:
    """Return the cause of the slower parts that epoch starts and data waits show; None if they show none."""
    slow = [level for level in levels if level.off > LEVEL_TOLERANCE]
    if not slow:
        return None
    if all(starts[max(0, level.first - 2) : level.first + 3].any() for level in slow):
        return Cause.EPOCH
    in_slow_part = np.zeros(times.size, dtype=np.bool_)
    for level in slow:
        in_slow_part[level.first : level.first + level.steps] = True
    if not np.isfinite(waits).all() or in_slow_part.all():
        return None
    longer = float(times[in_slow_part].mean() - times[~in_slow_part].mean())
    waited = float(waits[in_slow_part].mean() - waits[~in_slow_part].mean())
    return Cause.DATA if longer > 0 and waited > longer / 2 else None


def noise(log: ParsedLog, skipped: int) -> float | None:
    """Return the relative uncertainty of the number from its own records; ``None`` if there are too few records.

    It is half the width of a 95 % interval from eight parts of the window. Their spread is the median deviation,
    because a stall is not noise.
    """
    parts = means_of_parts(log, skipped)
    if parts is None:
        return None
    middle = median(parts)
    return _STUDENT * _MAD * median(np.abs(parts - middle)) / (float(np.sqrt(PARTS)) * middle)


def means_of_parts(log: ParsedLog, skipped: int) -> Floats | None:
    """Return the mean time of a unit in each of ``PARTS`` parts of the window; None without two records a part.

    Neighbouring records resemble each other, so their spread would make the mean look better known than it is.
    """
    rates = _rates(log, skipped)
    if rates is None:
        return None
    times = 1 / rates[np.isfinite(rates)]
    if len(times) < 2 * PARTS:
        return None
    return np.array([part.mean() for part in np.array_split(times, PARTS)])


def _rates(log: ParsedLog, skipped: int) -> Floats | None:
    """Return the rates after the first ``skipped`` records; None for running averages, which hide each record's."""
    if log.meaning is Meaning.RUNNING:
        return None
    try:
        return np.concatenate([np.asarray(block) for block in series(log).rates(skipped)] or [np.empty(0)])
    except NoNumberError:
        return None


def judge_records(log: ParsedLog, skipped: int) -> Steadiness:
    """Test the records of ``log`` without the first ``skipped`` in the same way as the steps of a built-in worker.

    The records of a log that prints no times, or only running averages, are timed by their clock.
    """
    rates = _rates(log, skipped)
    if rates is not None:
        with np.errstate(divide="ignore"):
            return judge_steadiness(1 / rates)
    size, times = _times_by_clock(log, skipped)
    if not len(times):
        return Steadiness(steady=None, settled_after=None, bias=None, cannot_say=CannotSay.NO_STEP_TIMES)
    found = judge_steadiness(times)
    levels = tuple(
        one.model_copy(update={"first": one.first * size, "steps": one.steps * size}) for one in found.levels
    )
    settled = None if found.settled_after is None else found.settled_after * size
    return found.model_copy(update={"settled_after": settled, "levels": levels})


_GRAINS = 10
"""Records of less time, in units of the clock's resolution, are joined."""


def _times_by_clock(log: ParsedLog, skipped: int) -> tuple[int, Floats]:
    """Return the time of a step by the clock, in groups of so many records that the clock is fine enough for each.

    The time between two epochs and a counter that goes back are in no group. No times if the log has no clock.
    """
    if log.records.clock_s is None:
        return 1, np.empty(0)
    seconds, steps = [np.empty(0)], [np.empty(0)]
    for block in intervals(log):
        good = (block.clock_s >= 0) & (block.steps > 0) & (block.records > max(skipped, 1))
        seconds.append(block.clock_s[good])
        steps.append(block.steps[good])
    passed, done = np.concatenate(seconds), np.concatenate(steps)
    total = float(passed.sum())
    if not total > 0:
        return 1, np.empty(0)
    size = max(1, ceil(_GRAINS * log.clock_resolution_s * len(passed) / total))
    first = np.arange(0, len(passed) - size + 1, size)
    return size, np.add.reduceat(passed, first) / np.add.reduceat(done, first) if len(first) else np.empty(0)


def log_suspicions(problems: Iterable[Problem]) -> Iterator[Suspicion]:
    """Yield the doubts among the problems of a log: about the measured window, or about its work.

    A wrong MFU that the program prints is neither: nanoGPT divides by an A100's peak on every GPU.
    """
    for problem in problems:
        if problem.severity is Severity.DOUBT and problem.code not in _OF_A_PRINTED_SHARE:
            about = About.WINDOW if problem.code in _OF_THE_WINDOW else About.WORK
            yield Suspicion(code=problem.code, sentence=problem.message, about=about)
