"""The time of all steps between two lines, computed from averages since the epoch's start.

After ``n`` steps of ``b`` samples with an average of ``r`` samples a second, ``n b / r`` seconds have passed; the
difference of two such times is the time of all steps in between, including slow ones that no line shows. An epoch that
starts within the window counts from its start (0 steps, 0 seconds). The first epoch counts from the last record that is
left out, if its average covers all steps of those that are, else from its first record.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.columns import BLOCK_VALUES, Floats, median
from trainmark.logs.model import MOST_OF_A_NOTE, ParsedLog, Problem, Records, Restart, Severity
from trainmark.logs.plausibility.intervals import intervals, last_digit
from trainmark.measure.rules.series import NoNumberError, global_batch, scope_factor

Bools = NDArray[np.bool_]

NO_STEPS = (
    "running averages cannot be undone without step counters; a format file may give the program's own result at the "
    "end as figures: {summary: PATTERN}"
)
_FIRST_AVERAGES = 64
_ENOUGH_DIGITS = 0.0005
"""Rounding of an average, as a share of it, that cannot matter for a difference."""
_LEFT_OUT = 0.02
_CLOCK_GRAINS = 50
"""Shortest time that stamps can confirm, in units of their resolution: it is then known to 4 %."""
_TIME_GRAIN_S = 0.0006
"""Programs print average step times with three decimals or more."""


def has_averages(log: ParsedLog) -> bool:
    """Return whether the records have averages since the epoch's start in addition to values of single steps."""
    return log.records.average_rate is not None or log.records.average_time_s is not None


def by_averages(log: ParsedLog, skipped: int) -> tuple[float, int, list[Problem]]:
    """Return (units/s, skipped records, problems) of the steps after the first ``skipped`` records.

    If these are fewer than half of the steps that the last average covers (an excerpt, a short log), and no time stamps
    confirm them, the last average is returned, with a problem if the two differ. Raises ``NoNumberError``.
    """
    counts, seconds = 0.0, 0.0
    last: tuple[float, float] | None = None
    epochs = left_out = 0
    for span in _epochs(log, skipped):
        last, epochs, left_out = span.last, epochs + 1, left_out + span.left_out
        # If only an epoch's first steps are usable, the time of its other steps is unknown.
        usable = span.size > 1 or (span.whole and span.last[0] >= log.step_interval)
        if usable and span.last[1] > span.first[1]:
            counts += span.last[0] - span.first[0]
            seconds += span.last[1] - span.first[1]
    if last is None:
        raise NoNumberError("no-averages", "no record after the warm-up has a usable average")
    between = counts / seconds if seconds > 0 else None
    problems = []
    if left_out > epochs + _LEFT_OUT * (log.records.count - skipped):  # an epoch's last batch may be smaller
        sentence = (
            f"{left_out} records are ignored: their average rate and time imply a smaller batch than the other records "
            "of their epoch, so some of them are damaged"
        )
        problems.append(Problem("batches-differ", sentence))
    if unknown := sum(one.until - one.record for one in log.restarts if not one.fresh):
        sentence = (
            f"the averages after the restart cover an unknown number of steps: {unknown} records are ignored"
        )
        problems.append(Problem("averages-restarted", sentence))
    # A record with whose end the window begins is not in it.
    opened = skipped + (_boundary(log, skipped) == skipped)
    if between is not None and 2 * counts >= last[0]:
        return between, opened, problems
    if last[0] <= log.warmup_steps:
        raise NoNumberError(
            "only-warm-up", f"the last average covers only {last[0]:.0f} steps, all of them warm-up"
        )
    value = last[0] / last[1]
    if between is not None and _is_confirmed(log, skipped, between):
        sentence = (
            f"the value covers the {counts:.0f} steps that the log shows, which its time stamps confirm; the average "
            f"since the start, over {last[0]:.0f} steps, is {value:.6g}"
        )
        return between, opened, [*problems, Problem("by-difference", sentence, Severity.NOTE)]
    sentence = (
        f"the value is the last line's average over {last[0]:.0f} steps, as the log shows few of these steps"
    )
    problems.append(Problem("by-average", sentence, Severity.NOTE))
    if between is not None and abs(between / value - 1) > MOST_OF_A_NOTE:
        problems.append(
            Problem(
                "average-differs",
                f"the {counts:.0f} steps that the log shows ran at {between:.6g}, {between / value - 1:+.1%} from the "
                "average",
            )
        )
    return value, skipped, problems


