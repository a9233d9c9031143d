"""The warm-up test of a foreign program's log, whose records are each the mean of several steps."""

import numpy as np

from trainmark.logs.model import Meaning, ParsedLog
from trainmark.measure.rules.series import NoNumberError, series
from trainmark.measure.steadiness import judge_steadiness
from trainmark.words.measurement import CannotSay, Steadiness


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
