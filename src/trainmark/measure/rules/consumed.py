"""Units that a counter in the log shows: consumed samples or tokens, over the time that the records report."""

from typing import NamedTuple

import numpy as np

from trainmark.logs.columns import Floats, differences, median
from trainmark.logs.model import ParsedLog
from trainmark.logs.plausibility.intervals import Intervals, intervals

COUNTER = "consumed counter"
"""Name of the witness."""
_MOST_ROUNDING = 0.02
"""Largest uncertainty of the units by the counter's last digit: ``5.24M`` is known to 10 000."""
_NEAR_END = 8
_MOST_DIGITS = 12


class Consumed(NamedTuple):
    """The rise of the counter over the seconds of the same steps, by the records or else by the clock."""

    units: float
    seconds: float


def count_consumed(log: ParsedLog, skipped: int) -> Consumed | None:
    """Return the rise of the counter after the first ``skipped`` records.

    None without a counter, without the time of its steps, and if its digits are too few.
    """
    consumed = log.records.consumed
    if consumed is None or log.records.step is None or log.counts_samples:
        return None
    units = seconds = rounding = 0.0
    for block in intervals(log):
        counts = np.round(consumed.array(block.first - 1, block.first + len(block.own)))
        rises, took = differences(counts), _seconds(log, block)
        if took is None:
            return None
        # Time and samples of missing lines are unknown, and a counter may be reset.
        good = (rises > 0) & (took > 0) & np.isfinite(rises) & np.isfinite(took)
        good &= (block.steps <= log.step_interval) & (block.records > skipped)
        parts = int(np.count_nonzero(np.diff(good.astype(np.int8), prepend=0) > 0))
        units += float(rises[good].sum())
        seconds += float(took[good].sum())
        rounding += parts * max(_last_digit(counts[:_NEAR_END]), _last_digit(counts[-_NEAR_END:]))
    return Consumed(units, seconds) if units > 0 and rounding <= _MOST_ROUNDING * units else None


def _seconds(log: ParsedLog, block: Intervals) -> Floats | None:
    """Return the seconds of each interval by its record; by the clock if these have no absolute time."""
    if block.absolute:
        return block.own
    clock = block.clock_s[np.isfinite(block.clock_s)]
    is_fine = len(clock) and log.clock_resolution_s <= _MOST_ROUNDING * median(clock)
    return block.clock_s if is_fine else None


def _last_digit(counts: Floats) -> float:
    """Return the unit of the last digit that is not 0 in any of ``counts``."""
    known = counts[np.isfinite(counts) & (counts > 0)]
    for digits in range(_MOST_DIGITS):
        if len(known) and (known % 10.0 ** (digits + 1) != 0).any():
            return float(10.0**digits)
    return 0.0
