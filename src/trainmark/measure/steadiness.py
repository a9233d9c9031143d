"""The warm-up test: had the step times become steady when the measured window began, and did they stay so?

The window's steps are cut by the MSER-5 rule (White, "An effective truncation heuristic for bias reduction
in simulation output", Simulation 69(6), 1997): means of five steps each, and the truncation point that
minimises the standard error of what remains. The window began too early when the steps before that point
move its mean step time by more than ``TOLERANCE``, and its first five steps differ by as much: a single slow
step somewhere is no slow start. It did not stay steady when the halves of what remains differ by more than
twice ``TOLERANCE``. Neither is said of differences below Student's 97.5 % quantile times their standard error.
"""

import numpy as np
from numpy.typing import NDArray

from trainmark.measure.statistics import student_t
from trainmark.words.measurement import Steadiness

TOLERANCE = 0.01
BATCH = 5
LEAST_STEPS = 20


def judge_steadiness(step_times_s: NDArray[np.float64]) -> Steadiness:
    """Test the step times of one measured window (seconds, in order)."""
    times = step_times_s[np.isfinite(step_times_s)]
    if times.size < LEAST_STEPS:
        return Steadiness(steady=None, settled_after=None, bias=None)
    batches = times[: times.size // BATCH * BATCH].reshape(-1, BATCH).mean(axis=1)
    cut = _truncation(batches)
    settled = batches[cut:]
    bias = float(batches.mean() / settled.mean() - 1)
    slow_start = (
        abs(bias) > max(TOLERANCE, _error(settled))
        and abs(float(batches[0] / settled.mean() - 1)) > TOLERANCE
    )
    early, late = np.array_split(settled, 2)
    drift = abs(float(early.mean() - late.mean())) / float(settled.mean())
    drifts = drift > max(2 * TOLERANCE, float(np.hypot(_error(early), _error(late))))
    return Steadiness(
        steady=not (slow_start or drifts), settled_after=None if drifts else cut * BATCH, bias=bias
    )


def _error(batches: NDArray[np.float64]) -> float:
    """Return by how much the mean of these batches may be off, as a share of it; infinite for a single one."""
    if batches.size < 2:
        return float("inf")
    quantile = student_t(batches.size - 1)
    return quantile * float(batches.std(ddof=1) / np.sqrt(batches.size) / batches.mean())


def _truncation(batches: NDArray[np.float64]) -> int:
    """Return the MSER truncation point, searched in the first half (beyond it the rule has too little left)."""
    scores = [float(np.var(batches[cut:]) / batches[cut:].size) for cut in range(batches.size // 2 + 1)]
    return int(np.argmin(scores))
