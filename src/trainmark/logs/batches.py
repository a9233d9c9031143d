"""A global batch that changes while a run trains: where, and what the lines hold between which it does."""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from trainmark.logs.columns import Column, Floats, in_step
from trainmark.logs.model import Problem, Records

BATCH_CHANGES = "batch-changes"
_MOST_KINDS = 4096


@dataclass(slots=True)
class Batches:
    """The batches that lines say, of one step over all devices.

    ``first`` is the first change (iteration, from, to), ``last`` the last one, ``pure`` how many records stand before
    those of the last batch alone, ``unknown`` how many have steps of two batches and do not say how many of each.
    """

    changes: int = 0
    first: tuple[float, float, float] = (0.0, 0.0, 0.0)
    last: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pure: int = 0
    unknown: int = 0
    kinds: Counter[float] = field(default_factory=Counter)

    @property
    def only(self) -> int | None:
        """The batch of all lines; ``None`` where they have several."""
        return int(next(iter(self.kinds))) if len(self.kinds) == 1 else None

    @property
    def usual(self) -> float | None:
        """The batch that most lines have, where they have several."""
        return self.kinds.most_common(1)[0][0] if self.changes else None

    def problem(self) -> Problem | None:
        """Return the problem that the batch changes, if it does."""
        if not self.changes:
            return None
        (step, before, after), (last_step, _, last) = self.first, self.last
        more = ""
        if self.changes > 1:
            times = "once" if self.changes == 2 else f"{self.changes - 1} times"
            more = f", and {times} more, to {last:.0f} by iteration {last_step:.0f}"
        left_out = ", and the records at which it changes are left out" if self.unknown else ""
        return Problem(
            BATCH_CHANGES,
            f"the global batch size changes from {before:.0f} to {after:.0f} by iteration {step:.0f}{more}: the number "
            f"is the samples over the time of all batches together{left_out}; --skip {self.pure} reads the last of "
            "them alone",
        )


def told_batches(
    records: Records, consumed: Column | None, interval: int, *, averaged: bool
) -> tuple[Records, Batches]:
    """Return the records with what lines of two batches hold, and the batches that the lines say.

    A line says the batch of its last step (``records.samples``); where its time is ``averaged`` over the ``interval``
    of steps since the line before and that had another batch, its samples are by what was ``consumed`` since then, and
    not known without it.
    """
    found = Batches()
    assert records.samples is not None
    assert records.step is not None
    assert records.rate is not None
    samples, rates = Column(), Column()
    before: Floats | None = None
    position = 0
    columns = [records.samples, records.step, records.rate, *([consumed] if consumed is not None else [])]
    for block in in_step(columns):
        rows = np.stack(block)
        held, rate = (
            _held(rows, before, interval, counted=consumed is not None) if averaged else rows[0],
            rows[2],
        )
        _meet(found, rows, held, before, position)
        samples.append(held)
        rates.append(rate * held / rows[0])
        before, position = rows[:, -1], position + rows.shape[1]
    if not found.changes:
        return records, found
    return replace(records, samples=samples, rate=rates), found


def _held(rows: Floats, before: Floats | None, interval: int, *, counted: bool) -> Floats:
    """Return the mean batch of each record's steps; NaN where it is not known."""
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
    held: Floats = np.where(mixed, mean, batch)
    return held


def _meet(found: Batches, rows: Floats, held: Floats, before: Floats | None, position: int) -> None:
    batch, step = rows[0], rows[1]
    if len(found.kinds) < _MOST_KINDS:
        kinds, counts = np.unique(batch[np.isfinite(batch)], return_counts=True)
        found.kinds.update(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
    found.unknown += int(np.isnan(held).sum())
    last = batch[0] if before is None else before[0]
    for at in np.flatnonzero(np.nan_to_num(np.diff(batch, prepend=last))).tolist():
        change = float(step[at]), float(batch[at - 1] if at else last), float(batch[at])
        found.first = found.first if found.changes else change
        found.last, found.changes = change, found.changes + 1
        found.pure = position + at + (0 if held[at] == batch[at] else 1)
