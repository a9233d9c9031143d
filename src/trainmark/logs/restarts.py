"""Where a run went on from a checkpoint into the same file: its counter goes back, and passes the same again."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainmark.logs.columns import Column, Floats
from trainmark.logs.model import Problem, Records, Restart

RESTARTED = "restarted"
_MOST = 64
"""Restarts that are looked at; a counter that falls more often is of something else."""
_AROUND = 3
"""Records on either side of a fall that have to follow each other as they do elsewhere."""
_BLOCK = 1 << 15


@dataclass(frozen=True, slots=True)
class _Places:
    """The counters of the records, read where they are needed."""

    count: int
    epoch: Column | None
    step: Column | None

    def blocks(self, stop: int) -> Iterator[tuple[Floats, Floats]]:
        """Yield epochs and steps of the records before ``stop``; what is not counted is 0."""
        for first in range(0, stop, _BLOCK):
            yield self.of(first, min(first + _BLOCK, stop))

    def of(self, start: int, stop: int) -> tuple[Floats, Floats]:
        """Return epochs and steps of the records ``start`` … ``stop``."""
        size = min(stop, self.count) - start
        epoch, step = (
            np.zeros(size) if column is None else np.nan_to_num(column.array(start, start + size))
            for column in (self.epoch, self.step)
        )
        return epoch, step

    def turns(self, start: int) -> int:
        """Return at which record after ``start`` the epoch changes; the number of records where it does not."""
        here = self.of(start, start + 1)[0][0]
        for first in range(start, self.count, _BLOCK):
            changed = np.flatnonzero(self.of(first, first + _BLOCK)[0] != here)
            if len(changed):
                return first + int(changed[0])
        return self.count


def restarts_of(records: Records, interval: int) -> tuple[Restart, ...] | None:
    """Return where the counters of ``records`` go back to a place that they had passed, and go on regularly from it.

    ``interval`` is the usual number of steps from one record to the next. ``None`` where some fall of the counters is
    nothing of the kind, as of lines in another order.
    """
    places = _Places(records.count, records.epoch, records.step)
    falls = _falls(places)
    if falls is None:
        return None
    found = []
    for at in falls:
        epochs, steps = places.of(max(at - _AROUND, 0), at + _AROUND)
        here = min(at, _AROUND)
        apart = [
            _apart(epochs[:here][::-1], -steps[:here][::-1], interval),
            _apart(-epochs[here:], steps[here:], interval),
        ]
        epoch, step = float(epochs[here]), float(steps[here])
        if None in apart or not _passed(places, at, epoch, step, max(filter(None, apart))):
            return None
        before = float(epochs[here - 1]), float(steps[here - 1])
        fresh = records.epoch is not None and step <= interval
        until = min([places.turns(at), *(other for other in falls if other > at)])
        found.append(Restart(at, before, (epoch, step), until, fresh))
    return tuple(found)


def about_restarts(records: Records, restarts: tuple[Restart, ...], counted: str = "step") -> Problem:
    """Return the problem that a log has ``restarts``: what it holds is not one run from its beginning to its end.

    What its counter counts is called ``counted``.
    """
    first, more = restarts[0], len(restarts) - 1
    times = f" (and {more} more time{'s' if more > 1 else ''})" if more else ""
    before, after = (_words(records, counted, *place) for place in (first.before, first.after))
    return Problem(
        RESTARTED,
        f"the counter goes back from {before} to {after} at record {first.record + 1}{times}: the run was started "
        "again there, from a checkpoint; steps that were done twice count twice, and what lies between its two parts "
        "does not count",
    )


def _falls(places: _Places) -> list[int] | None:
    found: list[int] = []
    last = (-np.inf, -np.inf)
    position = 0
    for epoch, step in places.blocks(places.count):
        before_epoch, before = np.concatenate(([last[0]], epoch[:-1])), np.concatenate(([last[1]], step[:-1]))
        fell = (epoch < before_epoch) | ((epoch == before_epoch) & (step < before))
        found += (position + np.flatnonzero(fell)).tolist()
        if len(found) > _MOST:
            return None
        last, position = (float(epoch[-1]), float(step[-1])), position + len(epoch)
    return found


def _apart(epoch: Floats, step: Floats, interval: int) -> float | None:
    """Return how many steps the records beside a fall are apart, away from it; ``None`` where they are not regular.

    They are, up to the usual ``interval``, or as far as the next ones there; one alone, at an end of the log, is. The
    steps rise and the epochs fall away from the place, on whichever side of it.
    """
    if len(epoch) < 2:
        return interval
    if epoch[0] != epoch[1]:
        return interval if epoch[0] - epoch[1] == 1 else None
    rises = np.diff(step)
    alike = len(rises) > 1 and rises[0] == rises[1]
    return max(float(rises[0]), interval) if 0 <= rises[0] <= interval or (rises[0] > 0 and alike) else None


def _passed(places: _Places, at: int, epoch: float, step: float, interval: float) -> bool:
    """Say whether the counter was within less than an interval of this place before."""
    return any(
        bool(((epochs == epoch) & (np.abs(steps - step) < interval)).any())
        for epochs, steps in places.blocks(at)
    )


def _words(records: Records, counted: str, epoch: float, step: float) -> str:
    said = [f"epoch {epoch:.0f}"] if records.epoch is not None else []
    return ", ".join([*said, *([f"{counted} {step:.0f}"] if records.step is not None else [])])
