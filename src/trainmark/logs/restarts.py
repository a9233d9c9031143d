"""Restarts from a checkpoint within one log: the counter goes back and repeats earlier steps."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainmark.logs.model import Column, Floats, Problem, Records, Restart, differences

RESTARTED = "restarted"
_MOST = 64
"""Most restarts of one log; a counter that decreases more often counts something else."""
_AROUND = 3
"""Records on either side of a decrease that must follow each other at the usual interval."""
_FASTER = 10.0
"""A counter so many times as high as its elapsed time explains includes work of before."""
_BLOCK = 1 << 15


@dataclass(frozen=True, slots=True)
class _Places:
    """The counters of the records, read in blocks on demand."""

    count: int
    epoch: Column | None
    step: Column | None

    def blocks(self, stop: int) -> Iterator[tuple[Floats, Floats]]:
        """Yield epochs and steps of the records before ``stop``; 0 for a counter that the log lacks."""
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
        """Return the first record after ``start`` with another epoch; the number of records if there is none."""
        here = self.of(start, start + 1)[0][0]
        for first in range(start, self.count, _BLOCK):
            changed = np.flatnonzero(self.of(first, first + _BLOCK)[0] != here)
            if len(changed):
                return first + int(changed[0])
        return self.count


def find_restarts(records: Records, interval: int) -> tuple[Restart, ...] | None:
    """Return the records at which the counters go back to an earlier value and continue regularly from it.

    ``interval`` is the usual number of steps between records. ``None`` if any decrease of the counters has another
    cause, such as lines out of order.
    """
    places = _Places(records.count, records.epoch, records.step)
    falls = _falls(places)
    if falls is None:
        return None
    found = []
    for at in falls:
        epochs, steps = places.of(max(at - _AROUND, 0), at + _AROUND)
        here = min(at, _AROUND)
        spacing = [
            _spacing(epochs[:here][::-1], -steps[:here][::-1], interval),
            _spacing(-epochs[here:], steps[here:], interval),
        ]
        epoch, step = float(epochs[here]), float(steps[here])
        if None in spacing or not _passed(places, at, epoch, step, max(filter(None, spacing))):
            return None
        before = float(epochs[here - 1]), float(steps[here - 1])
        fresh = records.epoch is not None and step <= interval
        until = min([places.turns(at), *(other for other in falls if other > at)])
        found.append(Restart(at, before, (epoch, step), until, fresh))
    return tuple(found)


def find_resumed_runs(records: Records, starts: list[int]) -> tuple[Restart, ...]:
    """Return the ``starts`` of the counter as restarts if each part continues a run; empty if one may be another run.

    A part continues a run if its time begins anew and its counter does not: the counter over the elapsed time is then
    far above the rate before. Such a log is an excerpt that lacks the checkpoint's own step.
    """
    step, clock = records.step, records.clock_s
    if step is None or clock is None or records.epoch is not None:
        return ()
    found = []
    for number, at in enumerate(starts):
        begin = starts[number - 1] if number else 0
        (first, before), (first_s, before_s) = (
            (float(column.array(begin, begin + 1)[0]), float(column.array(at - 1, at)[0]))
            for column in (step, clock)
        )
        after, after_s = float(step.array(at, at + 1)[0]), float(clock.array(at, at + 1)[0])
        if not (before > first and before_s > first_s and 0 < after_s < before_s):
            return ()
        if after / after_s < _FASTER * (before - first) / (before_s - first_s):
            return ()
        until = starts[number + 1] if number + 1 < len(starts) else records.count
        found.append(Restart(at, (0.0, before), (0.0, after), until, fresh=False))
    return tuple(found)


def restart_problem(records: Records, restarts: tuple[Restart, ...], counted: str = "step") -> Problem:
    """Return the problem of a log with ``restarts``; ``counted`` is the unit of its counter."""
    first, more = restarts[0], len(restarts) - 1
    times = f" (and {more} more time{'s' if more > 1 else ''})" if more else ""
    before, after = (_words(records, counted, *place) for place in (first.before, first.after))
    return Problem(
        RESTARTED,
        f"the counter goes back from {before} to {after} at record {first.record + 1}{times}: the run was restarted "
        "from a checkpoint there; repeated steps count twice, and the time between the two parts does not count",
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


def _spacing(epoch: Floats, step: Floats, interval: int) -> float | None:
    """Return the number of steps between the records on one side of a decrease; ``None`` if they are irregular.

    Regular means at most ``interval`` apart, or as far apart as the next ones; a single record at an end of the log is
    regular. The caller orders each side so that steps rise and epochs fall with the distance from the decrease.
    """
    if len(epoch) < 2:
        return interval
    if epoch[0] != epoch[1]:
        return interval if epoch[0] - epoch[1] == 1 else None
    rises = differences(step)
    alike = len(rises) > 1 and rises[0] == rises[1]
    return max(float(rises[0]), interval) if 0 <= rises[0] <= interval or (rises[0] > 0 and alike) else None


def _passed(places: _Places, at: int, epoch: float, step: float, interval: float) -> bool:
    """Return whether an earlier record has a counter within less than an interval of this one."""
    return any(
        bool(((epochs == epoch) & (np.abs(steps - step) < interval)).any())
        for epochs, steps in places.blocks(at)
    )


def _words(records: Records, counted: str, epoch: float, step: float) -> str:
    parts = [f"epoch {epoch:.0f}"] if records.epoch is not None else []
    return ", ".join([*parts, *([f"{counted} {step:.0f}"] if records.step is not None else [])])
