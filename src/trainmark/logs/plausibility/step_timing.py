"""Checks of step times: stalls, changes of pace, implausibly fast steps, clock jumps, contradictions of the clock."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.model import MOST_OF_A_NOTE, Floats, Meaning, ParsedLog, Problem, Severity, median
from trainmark.logs.plausibility.intervals import Intervals, intervals

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
AGREE = 0.05
"""If clock and records differ by more than this share for the same steps, one of them is wrong."""
MOST_UNTIMED = 0.2
"""Largest untimed share of the clock's time if records cover only the last steps of an interval."""
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
_MANY = 0.05
"""Largest share of outliers of a run whose pace changes."""
_COMPARED = tuple(each.name for each in fields(ParsedLog) if each.name != "problems")


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
class _Worst:
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
    slow: _Worst = field(default_factory=_Worst)
    fast: _Worst = field(default_factory=_Worst)
    most: _Worst = field(default_factory=_Worst)
    jump: _Worst = field(default_factory=_Worst)
    false: _Worst = field(default_factory=_Worst)
    back: _Worst = field(default_factory=_Worst)
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


@dataclass(frozen=True, slots=True)
class Stall:
    """A set of ``count`` intervals that are far slower than usual; the worst ends at ``record``.

    They take ``share`` of the window. At the usual pace the rate would be ``factor`` times as high.
    """

    record: int
    share: float
    factor: float
    count: int = 1


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


def stalls(log: ParsedLog) -> Stall | None:
    """Return the stalls of ``log`` that matter: all of them, or only the worst.

    If all slow records change the number by less than a doubt, they belong to the run's spread, and only the worst one
    can stand out.
    """
    if log.records.count < 2 or log.own_run is not None:
        return None
    pace = measure_timing(log)
    all_stalls, slow = _stalls(pace), pace.slow
    if all_stalls is None or slow.excess_s > MOST_OF_A_NOTE * pace.window_s:
        return all_stalls
    excess_s = slow.took - slow.usual
    if not excess_s > MATTERS * pace.window_s:
        return None
    return Stall(slow.record, slow.took / pace.window_s, pace.window_s / (pace.window_s - excess_s))


def _stalls(pace: Pace) -> Stall | None:
    slow, window_s = pace.slow, pace.window_s
    if not slow.excess_s > MATTERS * window_s > 0:
        return None
    return Stall(slow.record, slow.all_s / window_s, window_s / (window_s - slow.excess_s), slow.count)


def timing_problems(log: ParsedLog) -> Iterator[Problem]:
    """Yield problems of the step timing of ``log`` after its warm-up."""
    pace = measure_timing(log)
    false = pace.false
    yield from _backwards(pace.back)
    change = change_of_pace(pace.chunks, log.clock_resolution_s if pace.by_clock else 0.0)
    outliers = [*_slow(pace, change), *_fast(pace, change), *([_changed(change)] if change else [])]
    yield from outliers
    averaged = log.records.average_rate is not None or log.records.average_time_s is not None
    averaged = averaged or (log.meaning is Meaning.RUNNING and log.records.clock_s is None)
    if not averaged and not any(problem.severity is Severity.DOUBT for problem in outliers):
        yield from _few(log, pace)
    if abs(false.took - false.usual) > MATTERS * pace.window_s > 0:
        ends = f"{false.usual:.4g} s by its rate and {false.took:.4g} s by its time stamps"
        message = f"record {false.record} took {ends}: one of the two is wrong"
        yield Problem("record-contradicts-clock", message, last_record=false.last)
    if pace.ratios:
        yield from _disagreement(log, pace)


_BY_CLOCK = frozenset({"clock-backwards", "stall", "too-fast", "pace-changes", "few-records"})
"""The problems that depend on when the records were printed, if the number is that of the clock."""


def with_timing_by(log: ParsedLog, resolution_s: float) -> ParsedLog:
    """Return a log that is timed by its clock with the problems of that clock, of this resolution, for earlier ones.

    The time at which a line arrived is another clock than the one in the line, and coarser than its digits.
    """
    if not log.uses_clock or log.records.count < 2:
        return log
    timed = replace(log, clock_resolution_s=resolution_s)
    others = (problem for problem in log.problems if problem.code not in _BY_CLOCK)
    return replace(log, problems=(*others, *timing_problems(timed)))


