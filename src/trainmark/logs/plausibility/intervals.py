"""The stretch of a run between two records: its steps, its seconds by its own rate, its seconds by the clock."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.columns import Column, Floats
from trainmark.logs.model import Meaning, ParsedLog, Records, Scope

_BLOCK = 1 << 15
STRETCH = 4
"""So many equal rises of a counter are how a program prints its lines."""
_MOST_DECIMALS = 7
_FEW = 64
_FIELDS = ("epoch", "step", "rate", "step_time_s", "samples", "clock_s", "average_rate", "average_time_s")


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of one block, each ending at a record; ``first`` is the position of the first of these records.

    ``steps`` is how far the counter rose (at least 1), of one that starts anew what it has counted since, at most a
    record's usual number; ``work`` the samples of the record where it says them, else its
    steps; ``own`` the time by the record's rate or step time, in seconds
    where ``absolute``, else in an unknown unit, and known to ``slack``: of averages with few digits the difference is
    coarse. ``clock_s`` is the seconds between the stamps. What a record does not say, and what lies between two epochs,
    is NaN; an average since the epoch's start says of its first record what the steps up to it took. So is what lies
    before a restart, and by averages what follows it within its epoch, and what is of another batch than the usual one.
    """

    first: int
    steps: Floats
    work: Floats
    own: Floats
    slack: Floats
    clock_s: Floats
    absolute: bool

    @property
    def records(self) -> NDArray[np.int64]:
        """The records at which the intervals end, counted from 1."""
        return np.arange(self.first + 1, self.first + 1 + len(self.steps))


