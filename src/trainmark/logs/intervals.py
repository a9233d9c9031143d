"""Intervals between consecutive records: their steps and seconds by the record's own rate and by the clock.

Measured over them: missing and duplicate records, the worst deviations from the usual pace and from the clock
(``Pace``), and a lasting change of pace.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.model import (
    Column,
    Floats,
    Meaning,
    ParsedLog,
    Problem,
    Records,
    Scope,
    differences,
    median,
)

_BLOCK = 1 << 15
STRETCH = 4
"""Number of equal counter increments from which a larger interval counts as the program's print interval."""
_SAMPLE = 4096
_FEWEST_RISES = 8
_USUAL = 0.25
"""A program that prints every so many steps has at least this share of equal increments; lost lines change the rest."""
_MOST_DECIMALS = 7
_FEW = 64
_FIELDS = ("epoch", "step", "rate", "step_time_s", "samples", "clock_s", "average_rate", "average_time_s")
_REGULAR = 0.8
"""Smallest share of equal counter increments; below it, no record can be called missing."""
_UNEVEN = 0.02
"""Epochs whose lengths differ by a smaller share are complete."""
_PRINTED = ("epoch", "step", "rate", "step_time_s", "samples", "clock_s")
"""Columns in which a line that is printed twice has the same values."""
_DIFFERS = 0.1
"""Smallest relative difference between the paces of two parts that counts as a change."""
_SPREADS = 6.0
"""The least difference between the two parts, in units of the spread of each."""
_MAD = 1.4826
_FEWEST_CHUNKS = 3
"""Fewest chunks in each part, which also has at least a tenth of all chunks."""
_LEAST_SHARE = 0.1
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MATTERS = 0.004
"""Smallest share of the number that is reported."""
_LONGEST = 0.05
"""Share of the longest gaps between records that is then left out: evaluations and checkpoints."""
_OUTLIER = 8.0
_LEAST_OFF = 0.08
_FEWEST = 5
_COARSE = 4
"""Intervals of fewer grains of the clock are joined to find the usual pace."""
_CHUNKS = 64
"""Chunks per block of intervals, used to find a change of pace."""
_FINE = 50
"""A duration of so many grains of the clock is known well enough."""
_COMPARED = tuple(each.name for each in fields(ParsedLog) if each.name != "problems")