def _few(log: ParsedLog, pace: Pace) -> Iterator[Problem]:
    """Yield a doubt if the number depends on a single record, by more than the clock's resolution explains."""
    most, counted = pace.most, pace.counted
    grain = 2 * log.clock_resolution_s if pace.by_clock else 0.0
    rest = pace.window_s - most.took
    moved = (most.took - most.usual) / rest if rest > 0 else 0.0
    warm_up = log.warmup_records
    if not pace.window_s and log.records.count > warm_up + 2:
        # Records without any time are no few records: another problem names what they lack.
        return
    if counted < 2 or rest <= 0:
        cause = (
            f"the log has only {log.records.count} records"
            if not 0 < warm_up < log.records.count
            else "only one record follows the warm-up"
        )
        sentence = f"{cause}, so the reliability of the number cannot be estimated"
        yield Problem("few-records", sentence)
    elif abs(moved) > MOST_OF_A_NOTE and abs(most.took - most.usual) > grain:
        sentence = (
            f"the number is computed from only {counted} records: without record {most.record} it would change by "
            f"{moved:+.1%}"
        )
        yield Problem("few-records", sentence)


def _backwards(back: _Worst) -> Iterator[Problem]:
    if back.took < 0:
        sentence = f"the time stamps run backwards at record {back.record}, by {-back.took:.6g} s"
        message = f"{sentence}: a number computed from the clock is wrong"
        yield Problem("clock-backwards", message, last_record=back.last)


def _slow(pace: Pace, change: Change | None) -> Iterator[Problem]:
    found, slow = _stalls(pace), pace.slow
    if found is None or (change and slow.count > _MANY * pace.counted):
        return
    cause = "a stall or a clock jump" if pace.by_clock else "a stall"
    who, them = f"record {slow.record} took", "it"
    if found.count > 1:
        who, them = (
            f"{found.count} records are much slower than the others; the worst, record {slow.record}, took",
            "them",
        )
    times = (
        f" {slow.took / slow.usual:.3g} times as long as usual" if slow.usual > 0 else f" {slow.took:.3g} s"
    )
    portion = "; in total they take" if found.count > 1 else " and takes"
    sentence = (
        f"{cause}: {who}{times}{portion} {found.share:.0%} of the window; "
        f"without {them} the rate would be {found.factor - 1:.1%} higher"
    )
    severity = Severity.of_effect(slow.excess_s / pace.window_s)
    yield Problem("stall", sentence, severity, last_record=slow.last)


def _fast(pace: Pace, change: Change | None) -> Iterator[Problem]:
    fast = pace.fast
    if change and fast.count > _MANY * pace.counted:
        return
    share = -fast.excess_s / pace.window_s if pace.window_s > 0 else 0.0
    if share > MATTERS:
        more = f" (and {fast.count - 1} more)" if fast.count > 1 else ""
        sentence = (
            f"record {fast.record}{more} took only {fast.took / fast.usual:.3g} times the usual time, which is "
            f"implausibly fast; it raises the rate by {share:.1%}"
        )
        yield Problem("too-fast", sentence, last_record=fast.last)


def _changed(change: Change) -> Problem:
    sentence = (
        f"from record {change.record} on a step takes {change.factor:.3g} times as long as before; the number covers "
        "both parts: if they are two runs (another machine or batch), split the file"
    )
    return Problem("pace-changes", sentence, last_record=change.record - 1)


def _disagreement(log: ParsedLog, pace: Pace) -> Iterator[Problem]:
    """Compare the time of the same steps by the clock and by the records; yield a doubt if they differ."""
    clock_s, own_s, jump = pace.clock_s, pace.own_s, pace.jump
    slack = 2 * log.clock_resolution_s / clock_s if clock_s > 0 else 1.0
    typical = median(pace.ratios)
    # The difference of two time stamps is known to within one resolution step of the clock.
    grain = log.clock_resolution_s * log.records.count
    fine = grain < AGREE * min(clock_s, own_s)
    share = clock_s / own_s - 1
    if abs(typical - 1) > (AGREE if fine else AGREE + grain / own_s):
        yield Problem("rates-contradict-clock", _between(log, typical))
    elif abs(share) > AGREE + slack and (pace.by_clock or share < 0):
        sentence = (
            f"the steps took {own_s:.6g} s by the records and {clock_s:.6g} s by the time stamps; "
            f"the largest difference is at record {jump.record} ({jump.usual:.4g} s and {jump.took:.4g} s)"
        )
        yield Problem("rates-contradict-clock", sentence)
    elif log.of_last_steps and pace.between_s > MOST_UNTIMED * own_s:
        sentence = (
            f"a record times only the last steps before it, and throughout the log {clock_s / own_s - 1:.0%} more "
            "clock time passes between records: slow steps may be hidden"
        )
        yield Problem("rates-contradict-clock", sentence)


def _between(log: ParsedLog, typical: float) -> str:
    batch = log.global_batch
    if batch is not None and log.records.step_time_s is None:
        return (
            f"the clock time between two records is {typical:.3g} times the time computed from their rate and a global "
            f"batch of {batch}: the rate, batch, number of devices or steps is wrong"
        )
    return f"the clock time between two records is {typical:.3g} times the time that the records report"
