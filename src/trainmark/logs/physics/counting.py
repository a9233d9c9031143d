"""What the counters count: records that are missing, and records that stand there twice."""

from collections.abc import Iterator

import numpy as np

from trainmark.logs.model import ParsedLog, Problem

_BLOCK = 1 << 15
_REGULAR = 0.8
"""Counters rise by the same number in so many cases, or nothing can be said to be missing."""
_FIELDS = ("epoch", "step", "rate", "step_time_s", "samples", "clock_s")


def lost_and_doubled(log: ParsedLog) -> Iterator[Problem]:
    """Yield problems where records are missing between others, or are printed twice."""
    records, interval = log.records, log.step_interval
    lost = doubled = rises = regular = places = 0
    for start in range(0, records.count - 1, _BLOCK):
        stop = min(start + _BLOCK + 1, records.count)
        rows = [
            column.array(start, stop) for name in _FIELDS if (column := getattr(records, name)) is not None
        ]
        # A lone counter says nothing of being the same line: something measured has to be the same too.
        if len(rows) > 2:
            doubled += int(np.logical_and.reduce([np.diff(row) == 0 for row in rows]).sum())
        if records.step is None:
            continue
        rise = np.diff(records.step.array(start, stop))
        if records.epoch is not None:
            rise = rise[np.diff(records.epoch.array(start, stop)) == 0]
        rise = rise[rise > 0]
        rises, regular = rises + len(rise), regular + int((rise == interval).sum())
        gaps = rise[rise > interval]
        places, lost = places + len(gaps), lost + int((np.ceil(gaps / interval) - 1).sum())
    # The first record of a run may stand at step 1 where the others stand at 10, 20, …: one odd rise is no sign.
    if lost and regular >= _REGULAR * rises:
        where = f"{lost} records are missing at {places} places, by the counter of steps"
        yield Problem(
            "records-missing", f"{where}: the file was cut, and what they took is not in the number"
        )
    if doubled:
        sentence = f"{doubled} records stand there twice, to the last digit: they count twice in the number"
        yield Problem("records-doubled", sentence)
