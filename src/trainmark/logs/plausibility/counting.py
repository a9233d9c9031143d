"""What the counters count: records that are missing, and records that stand there twice."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.model import Meaning, ParsedLog, Problem
from trainmark.logs.plausibility.intervals import further_apart

_BLOCK = 1 << 15
_REGULAR = 0.8
"""Counters rise by the same number in so many cases, or nothing can be said to be missing."""
_UNEVEN = 0.02
"""Epochs whose lengths differ by less are whole."""
_FIELDS = ("epoch", "step", "rate", "step_time_s", "samples", "clock_s")


@dataclass(slots=True)
class _Count:
    """Rises of the step counter, how many are the usual one, what is missing between records, and where epochs turn."""

    interval: int
    rises: int = 0
    regular: int = 0
    lost: float = 0.0
    places: int = 0
    first: float = np.nan
    last: float = np.nan

    def meet(self, step: Floats, restarted: Collection[int] = ()) -> None:
        """Take in the steps of neighbouring records; a counter that falls began anew with an epoch.

        At those that are ``restarted`` it went back to a checkpoint, before which nothing is missing.
        """
        if np.isnan(self.first):
            self.first = float(step[0])
        rise = np.diff(step)
        rise[[at - 1 for at in restarted]] = 0
        up = rise[rise > 0]
        self.rises, self.regular = self.rises + len(up), self.regular + int((up == self.interval).sum())
        gaps = up[(up > self.interval) & ~further_apart(up, self.interval)]
        self.lose(float((np.ceil(gaps / self.interval) - 1).sum()), len(gaps))
        for at in np.flatnonzero(rise < 0).tolist():
            self.turn(float(step[at]), float(step[at + 1]))

    def turn(self, last: float, first: float) -> None:
        """Take in where one epoch ended and the next one began: as the epochs before, or records are missing."""
        if np.isnan(self.last):
            self.last = last  # whether the first epoch ended early is not known
        self._compare(self.last, last)
        self._compare(self.first, first)
        self.first, self.last = min(self.first, first), max(self.last, last)

    def finish(self, last: float) -> None:
        """Take in where the log ends: an epoch before that ended earlier was cut."""
        if last > self.last:
            self._compare(self.last, last)

    def _compare(self, seen: float, now: float) -> None:
        # Epochs of sequences are not all of the same number of steps.
        if abs(now - seen) >= max(self.interval, _UNEVEN * seen):
            self.lose(abs(now - seen) // self.interval, 1)

    def lose(self, records: float, places: int) -> None:
        """Count records that are missing."""
        self.lost, self.places = self.lost + records, self.places + places


def _begins_late(log: ParsedLog, first: float) -> bool:
    """Say whether the first record of a first epoch is not of its first steps: a resumed run begins with a later epoch.

    Programs that print single steps may hide their warm-up; a log without its beginning is said to be one already.
    """
    if any("beginning" in problem.message for problem in log.problems):
        return False
    if log.records.epoch is None or log.meaning is Meaning.SAMPLED:
        return False
    return float(log.records.epoch.array(0, 1)[0]) <= 1 and first > 2 * log.step_interval


def _doubled(rows: list[Floats]) -> int:
    """Return how many of neighbouring records are the same in all of ``rows``, of which the last differs most often."""
    same = np.ones(len(rows[0]) - 1, np.bool_)
    for row in reversed(rows):
        same &= np.diff(row) == 0
        if not same.any():
            break
    return int(np.count_nonzero(same))


def lost_and_doubled(log: ParsedLog) -> Iterator[Problem]:
    """Yield problems where records are missing between others, or are printed twice."""
    records = log.records
    seen, doubled = _Count(log.step_interval), 0
    for start in range(0, records.count - 1, _BLOCK):
        stop = min(start + _BLOCK + 1, records.count)
        rows = [
            column.array(start, stop) for name in _FIELDS if (column := getattr(records, name)) is not None
        ]
        # A lone counter says nothing of being the same line: something measured has to be the same too.
        if len(rows) > 2:
            doubled += _doubled(rows)
        if records.step is not None:
            steps = records.step.array(start, stop)
            if start == 0 and _begins_late(log, float(steps[0])):
                seen.lose(steps[0] // log.step_interval - 1, 1)
            seen.meet(steps, [one.record - start for one in log.restarts if start < one.record < stop])
            if stop == records.count:
                seen.finish(float(steps[-1]))
    if seen.lost and seen.regular >= _REGULAR * seen.rises:
        where = f"{seen.lost:.0f} records are missing at {seen.places} places, by the counter of steps"
        yield Problem(
            "records-missing", f"{where}: the file was cut, and what they took is not in the number"
        )
    if doubled:
        sentence = f"{doubled} records stand there twice, to the last digit: they count twice in the number"
        yield Problem("records-doubled", sentence)