class Intervals(NamedTuple):
    """Intervals of one block, each ending at a record; ``first`` is the index of the first of these records.

    ``steps`` is the increment of the counter (at least 1); after a counter restart, the steps since then, at most the
    usual number per record. ``work`` is the samples of the record if it prints them, else its steps. ``own`` is the
    duration by the record's rate or step time, in seconds if ``absolute``, else in an unknown unit; ``slack`` is its
    uncertainty, as differences of averages with few digits are coarse. ``clock_s`` is the seconds between the time
    stamps. NaN marks values that a record lacks and intervals across two epochs; with averages since the epoch's start
    the first record covers all steps up to it. Intervals before a restart (with averages: the rest of its epoch),
    and intervals with another batch than the usual one, are NaN too.
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
        """Numbers of the records at which the intervals end, from 1."""
        return np.arange(self.first + 1, self.first + 1 + len(self.steps))


def first_interval(log: ParsedLog) -> int:
    """Return the first record after the warm-up that has a predecessor; the second record of a log of warm-up alone."""
    start = max(log.warmup_records, 1)
    return start if start < log.records.count else 1


def intervals(log: ParsedLog) -> Iterator[Intervals]:
    """Yield the intervals after the warm-up in blocks, beginning with the first record that has a predecessor."""
    start = first_interval(log)
    from_zero = counts_from_zero(log.records)
    for first in range(start, log.records.count, _BLOCK):
        columns = _columns(log.records, first - 1, min(first + _BLOCK, log.records.count))
        block = _of_block(log, first, columns, from_zero)
        _leave_out_restarts(log, block)
        _leave_out_other_batches(log, block)
        yield block


def _leave_out_restarts(log: ParsedLog, block: Intervals) -> None:
    """Mark averages after a restart within an epoch as unknown, because their number of steps is unknown."""
    averaged = log.records.average_time_s is not None or log.records.average_rate is not None
    averaged = averaged or log.meaning is Meaning.RUNNING
    for one in log.restarts:
        if averaged and not one.fresh:
            block.own[max(one.record - block.first, 0) : max(one.until - block.first, 0)] = np.nan


def _leave_out_other_batches(log: ParsedLog, block: Intervals) -> None:
    """Mark intervals with another batch than the usual one as unknown: their steps take a different time."""
    if log.usual_batch is not None:
        other = ~np.isclose(block.work, block.steps * log.usual_batch, rtol=1e-9)
        block.own[other] = block.clock_s[other] = np.nan


def counts_from_zero(records: Records) -> bool:
    """Return whether the counter starts at 0, so that a record at step n covers n + 1 steps since its start."""
    return records.step is not None and any((block == 0).any() for block in records.step.blocks())


def steps_since_restart(step: Floats, from_zero: bool, usual: int) -> Floats:
    """Return the steps of records after a counter restart: at most ``usual``, which is also used if none is printed."""
    return np.where(np.isfinite(step), np.minimum(np.maximum(step + from_zero, 1), usual), usual)


def steps_covered(steps: Column, start: int, stop: int, usual: int, *, from_zero: bool) -> Floats:
    """Return the number of ``steps`` that each of the records ``start`` … ``stop`` covers.

    These are the steps since the previous record or, after a counter restart, since the restart; at most ``usual``
    (lines may be missing), unless the program prints at a larger interval for a while, or every so many seconds.
    """
    usual = longest_interval(steps) or usual
    first = max(start - STRETCH, 0)
    step = steps.array(first, stop + STRETCH)
    rises = np.diff(step, prepend=-np.inf if first == 0 else np.nan)
    covered = np.where(wider_intervals(rises, usual), rises, np.minimum(rises, usual))
    here = slice(start - first, stop - first)
    anew = steps_since_restart(step[here], from_zero, usual)
    known = (rises[here] > 0) & np.isfinite(rises[here])
    return np.where(known, covered[here], anew)


def longest_interval(steps: Column) -> int | None:
    """Return the largest increment of a counter without a usual one, as lines printed every 10 s have; else None."""
    rises = differences(steps.array(0, _SAMPLE))
    rises = rises[rises > 0]
    if len(rises) < _FEWEST_RISES:
        return None
    counts = np.unique(rises, return_counts=True)[1]
    return int(rises.max()) if counts.max() < _USUAL * len(rises) else None


def wider_intervals(rises: Floats, usual: int) -> NDArray[np.bool_]:
    """Return which of consecutive counter increments are larger than ``usual`` and repeat.

    A repeated larger increment means that the program prints less often; gaps of missing lines are not equal four
    times in a row.
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
    missing = np.full(size, np.nan)
    columns = {name: getattr(records, name) for name in _FIELDS}
    return {
        name: missing if column is None else column.array(start, stop) for name, column in columns.items()
    }