def rounding_of_averages(log: ParsedLog, skipped: int) -> float:
    """Return by which share the digits of the averages may change the time after the first ``skipped`` records.

    That of a difference is larger than that of an average: 0.36 it/s is known to 1.4 %, the second half of its steps to
    twice as much. 0 for averages with enough digits.
    """
    records = log.records
    averages = records.average_rate or records.average_time_s
    if averages is None:
        return 0.0
    few = averages.array(0, _FIRST_AVERAGES)
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = np.minimum(last_digit(few), last_digit(1 / few))
    if not median(digits[np.isfinite(digits)]) > _ENOUGH_DIGITS:
        return 0.0
    error = seconds = 0.0
    for block in intervals(log):
        good = np.isfinite(block.own) & (block.records > skipped)
        error = max(error, float(block.slack[good].max(initial=0.0)))
        seconds += float(block.own[good].sum())
    return error / seconds if seconds > 0 else 0.0


def _is_confirmed(log: ParsedLog, skipped: int, value: float) -> bool:
    """Return whether the time stamps of the records after the first ``skipped`` give ``value``, too."""
    steps = seconds = 0.0
    for block in intervals(log):
        good = np.isfinite(block.clock_s) & (block.clock_s > 0) & (block.records > skipped)
        steps += float(block.steps[good].sum())
        seconds += float(block.clock_s[good].sum())
    if not seconds > _CLOCK_GRAINS * log.clock_resolution_s:
        return False
    try:
        batch = global_batch(log)
    except NoNumberError:
        return False
    return abs(steps * batch / seconds / value - 1) <= MOST_OF_A_NOTE


@dataclass(slots=True)
class _Span:
    """Samples done and seconds passed at the first and the last usable record of an epoch.

    For a ``whole`` epoch the first is its start, with both 0. ``highest`` is the largest count of any record, ``grain``
    the resolution of the batch computed from the first record, and ``left_out`` counts records of another batch.
    """

    size: int = 0
    left_out: int = 0
    whole: bool = False
    first: tuple[float, float] = (0.0, 0.0)
    last: tuple[float, float] = (0.0, 0.0)
    highest: float = -np.inf
    grain: float = np.nan

    def extend(self, done: Floats, passed: Floats, good: Bools) -> None:
        """Add the next records of the epoch that are ``good``."""
        # A progress bar is redrawn after its last step, with validation in the average: the first of equal counts wins.
        before = np.maximum.accumulate(np.concatenate(([self.highest], done)))
        self.highest = float(before[-1])
        places = np.flatnonzero(good & (done > before[:-1]))
        if not len(places):
            return
        ends = [(float(done[at]), float(passed[at])) for at in places[[0, -1]]]
        if not self.size and not self.whole:
            self.first = ends[0]
        self.last = ends[1]
        self.size += len(places)


def _epochs(log: ParsedLog, skipped: int) -> Iterator[_Span]:
    """Yield for each epoch the samples done and the seconds passed at its first and its last usable record.

    A sample count is steps x the samples of a step; a record whose batch differs from that of the epoch's first (the
    rest of the data, at the epoch's end) is left out, because its average does not apply to the other steps.
    """
    records = log.records
    if records.step is None:
        raise NoNumberError("no-steps", NO_STEPS)
    factor, batch = _scale(log)
    rate, time = records.average_rate, records.average_time_s
    if _boundary(log, skipped) == skipped - 1:
        skipped -= 1
    largest, most = _largest_batches(log, skipped, factor), np.nan
    span = _Span()
    for part in parts(records, skipped, log.restarts):
        if part.begins:
            if span.size:
                yield span
            span = _Span(whole=part.whole)
            most = next(largest)
        done = records.step.array(part.start, part.stop) - log.averages_from
        times = time.array(part.start, part.stop) if time is not None else None
        with np.errstate(divide="ignore", invalid="ignore"):
            if rate is None:
                assert times is not None
                passed = done * times / batch
            else:
                rates = rate.array(part.start, part.stop) * factor
                passed = done / rates
            good = np.isfinite(passed) & (done > 0) & (passed > 0)
            if rate is not None and times is not None:
                printed = rates / factor
                grain = 0.5 + printed * _TIME_GRAIN_S
                if part.begins:
                    span.grain = float(grain[0])
                full_batch = np.abs(printed * times - most) <= 2 * np.maximum(grain, span.grain)
                span.left_out += int(np.count_nonzero(good & ~full_batch))
                good &= full_batch
        span.extend(done, passed, good)
    if span.size:
        yield span


