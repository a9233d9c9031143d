"""Checks of the step counters: missing records and duplicated records."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from trainmark.logs.columns import Floats, differences
from trainmark.logs.model import Meaning, ParsedLog, Problem
from trainmark.logs.plausibility.intervals import wider_intervals

_BLOCK = 1 << 15
_REGULAR = 0.8
"""Smallest share of equal counter increments; below it, no record can be called missing."""
_UNEVEN = 0.02
"""Epochs whose lengths differ by a smaller share are complete."""
_FIELDS = ("epoch", "step", "rate", "step_time_s", "samples", "clock_s")


@dataclass(slots=True)
class _Increments:
    """Increments of the step counter: the number of all and of regular ones, missing records, and epoch limits.

    ``until`` is the number of the record before the last missing ones; None if an epoch lacks its start or end.
    """

    interval: int
    rises: int = 0
    regular: int = 0
    lost: float = 0.0
    places: int = 0
    until: int | None = 0
    first: float = np.nan
    last: float = np.nan

    def add(self, step: Floats, start: int, restarted: Collection[int] = ()) -> None:
        """Add the steps of consecutive records from index ``start``; a decrease is the start of an epoch.

        At the ``restarted`` records the counter went back to a checkpoint, so nothing is missing before them.
        """
        if np.isnan(self.first):
            self.first = float(step[0])
        rise = differences(step)
        rise[[at - 1 for at in restarted]] = 0
        up = rise[rise > 0]
        self.rises, self.regular = self.rises + len(up), self.regular + int((up == self.interval).sum())
        large = (up > self.interval) & ~wider_intervals(up, self.interval)
        if large.any():
            gaps = up[large]
            until = start + int(np.flatnonzero(rise > 0)[large][-1]) + 1
            self.lose(float((np.ceil(gaps / self.interval) - 1).sum()), len(gaps), until)
        for at in np.flatnonzero(rise < 0).tolist():
            self.turn(float(step[at]), float(step[at + 1]))

    def turn(self, last: float, first: float) -> None:
        """Add the last step of an epoch and the first of the next; a difference to other epochs is missing records."""
        if np.isnan(self.last):
            self.last = last  # it is unknown whether the first epoch ended early
        self._compare(self.last, last)
        self._compare(self.first, first)
        self.first, self.last = min(self.first, first), max(self.last, last)

    def finish(self, last: float) -> None:
        """Add the last step of the log: an earlier epoch that ended before it lacks records."""
        if last > self.last:
            self._compare(self.last, last)

    def _compare(self, before: float, now: float) -> None:
        # Epochs of sequences have slightly different numbers of steps.
        if abs(now - before) >= max(self.interval, _UNEVEN * before):
            self.lose(abs(now - before) // self.interval, 1)

    def lose(self, records: float, places: int, until: int | None = None) -> None:
        """Count missing records; ``until`` is the number of the record before the last of them, if it is known."""
        self.lost, self.places = self.lost + records, self.places + places
        self.until = None if self.until is None or until is None else max(self.until, until)


def _begins_late(log: ParsedLog, first: float) -> bool:
    """Return whether a first epoch lacks its first records (a resumed run begins with a later epoch).

    Programs that print single steps may hide their warm-up; a log whose start is missing has that problem already.
    """
    if any("start of the log" in problem.message for problem in log.problems):
        return False
    if log.records.epoch is None or log.meaning is Meaning.SAMPLED:
        return False
    return float(log.records.epoch.array(0, 1)[0]) <= 1 and first > 2 * log.step_interval


def _doubled(rows: list[Floats]) -> int:
    """Return how many consecutive records are equal in all of ``rows``, of which the last differs most often."""
    same = np.ones(len(rows[0]) - 1, np.bool_)
    for row in reversed(rows):
        same &= differences(row) == 0
        if not same.any():
            break
    return int(np.count_nonzero(same))


def missing_and_duplicate_records(log: ParsedLog) -> Iterator[Problem]:
    """Yield problems for records that are missing between others or printed twice."""
    records = log.records
    counts, doubled = _Increments(log.step_interval), 0
    for start in range(0, records.count - 1, _BLOCK):
        stop = min(start + _BLOCK + 1, records.count)
        rows = [
            column.array(start, stop) for name in _FIELDS if (column := getattr(records, name)) is not None
        ]
        # Equal counters do not make equal lines: a measured value must be equal too.
        if len(rows) > 2:
            doubled += _doubled(rows)
        if records.step is not None:
            steps = records.step.array(start, stop)
            if start == 0 and _begins_late(log, float(steps[0])):
                counts.lose(steps[0] // log.step_interval - 1, 1)
            counts.add(
                steps, start, [one.record - start for one in log.restarts if start < one.record < stop]
            )
            if stop == records.count:
                counts.finish(float(steps[-1]))
    if counts.lost and counts.regular >= _REGULAR * counts.rises:
        where = f"the step counter shows {counts.lost:.0f} missing records at {counts.places} place"
        where += "s" if counts.places > 1 else ""
        # The clock's window opens at the last record that is left out.
        until = counts.until + 1 if counts.until is not None and log.uses_clock else counts.until
        yield Problem("records-missing", f"{where}: their time is not in the number", last_record=until)
    if doubled:
        sentence = f"{doubled} records are identical to the record before them and count twice in the number"
        yield Problem("records-doubled", sentence)
