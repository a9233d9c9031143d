"""Judgement of a foreign program's log: the warm-up test by records of several steps, and doubts as suspicions."""

from collections.abc import Iterable, Iterator

import numpy as np

from trainmark.logs import Problem, Severity
from trainmark.logs.columns import Floats, median
from trainmark.logs.model import Meaning, ParsedLog
from trainmark.measure.rules.series import NoNumberError, series
from trainmark.measure.steadiness import judge_steadiness
from trainmark.schema.measurement import About, CannotSay, Steadiness, Suspicion

PARTS = 8
_STUDENT = 2.365
"""The quantile of Student's t for 95 % and ``PARTS - 1`` degrees of freedom."""
_MAD = 1.4826
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
    }
)
"""Codes of doubts about how even and how long the measured window is; the others are about the work in it."""


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

    A log of running averages gives no verdict, because they hide the time of each record.
    """
    rates = _rates(log, skipped)
    if rates is None:
        return Steadiness(steady=None, settled_after=None, bias=None, cannot_say=CannotSay.NO_STEP_TIMES)
    with np.errstate(divide="ignore"):
        return judge_steadiness(1 / rates)


def log_suspicions(problems: Iterable[Problem]) -> Iterator[Suspicion]:
    """Yield the doubts among the problems of a log: about the measured window, or about its work."""
    for problem in problems:
        if problem.severity is Severity.DOUBT:
            about = About.WINDOW if problem.code in _OF_THE_WINDOW else About.WORK
            yield Suspicion(code=problem.code, sentence=problem.message, about=about)