def _of_block(log: ParsedLog, first: int, columns: dict[str, Floats], from_zero: bool) -> Intervals:
    step, epoch, clock = columns["step"], columns["epoch"], columns["clock_s"]
    joined = np.ones(len(step) - 1, np.bool_) if log.records.epoch is None else differences(epoch) == 0
    joined[[one.record - first for one in log.restarts if 0 <= one.record - first < len(joined)]] = False
    steps = (
        differences(step)
        if log.records.step is not None
        else np.full(len(step) - 1, float(log.step_interval))
    )
    usual = log.step_interval
    anew = usual if log.counts_samples else steps_since_restart(step[1:], from_zero, usual)
    steps = np.where(joined & (steps > 0), steps, anew)
    rates = np.where(columns["rate"] > 0, columns["rate"], np.nan) * _devices(log)
    absolute = True
    done = step - log.averages_from
    batch = 1 if log.counts_samples else log.global_batch
    slack = np.zeros(len(steps))
    if log.records.average_time_s is not None and not log.counts_samples:
        passed = done * columns["average_time_s"]
        own = _since(passed, differences(step), joined, from_start=done <= usual)
        slack = _rounding(columns["average_time_s"], passed)
    elif log.records.average_rate is not None or (
        log.records.rate is not None and log.meaning is Meaning.RUNNING
    ):
        absolute = batch is not None
        average = columns["average_rate"] * _devices(log) if log.records.average_rate is not None else rates
        passed = done / average * (batch or 1)
        # A program that prints only a running rate may restart it after the epoch's first steps.
        from_start = (done <= usual) & (log.records.average_rate is not None)
        own = _since(passed, differences(step), joined, from_start=from_start)
        printed = columns["rate" if log.records.average_rate is None else "average_rate"]
        slack = _rounding(printed, passed)
    elif log.records.step_time_s is not None and not (log.counts_samples and log.records.rate is not None):
        own = columns["step_time_s"][1:] * steps
    elif log.records.samples is not None:
        own = columns["samples"][1:] * _devices(log) / rates[1:]
    else:
        absolute = batch is not None
        own = steps * (batch or 1) / rates[1:]
    samples = columns["samples"][1:]
    work = np.where(samples > 0, samples, np.nan) if log.records.samples is not None else steps
    return Intervals(first, steps, work, own, slack, np.where(joined, differences(clock), np.nan), absolute)


def _since(
    passed: Floats, risen: Floats, joined: NDArray[np.bool_], *, from_start: NDArray[np.bool_]
) -> Floats:
    """Return the time since the previous record of the epoch, or since the epoch's start (if ``from_start``).

    A progress bar redrawn after its last step includes the validation time, so it is ignored.
    """
    between = np.where(risen != 0, differences(passed), np.nan)
    since: Floats = np.where(joined, between, np.where(from_start, passed, np.nan)[1:])
    return since


