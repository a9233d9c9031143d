"""The warm-up test of a foreign program's log, whose records are each the mean of several steps."""

import numpy as np

from trainmark.logs.model import Meaning, ParsedLog
from trainmark.measure.rules.series import NoNumberError, series
from trainmark.measure.steadiness import judge_steadiness
from trainmark.schema.measurement import CannotSay, Steadiness

_PARTS = 8
_STUDENT = 2.365
"""Student's t for 95 % and as many parts less one."""
_MAD = 1.4826


def noise(log: ParsedLog, skipped: int) -> float | None:
    """Return by what share the number is uncertain from its own records; ``None`` where they are too few to say.

    Half the width of a 95 % interval from eight parts of the window, whose spread is taken from their median: a stall
    is a cause and no noise.
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
    """Test the records of ``log`` without the first ``skipped``, as the steps of a run of our own are tested.

    Running averages hide what each record took: such a log cannot say.
    """
    try:
        if log.meaning is Meaning.RUNNING:
            raise NoNumberError("running-averages", "the records are running averages")
        rates = np.concatenate([np.asarray(block) for block in series(log).rates(skipped)] or [np.empty(0)])
    except NoNumberError:
        return Steadiness(steady=None, settled_after=None, bias=None, cannot_say=CannotSay.NO_STEP_TIMES)
    with np.errstate(divide="ignore"):
        return judge_steadiness(1 / rates)
