"""The steps that a printed rate averages over, where versions of a program differ in it: decided by the time stamps."""

from dataclasses import replace

import numpy as np

from trainmark.logs.model import Meaning, ParsedLog
from trainmark.logs.plausibility.intervals import intervals

_CLEARLY = 0.5
"""The rates are of intervals if that leaves at most this share of the deviation from the time stamps."""


def with_settled_meaning(log: ParsedLog) -> ParsedLog:
    """Return a log whose rates are of the epoch or of intervals with the one of the two that fits its time stamps.

    Without a clear difference they are of the epoch: at an even pace both say the same.
    """
    if log.meaning is not Meaning.RUNNING_OR_INTERVAL:
        return log
    running, of_interval = (replace(log, meaning=one) for one in (Meaning.RUNNING, Meaning.INTERVAL))
    if log.records.rate is None or log.records.clock_s is None:
        return running
    return of_interval if _deviation_s(of_interval) < _CLEARLY * _deviation_s(running) else running


def _deviation_s(log: ParsedLog) -> float:
    """Return by how many seconds durations by the rates deviate from the clock's, apart from a common factor.

    The first block of records is enough.
    """
    block = next(intervals(log), None)
    if block is None:
        return 0.0
    known = np.isfinite(block.own) & np.isfinite(block.clock_s)
    own, clock = block.own[known], block.clock_s[known]
    total = own.sum()
    return float(np.abs(own * (clock.sum() / total) - clock).sum()) if total > 0 else np.inf