def _boundary(log: ParsedLog, skipped: int) -> int | None:
    """Return the record with whose end the window begins; None if that is the start of an epoch.

    It is the last one that is left out, if its average covers all steps of those that are, else the one after it.
    """
    records, last = log.records, skipped - 1
    begins = any(one.record == skipped for one in log.restarts) or _follows_another(records, skipped)
    if last < 0 or begins or records.step is None:
        return None
    done = float(records.step.array(last, skipped)[0]) - log.averages_from
    return last if done >= skipped * log.step_interval else skipped


def _largest_batches(log: ParsedLog, skipped: int, factor: float) -> Iterator[float]:
    """Yield the largest batch of each epoch, from its average rates and times; NaN if a log does not print both."""
    rate, time = log.records.average_rate, log.records.average_time_s
    most = np.nan
    for number, part in enumerate(parts(log.records, skipped, log.restarts)):
        if part.begins and number:
            yield most
            most = np.nan
        if rate is not None and time is not None:
            printed = rate.array(part.start, part.stop) * factor / factor
            most = float(np.fmax(most, np.fmax.reduce(printed * time.array(part.start, part.stop))))
    yield most


def _scale(log: ParsedLog) -> tuple[float, int]:
    """Return the factor from a printed rate to all devices, and the samples per step if only times are printed."""
    if log.records.average_rate is not None:
        return scope_factor(log), 1
    return 1.0, global_batch(log)


class Part(NamedTuple):
    """The records ``start`` … ``stop`` of one epoch; the first part of an epoch ``begins`` it, others continue it.

    The part is ``whole`` if no record of its epoch before it was left out.
    """

    begins: bool
    start: int
    stop: int
    whole: bool = False


def _follows_another(records: Records, at: int) -> bool:
    """Return whether the record at ``at`` is of another epoch than the record before it."""
    if records.epoch is None or not 0 < at < records.count:
        return False
    before, here = records.epoch.array(at - 1, at + 1)
    return bool(before != here)


def parts(records: Records, skipped: int, restarts: Sequence[Restart] = ()) -> Iterator[Part]:
    """Yield the parts of the epochs after the first ``skipped`` records; a log without epochs counts as one epoch.

    A run that resumed at the start of an epoch starts that epoch again. If it resumed within an epoch, the rest of that
    epoch is in no part, because the number of steps in its averages is unknown.
    """
    for part in _of_epochs(records, skipped):
        yield from _cut(part, restarts)


def _cut(part: Part, restarts: Sequence[Restart]) -> Iterator[Part]:
    for one in restarts:
        if one.until <= part.start or one.record >= part.stop:
            continue
        if one.record > part.start:
            yield part._replace(stop=one.record)
        if not one.fresh:
            part = Part(True, min(one.until, part.stop), part.stop)
        elif one.record >= part.start:
            part = Part(True, one.record, part.stop, True)
    if part.start < part.stop:
        yield part


def _of_epochs(records: Records, skipped: int) -> Iterator[Part]:
    before = np.nan
    opened = _follows_another(records, skipped)
    for first in range(skipped, records.count, BLOCK_VALUES):
        stop = min(first + BLOCK_VALUES, records.count)
        if records.epoch is None:
            yield Part(first == skipped, first, stop)
            continue
        numbers = records.epoch.array(first, stop)
        turns = np.flatnonzero(np.diff(numbers, prepend=before)).tolist()
        begins = turns[:1] == [0]
        for start, end in zip([0, *turns[begins:]], [*turns[begins:], len(numbers)], strict=True):
            whole = start > 0 or (begins and (first > skipped or opened))
            yield Part(begins or start > 0, first + start, first + end, whole)
        before = float(numbers[-1])
