"""Changes of the global batch during a run, and the samples of the records at which it changes."""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from trainmark.logs.model import Column, Floats, Problem, Records, in_step

BATCH_CHANGES = "batch-changes"
_MOST_KINDS = 4096
_FEWEST_COUNTED = 4


@dataclass(slots=True)
class Batches:
    """The global batches (samples of one step over all devices) that the lines print.

    ``first`` is the first change (iteration, from, to), ``last`` the last one; ``before_last`` is the number of records
    to skip for the last batch only; ``unknown`` counts records with steps of two batches in unknown proportion.
    """

    changes: int = 0
    first: tuple[float, float, float] = (0.0, 0.0, 0.0)
    last: tuple[float, float, float] = (0.0, 0.0, 0.0)
    before_last: int = 0
    unknown: int = 0
    kinds: Counter[float] = field(default_factory=Counter)

    @property
    def only(self) -> int | None:
        """The batch of all lines; ``None`` if they have several."""
        return int(next(iter(self.kinds))) if len(self.kinds) == 1 else None

    @property
    def usual(self) -> float | None:
        """The most frequent batch, if the lines have several."""
        return self.kinds.most_common(1)[0][0] if self.changes else None

    def problem(self) -> Problem | None:
        """Return the problem of a changing batch, if there is one."""
        if not self.changes:
            return None
        (step, before, after), (last_step, _, last) = self.first, self.last
        more = ""
        if self.changes > 1:
            times = "once" if self.changes == 2 else f"{self.changes - 1} times"
            more = f" and {times} more, to {last:.0f} by iteration {last_step:.0f}"
        left_out = "; the records at which it changes are left out" if self.unknown else ""
        return Problem(
            BATCH_CHANGES,
            f"the global batch size changes from {before:.0f} to {after:.0f} by iteration {step:.0f}{more}: the number "
            f"covers the samples and the time of all batches{left_out}; pass --skip {self.before_last} to use only the "
            "last batch size",
            last_record=self.before_last,
        )


def apply_batches(records: Records, interval: int, *, averaged: bool) -> tuple[Records, Batches]:
    """Return the records with corrected samples and rates, and the batches that the lines print.

    A line prints the batch of its last step (``records.samples``). If its time is ``averaged`` over the ``interval``
    of steps since the previous line, which had another batch, its samples come from ``records.consumed``, and are
    unknown without them.
    """
    found = Batches()
    assert records.samples is not None
    assert records.step is not None
    assert records.rate is not None
    samples, rates, consumed = Column(), Column(), records.consumed
    before: Floats | None = None
    position = 0
    columns = [records.samples, records.step, records.rate, *([consumed] if consumed is not None else [])]
    for block in in_step(columns):
        rows = np.stack(block)
        mean, rate = (
            _mean_batch(rows, before, interval, counted=consumed is not None) if averaged else rows[0],
            rows[2],
        )
        _add_changes(found, rows, mean, before, position)
        samples.append(mean)
        rates.append(rate * mean / rows[0])
        before, position = rows[:, -1], position + rows.shape[1]
    if not found.changes:
        return records, found
    return replace(records, samples=samples, rate=rates), found


def find_batches(records: Records) -> tuple[Records, Batches]:
    """Return the records without samples, and the batches that their lines print beside time stamps alone.

    Without a rate, the samples of a record are the steps since the previous one times the only batch of all lines.
    """
    found = Batches()
    assert records.samples is not None
    for block in records.samples.blocks():
        if len(found.kinds) < _MOST_KINDS:
            kinds, counts = np.unique(block[np.isfinite(block)], return_counts=True)
            found.kinds.update(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
    return replace(records, samples=None), found


def count_batch(records: Records) -> int | None:
    """Return the samples of each step by the counter of consumed samples, if all steps have as many; else None."""
    if records.step is None or records.consumed is None or records.count < _FEWEST_COUNTED:
        return None
    batches = []
    for step, consumed in in_step([records.step, records.consumed]):
        rises = np.diff(step)
        going_on = rises > 0
        batches.append(np.diff(consumed)[going_on] / rises[going_on])
    every = np.concatenate(batches)
    if not len(every) or not (every == every[0]).all() or every[0] < 1 or every[0] % 1:
        return None
    return int(every[0])


def _mean_batch(rows: Floats, before: Floats | None, interval: int, *, counted: bool) -> Floats:
    """Return the mean batch of each record's steps; NaN if it is unknown."""
    batch: Floats = rows[0]
    ends = np.concatenate((rows[:, :1] if before is None else before[:, None], rows), axis=1)
    rises = np.diff(ends)
    mixed = (rises[0] != 0) & (rises[1] > 0)
    if not mixed.any():
        return batch
    mean = np.full(len(batch), np.nan)
    if counted:
        mean = np.where(rises[1] == interval, rises[-1] / rises[1], np.nan)
        low, high = np.minimum(ends[0, 1:], ends[0, :-1]), np.maximum(ends[0, 1:], ends[0, :-1])
        mean = np.where((mean >= low) & (mean <= high), mean, np.nan)
    means: Floats = np.where(mixed, mean, batch)
    return means


def _add_changes(found: Batches, rows: Floats, mean: Floats, before: Floats | None, position: int) -> None:
    batch, step = rows[0], rows[1]
    if len(found.kinds) < _MOST_KINDS:
        kinds, counts = np.unique(batch[np.isfinite(batch)], return_counts=True)
        found.kinds.update(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
    found.unknown += int(np.isnan(mean).sum())
    last = batch[0] if before is None else before[0]
    for at in np.flatnonzero(np.nan_to_num(np.diff(batch, prepend=last))).tolist():
        change = float(step[at]), float(batch[at - 1] if at else last), float(batch[at])
        found.first = found.first if found.changes else change
        found.last, found.changes = change, found.changes + 1
        found.before_last = position + at + (0 if mean[at] == batch[at] else 1)