def intervals(log: ParsedLog) -> Iterator[Intervals]:
    """Yield the intervals after the warm-up, from the first record on that has one before it, in blocks."""
    start = max(-(-log.warmup_steps // log.step_interval), 1)
    if start >= log.records.count:
        start = 1
    from_zero = counts_from_zero(log.records)
    for first in range(start, log.records.count, _BLOCK):
        columns = _columns(log.records, first - 1, min(first + _BLOCK, log.records.count))
        block = _of_block(log, first, columns, from_zero)
        _leave_out_restarts(log, block)
        _leave_out_other_batches(log, block)
        yield block


def _leave_out_restarts(log: ParsedLog, block: Intervals) -> None:
    """Leave out what averages say after a run went on in the midst of an epoch: of how many steps, is not known."""
    averaged = log.records.average_time_s is not None or log.records.average_rate is not None
    averaged = averaged or log.meaning is Meaning.RUNNING
    for one in log.restarts:
        if averaged and not one.fresh:
            block.own[max(one.record - block.first, 0) : max(one.until - block.first, 0)] = np.nan


def _leave_out_other_batches(log: ParsedLog, block: Intervals) -> None:
    """Leave out the intervals of other batches than the usual one: their steps take another time, and rightly."""
    if log.usual_batch is not None:
        other = ~np.isclose(block.work, block.steps * log.usual_batch, rtol=1e-9)
        block.own[other] = block.clock_s[other] = np.nan


def counts_from_zero(records: Records) -> bool:
    """Tell whether a record at step n is of n + 1 steps since its counter began."""
    return records.step is not None and any((block == 0).any() for block in records.step.blocks())


def counted_anew(step: Floats, from_zero: bool, usual: int) -> Floats:
    """Return the steps of records before which the counter began anew; ``usual`` at most, and where none is said."""
    return np.where(np.isfinite(step), np.clip(step + from_zero, 1, usual), usual)


def steps_covered(steps: Column, start: int, stop: int, usual: int, *, from_zero: bool) -> Floats:
    """Return how many of the counted ``steps`` the records ``start`` … ``stop`` are of each.

    They are those since the record before, and where the counter starts anew, those counted since; ``usual`` at most,
    as where lines are missing, unless the lines come further apart for a while.
    """
    first = max(start - STRETCH, 0)
    step = steps.array(first, stop + STRETCH)
    rises = np.diff(step, prepend=-np.inf if first == 0 else np.nan)
    covered = np.where(further_apart(rises, usual), rises, np.minimum(rises, usual))
    here = slice(start - first, stop - first)
    anew = counted_anew(step[here], from_zero, usual)
    known = (rises[here] > 0) & np.isfinite(rises[here])
    return np.where(known, covered[here], anew)


def further_apart(rises: Floats, usual: int) -> NDArray[np.bool_]:
    """Tell which of neighbouring rises of a counter are larger than ``usual`` and come again and again.

    So a program prints its lines further apart; where lines are missing, no four gaps are alike.
    """
    large = rises > usual
    if not large.any():
        return large
    starts = np.flatnonzero(np.diff(rises, prepend=np.nan) != 0)
    lengths = np.diff(np.append(starts, len(rises)))
    found: NDArray[np.bool_] = large & np.repeat(lengths >= STRETCH, lengths)
    return found


def _columns(records: Records, start: int, stop: int) -> dict[str, Floats]:
    size = stop - start
    columns = {name: getattr(records, name) for name in _FIELDS}
    return {
        name: np.full(size, np.nan) if column is None else column.array(start, stop)
        for name, column in columns.items()
    }


def _of_block(log: ParsedLog, first: int, columns: dict[str, Floats], from_zero: bool) -> Intervals:
    step, epoch, clock = columns["step"], columns["epoch"], columns["clock_s"]
    together = np.ones(len(step) - 1, np.bool_) if log.records.epoch is None else np.diff(epoch) == 0
    together[[one.record - first for one in log.restarts if 0 <= one.record - first < len(together)]] = False
    steps = (
        np.diff(step) if log.records.step is not None else np.full(len(step) - 1, float(log.step_interval))
    )
    usual = log.step_interval
    anew = usual if log.counts_samples else counted_anew(step[1:], from_zero, usual)
    steps = np.where(together & (steps > 0), steps, anew)
    rates = np.where(columns["rate"] > 0, columns["rate"], np.nan) * _devices(log)
    absolute = True
    done = step - log.averages_from
    batch = 1 if log.counts_samples else log.global_batch
    slack = np.zeros(len(steps))
    if log.records.average_time_s is not None and not log.counts_samples:
        passed = done * columns["average_time_s"]
        own = _since(passed, np.diff(step), together, begun=done <= usual)
        slack = _rounding(columns["average_time_s"], passed)
    elif log.records.average_rate is not None or (
        log.records.rate is not None and log.meaning is Meaning.RUNNING
    ):
        absolute = batch is not None
        average = columns["average_rate"] * _devices(log) if log.records.average_rate is not None else rates
        passed = done / average * (batch or 1)
        # A program that prints nothing but a running rate may begin it anew after the epoch's first steps.
        begun = (done <= usual) & (log.records.average_rate is not None)
        own = _since(passed, np.diff(step), together, begun=begun)
        printed = columns["rate" if log.records.average_rate is None else "average_rate"]
        slack = _rounding(printed, passed)
    elif log.records.step_time_s is not None:
        own = columns["step_time_s"][1:] * steps
    elif log.records.samples is not None:
        own = columns["samples"][1:] * _devices(log) / rates[1:]
    else:
        absolute = batch is not None
        own = steps * (batch or 1) / rates[1:]
    samples = columns["samples"][1:]
    work = np.where(samples > 0, samples, np.nan) if log.records.samples is not None else steps
    return Intervals(first, steps, work, own, slack, np.where(together, np.diff(clock), np.nan), absolute)


def _since(passed: Floats, risen: Floats, together: NDArray[np.bool_], *, begun: NDArray[np.bool_]) -> Floats:
    """Return the time of the steps since the record before, or since the epoch's start where it has ``begun`` there.

    A bar that is drawn again after its last step, with what validation took, tells of no step.
    """
    between = np.where(risen != 0, np.diff(passed), np.nan)
    since: Floats = np.where(together, between, np.where(begun, passed, np.nan)[1:])
    return since


def _rounding(averages: Floats, passed: Floats) -> Floats:
    """Return how far off the difference of neighbouring ``passed`` times can be, since averages are printed rounded."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # A program may print the rate or the time of a step; the other one is made of it.
        off = np.abs(passed) * np.minimum(last_digit(averages), last_digit(1 / averages))
    off = np.where(np.isfinite(off), off, 0.0)
    total: Floats = off[1:] + off[:-1]
    return total


def last_digit(printed: Floats) -> Floats:
    """Return half the last printed digit as a share of each value; infinite where the values have no last digit."""
    known = printed[np.isfinite(printed)]
    for decimals in range(_MOST_DECIMALS):
        # Most values that have more digits show it in the first few.
        if all((np.abs(part - part.round(decimals)) <= 1e-9).all() for part in (known[:_FEW], known)):
            share: Floats = 0.5 * 10.0**-decimals / np.abs(printed)
            return share
    return np.full(len(printed), np.inf)


def _devices(log: ParsedLog) -> float:
    """Return by what a printed rate is multiplied to be that of all devices, as far as it is known."""
    factor = {Scope.DEVICE: log.facts.gpus, Scope.NODE: log.facts.nodes}.get(log.scope, 1)
    return float(factor or 1)
