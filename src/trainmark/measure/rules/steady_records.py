"""The warm-up test for a foreign program's log, in which each record is the mean of several steps."""

import numpy as np

from trainmark.logs.model import Meaning, ParsedLog
from trainmark.measure.rules.series import NoNumberError, series
from trainmark.measure.steadiness import judge_steadiness
from trainmark.schema.measurement import CannotSay, Steadiness

_PARTS = 8
_STUDENT = 2.365
"""The quantile of Student's t for 95 % and ``_PARTS - 1`` degrees of freedom."""
_MAD = 1.4826


def noise(log: ParsedLog, skipped: int) -> float | None:
    """Return the relative uncertainty of the number from its own records; ``None`` if there are too few records.

    It is half the width of a 95 % interval from eight parts of the window. Their spread is the median deviation,
    because a stall is not noise.
    """
    try:
        if log.meaning is Meaning.RUNNING:
            return None
        rates = np.concatenate([np.asarray(block) for block in series(log).rates(skipped)] or [np.empty(0)])
    except NoNumberError:
        return None
    times = 1 / rates[np.isfinite(rates)]
    if len(times) < 2 * _PARTS:
        return None
    parts = np.array([part.mean() for part in np.array_split(times, _PARTS)])
    middle = float(np.median(parts))
    return _STUDENT * _MAD * float(np.median(np.abs(parts - middle))) / (float(np.sqrt(_PARTS)) * middle)


def judge_records(log: ParsedLog, skipped: int) -> Steadiness:
    """Test the records of ``log`` without the first ``skipped`` in the same way as the steps of a built-in worker.

    A log of running averages gives no verdict, because they hide the time of each record.
    """
    try:
        if log.meaning is Meaning.RUNNING:
            raise NoNumberError("running-averages", "the records are running averages")
        rates = np.concatenate([np.asarray(block) for block in series(log).rates(skipped)] or [np.empty(0)])
    except NoNumberError:
        return Steadiness(steady=None, settled_after=None, bias=None, cannot_say=CannotSay.NO_STEP_TIMES)
    with np.errstate(divide="ignore"):
        return judge_steadiness(1 / rates)
