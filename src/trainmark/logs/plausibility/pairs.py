"""Comparison of the two figures of one line: its rate times its step time is the batch, the same in all lines."""

from collections.abc import Iterator

import numpy as np

from trainmark.logs.columns import Floats, median
from trainmark.logs.model import Meaning, ParsedLog, Problem
from trainmark.logs.plausibility.intervals import last_digit
from trainmark.logs.plausibility.step_timing import MATTERS

_BLOCK = 1 << 15
_OFF = 0.02
"""Largest deviation of a line's batch from that of the others, besides what the printed digits leave open."""
_MOST_ODD = 0.1
"""Share of odd lines from which the batch is taken to vary, as with padding."""


def contradictory_records(log: ParsedLog) -> Iterator[Problem]:
    """Yield a doubt about single records whose rate and step time give another batch than the other records'."""
    rates, times = log.records.rate, log.records.step_time_s
    if rates is None or times is None or log.meaning is Meaning.RUNNING:
        return
    usual = float("nan")
    odd: list[tuple[int, float]] = []
    effect_s = window_s = 0.0
    for start in range(0, log.records.count, _BLOCK):
        rate, seconds = (_positive(column.array(start, start + _BLOCK)) for column in (rates, times))
        batch = rate * seconds
        known = np.isfinite(batch)
        if not known.any():
            continue
        usual = median(batch[known]) if np.isnan(usual) else usual
        # The usual batch is as coarse as the record's.
        slack = _OFF + 2 * (last_digit(rate) + last_digit(seconds))
        places = np.flatnonzero(known & (np.abs(batch / usual - 1) > slack))
        odd += [(start + int(at) + 1, float(batch[at])) for at in places[: _BLOCK // 8]]
        effect_s += float(np.abs(usual / rate[places] - seconds[places]).sum())
        window_s += float(seconds[known].sum())
    if not odd or len(odd) > _MOST_ODD * log.records.count or effect_s <= MATTERS * window_s:
        return
    worst = max(odd, key=lambda one: abs(np.log(one[1] / usual)))
    more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
    sentence = (
        f"record {worst[0]}{more} has a rate and a step time that make a batch of {worst[1]:.4g}, the others one of "
        f"{usual:.4g}: one of its two figures is wrong"
    )
    yield Problem("record-contradicts-time", sentence, last_record=odd[-1][0])


def _positive(values: Floats) -> Floats:
    return np.where(values > 0, values, np.nan)