def _rounding(averages: Floats, passed: Floats) -> Floats:
    """Return the largest rounding error of differences of consecutive ``passed`` times, computed from averages."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # A program may print the rate or the time of a step; the other is derived from it.
        off = np.abs(passed) * np.minimum(last_digit(averages), last_digit(1 / averages))
    off = np.where(np.isfinite(off), off, 0.0)
    total: Floats = off[1:] + off[:-1]
    return total


def last_digit(printed: Floats) -> Floats:
    """Return half the last printed digit as a share of each value; infinite if the values have no last digit."""
    known = printed[np.isfinite(printed)]
    for decimals in range(_MOST_DECIMALS):
        # If values have more digits, the first few usually show it.
        if all((np.abs(part - part.round(decimals)) <= 1e-9).all() for part in (known[:_FEW], known)):
            share: Floats = 0.5 * 10.0**-decimals / np.abs(printed)
            return share
    return np.full(len(printed), np.inf)


def _devices(log: ParsedLog) -> float:
    """Return the factor from a printed rate to the rate of all devices; 1 if it is unknown."""
    factor = {Scope.DEVICE: log.facts.gpus, Scope.NODE: log.facts.nodes}.get(log.scope, 1)
    return float(factor or 1)


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
            column.array(start, stop) for name in _PRINTED if (column := getattr(records, name)) is not None
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


class Change(NamedTuple):
    """A change of pace: from ``record`` on, a unit of work takes ``factor`` times as long as before."""

    record: int
    factor: float


class Chunk(NamedTuple):
    """Neighbouring intervals, the first up to ``record``: their seconds and their work (steps or samples)."""

    record: int
    seconds: float
    work: float


def change_of_pace(chunks: Sequence[Chunk], grain: float = 0.0) -> Change | None:
    """Return the lasting change of pace, or ``None``.

    The split minimises the squared deviations of the logarithms of the chunks' paces; the spread of each part must be
    small compared with the difference. Chunks of zero duration (coarse clock) are merged with their neighbours, and a
    difference that the clock's resolution of ``grain`` seconds may explain is no change.
    """
    while any(chunk.seconds <= 0 for chunk in chunks) and len(chunks) > 4 * _FEWEST_CHUNKS:
        chunks = [
            Chunk(pair[0].record, sum(c.seconds for c in pair), sum(c.work for c in pair))
            for pair in (chunks[at : at + 2] for at in range(0, len(chunks), 2))
        ]
    fewest = max(_FEWEST_CHUNKS, ceil(_LEAST_SHARE * len(chunks)))
    if len(chunks) < 2 * fewest or any(chunk.seconds <= 0 or chunk.work <= 0 for chunk in chunks):
        return None
    logs = np.log([chunk.seconds / chunk.work for chunk in chunks])
    at = _best_split(logs, fewest)
    before, after = logs[:at], logs[at:]
    step = median(after) - median(before)
    rounding = 2 * grain / median(np.array([chunk.seconds for chunk in chunks]))
    if abs(step) <= np.log1p(_DIFFERS) + rounding or abs(step) <= _SPREADS * max(
        _spread(before), _spread(after)
    ):
        return None
    return Change(chunks[at].record, float(np.exp(step)))


def _best_split(values: Floats, fewest: int) -> int:
    size = np.arange(1, len(values))
    left = np.cumsum(values)[:-1]
    right = values.sum() - left
    gain = left**2 / size + right**2 / (len(values) - size)
    gain[: fewest - 1] = gain[len(gain) - fewest + 1 :] = -np.inf
    return int(gain.argmax()) + 1


def _spread(values: Floats) -> float:
    return _MAD * median(np.abs(values - median(values)))


@dataclass(slots=True)
class WorstInterval:
    """The interval that deviates most from its usual time, and totals of all intervals added.

    ``last`` is the record of the last interval added. ``took`` and ``usual`` are seconds of the worst one; ``excess_s``
    is the time that all ``count`` intervals took beyond the usual one (negative: less), ``all_s`` their total time.
    """

    record: int = 0
    last: int = 0
    took: float = 0.0
    usual: float = 0.0
    count: int = 0
    excess_s: float = 0.0
    all_s: float = 0.0

    def add(self, record: int, took: float, usual: float) -> None:
        """Add the interval that ends at ``record``."""
        self.last = max(self.last, record)
        self.count, self.excess_s, self.all_s = (
            self.count + 1,
            self.excess_s + took - usual,
            self.all_s + took,
        )
        if abs(took - usual) > abs(self.took - self.usual):
            self.record, self.took, self.usual = record, took, usual


@dataclass(slots=True)
class Pace:
    """Step timing of a window: the worst interval of each kind, and the window's duration in seconds.

    ``slow``, ``fast`` and ``most`` deviate from the usual pace (``most`` by any amount), ``jump`` and ``false`` from
    the clock; ``back`` is where the clock ran backwards. ``clock_s`` and ``own_s`` are the time of the same steps by
    the clock and by the records, and ``ratios`` their median ratio per block. ``between_s`` is the excess of the clock
    without the longest gaps, used if the format's records cover only the last steps of an interval
    (``of_last_steps``). ``chunks`` are groups of consecutive intervals.
    """

    by_clock: bool
    of_last_steps: bool
    slow: WorstInterval = field(default_factory=WorstInterval)
    fast: WorstInterval = field(default_factory=WorstInterval)
    most: WorstInterval = field(default_factory=WorstInterval)
    jump: WorstInterval = field(default_factory=WorstInterval)
    false: WorstInterval = field(default_factory=WorstInterval)
    back: WorstInterval = field(default_factory=WorstInterval)
    window_s: float = 0.0
    counted: int = 0
    clock_s: float = 0.0
    own_s: float = 0.0
    between_s: float = 0.0
    ratios: list[float] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)

    def add(self, block: Intervals, grain: float) -> None:
        """Add the intervals of one block; ``grain`` is the resolution of the clock in seconds."""
        clock = block.clock_s
        if (back := clock < -grain).any():
            at = int(back.argmax())
            self.back.add(block.first + at + 1, float(clock[at]), 0.0)
        stamped = self.by_clock and bool(np.isfinite(clock).any())
        taken = np.where(clock >= 0, clock, np.nan) if stamped else block.own
        work = block.steps if stamped else block.work
        slack = np.full(len(work), 2 * grain) if stamped else block.slack
        good = np.isfinite(taken) & np.isfinite(work)
        if not good.any():
            return
        records, taken, work, slack = _where(good, block.records, taken, work, slack)
        paces, rounded = taken / work, 0.0
        middle = _median(paces)
        if stamped and _median(taken) < _COARSE * grain:
            middle, rounded = _joined_pace(taken, work, grain), grain
        self.window_s += float(taken.sum())
        self.counted += len(taken)
        self._add_chunks(records, taken, work)
        off = taken - work * middle
        at = int(np.abs(off).argmax())
        self.most.add(int(records[at]), float(taken[at]), float(work[at] * middle))
        if len(taken) < _FEWEST:
            return
        if middle > 0:
            sizes = np.abs(off)
            odd = sizes > _LEAST_OFF * middle * work + slack
            if odd.any():  # the spread can only exclude some of them
                spread = _MAD * _median(np.maximum(np.abs(paces - middle) - rounded / work, 0.0))
                odd = sizes > max(_OUTLIER * spread, _LEAST_OFF * middle) * work + slack
            for at in np.flatnonzero(odd).tolist():
                worst = self.slow if off[at] > 0 else self.fast
                worst.add(int(records[at]), float(taken[at]), float(work[at] * middle))
        if block.absolute:
            self._add_clock(block, grain)

    def _add_chunks(self, records: Ints, taken: Floats, work: Floats) -> None:
        count = min(_CHUNKS, len(taken))
        size, over = divmod(len(taken), count)
        # Sizes differ by at most one: the first chunks get the remainder.
        first = np.arange(count) * size + np.minimum(np.arange(count), over)
        sums = np.add.reduceat(taken, first), np.add.reduceat(work, first)
        self.chunks += map(Chunk, records[first].tolist(), *(values.tolist() for values in sums))

    def _add_clock(self, block: Intervals, grain: float) -> None:
        clock, own = block.clock_s, block.own
        # Digits may be too few for a difference of averages that is above 0.
        long_enough = (own > 0) | (own > -block.slack)
        both = np.isfinite(clock) & np.isfinite(own) & (clock >= 0) & long_enough
        if not both.any() or not own[both].sum() > 0:
            return
        records, clock, own, slack = _where(both, block.records, clock, own, block.slack)
        self.clock_s += float(clock.sum())
        self.own_s += float(own.sum())
        gaps = clock - own
        at = int(np.abs(gaps).argmax())
        self.jump.add(int(records[at]), float(clock[at]), float(own[at]))
        if self.of_last_steps:
            gaps.sort()
            self.between_s += float(gaps[: len(gaps) - max(1, round(_LONGEST * len(gaps)))].sum())
        ratio = _typical_ratio(*_joined(clock, own, slack), grain)
        self.ratios.append(ratio)
        self._add_false(records, clock, own * ratio, 2 * grain + slack)

    def _add_false(self, records: Ints, clock: Floats, expected: Floats, slack: Floats) -> None:
        """Compare each record's reported duration with the wall clock between records.

        Unless the number is computed by the clock, extra clock time between steps is no contradiction.
        """
        off = clock - expected
        sizes, least = np.abs(off), _LEAST_OFF * np.abs(expected)
        odd = sizes > least + slack
        if odd.any():  # the spread can only exclude some of them
            spread = _MAD * _median(sizes)
            odd = sizes > np.maximum(_OUTLIER * spread, least) + slack
        if not self.by_clock:
            odd &= off < 0
        for at in np.flatnonzero(odd).tolist():
            self.false.add(int(records[at]), float(clock[at]), float(expected[at]))


def _where(good: Bools, records: Ints, *columns: Floats) -> tuple[Any, ...]:
    """Return the ``good`` elements of ``records`` and ``columns``; the arrays themselves if all are good."""
    return (records, *columns) if good.all() else (records[good], *(column[good] for column in columns))


def _joined_pace(taken: Floats, work: Floats, grain: float) -> float:
    """Return the median pace of intervals joined until ``grain`` hardly matters in each, of at least four such parts.

    Several steps of less than a second have one time stamp, and a median of their intervals would be 0.
    """
    mean = float(taken.sum()) / len(taken)
    size = ceil(min(_FINE * grain / mean, len(taken) / 4)) if mean > 0 else 1
    return _median(_sums(taken, size) / _sums(work, size))


def _joined(clock: Floats, own: Floats, slack: Floats) -> tuple[Floats, Floats]:
    """Return ``clock`` and ``own`` of intervals joined until the digits of averages hardly matter in each.

    The difference of two averages is known to ``slack``, over however many intervals it is.
    """
    size = ceil(min(_FINE * _median(slack) / own.mean(), len(own)))
    if size > 1:
        clock, own = _sums(clock, size), _sums(own, size)
    return clock[own > 0], own[own > 0]


def _sums(values: Floats, size: int) -> Floats:
    """Return the sums of ``size`` neighbours each, of more in the last one."""
    first = np.arange(0, max(len(values) - size, 0) + 1, size)
    sums: Floats = np.add.reduceat(values, first)
    return sums


def _typical_ratio(clock: Floats, own: Floats, grain: float) -> float:
    """Return the median ratio of ``clock`` to ``own``, of intervals joined until ``grain`` hardly matters in each.

    Those in which an evaluation ran or lines are missing are not joined with others.
    """
    if (passed := clock > 0).any():
        # A late look at a log finds several records at once: they take the time of the one before them.
        first = clock >= own * _median((clock / own)[passed]) / 2
        first[0] = True
        clock, own = (np.add.reduceat(each, np.flatnonzero(first)) for each in (clock, own))
    usual = own * _median(clock / own)
    is_usual = clock <= usual + np.maximum(2 * grain, usual)
    clock, own = clock[is_usual], own[is_usual]
    size = ceil(min(_FINE * grain / _median(own), len(own)))
    if size > 1:
        clock, own = _sums(clock, size), _sums(own, size)
    return _median(clock / own)


def _median(values: Floats) -> float:
    """Return the median of finite values; sorting is much faster than a partition here."""
    ordered, middle = np.sort(values), len(values) // 2
    upper = float(ordered[middle])
    return upper if len(values) % 2 else (float(ordered[middle - 1]) + upper) / 2


def measure_timing(log: ParsedLog) -> Pace:
    """Return the step timing of ``log`` after its warm-up, computed in one pass; do not change it."""
    if _LAST and _is_same(log, _LAST[0][0]):
        return _LAST[0][1]
    pace = Pace(log.uses_clock, log.of_last_steps)
    for block in intervals(log):
        pace.add(block, log.clock_resolution_s)
    _LAST[:] = [(log, pace)]
    return pace


_LAST: list[tuple[ParsedLog, Pace]] = []
"""The last log measured: its checks and its witnesses need the same timing."""


def _is_same(log: ParsedLog, other: ParsedLog) -> bool:
    """Return whether two logs differ in their problems at most."""
    return all(getattr(log, name) is getattr(other, name) for name in _COMPARED)
