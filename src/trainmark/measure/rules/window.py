"""Trainmark's own rule: samples over time in the window after the warm-up, never a mean of rates.

The steps that a printed rate averages over decide how the window's time is computed:

- a record covers exactly its own steps: sum(samples) / sum(samples / rate);
- the rate is a running average since the epoch's start, or that of one step in an interval: steps x global batch
  over the difference of the time stamps within each epoch; without stamps, differences of the running averages,
  or the harmonic mean of the sampled steps, with a problem;
- the log has one step's rate and also an average since the epoch's start: the difference of two such averages
  (``by_averages``);
- no rate: the time stamps.

After ``n`` steps of ``b`` samples with an average of ``r`` samples a second, ``n b / r`` seconds have passed; the
difference of two such times is the time of all steps in between, including slow ones that no line shows. An epoch that
starts within the window counts from its start (0 steps, 0 seconds). The first epoch counts from the last record that is
left out, if its average covers all steps of those that are, else from its first record.

A built-in worker reports its window, from a barrier at its start to the slowest rank's end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.intervals import MATTERS, counts_from_zero, intervals, last_digit, steps_since_restart
from trainmark.logs.model import (
    BLOCK_VALUES,
    MOST_OF_A_NOTE,
    Floats,
    Meaning,
    OwnRun,
    ParsedLog,
    Problem,
    Records,
    Restart,
    Severity,
    differences,
    median,
)
from trainmark.measure.rules.series import (
    NoNumberError,
    Series,
    count,
    global_batch,
    harmonic_mean,
    mean,
    not_finite,
    scope_factor,
    scope_problems,
    series,
    weight_of,
)
from trainmark.measure.rules.short_logs import all_skipped, short_warmup

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
_FEWEST_GRAINS = 40
"""The least length of a window, in units of the time stamps' resolution: its error is then below 5 %."""
_ENOUGH_GRAINS = 100
"""The length from which the error, below 2 %, is not mentioned; the least one for stamps finer than a second, which
arrive later than they say by more than their last digit."""
_UNEVEN = 0.02
_FEW_DIGITS = 0.025
"""Rounding of the printed figures that is not mentioned."""
_FEWEST_SAMPLES = 3
_BLOCK = 1 << 15


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


def window(log: ParsedLog, skip: int | None = None) -> tuple[float, int, list[Problem]]:
    """Return (value in units/s, skipped records, problems); raise ``NoNumberError`` if there is no value.

    ``skip`` records are left out; by default as many as cover the format's ``warmup_steps``.
    """
    if log.own_run is not None and skip is None:
        return _own(log, log.own_run), 0, []
    skipped = log.warmup_records if skip is None else skip
    problems = scope_problems(log)
    if log.records.count <= skipped:
        if skip is not None:
            raise all_skipped(log, skip)
        skipped, doubt = short_warmup(log, skipped)
        problems.append(doubt)
    if has_averages(log):
        value, skipped, more = by_averages(log, skipped)
        if (finer := _by_finer_clock(log, skipped, value)) is not None:
            return finer[0], skipped, [*problems, *more, *finer[1]]
        return value, skipped, [*problems, *more, *_rounded(log)]
    if log.uses_clock:
        try:
            value, more = _by_clock(log, skipped)
            return value, skipped, problems + more
        except NoNumberError as refused:
            if log.records.rate is None and log.records.step_time_s is None:
                raise _with_advice(refused) from None
            problems.append(Problem("no-clock", f"{refused}; the printed rates are used", Severity.NOTE))
    found = series(log)
    value, more = _by_rates(found, skipped)
    if (timed := _by_finer_times(found, skipped)) is not None:
        by_times, more = _by_rates(timed, skipped)
        sentence = (
            "the rates have so few digits that they give the number only roughly "
            f"({value:.6g}): the printed step times are used instead"
        )
        return by_times, skipped, [*problems, *more, Problem("by-step-times", sentence, Severity.NOTE)]
    return value, skipped, [*problems, *more, *_rounded(log)]


def _rounded(log: ParsedLog) -> Iterator[Problem]:
    """Yield the problem that the printed figures have few digits."""
    if log.figure_rounding > _FEW_DIGITS:
        sentence = (
            "the figures are printed with so few digits that the number is known only to within "
            f"{log.figure_rounding:.0%}"
        )
        yield Problem("few-digits", sentence, Severity.of_effect(log.figure_rounding))


def _by_finer_clock(log: ParsedLog, skipped: int, value: float) -> tuple[float, list[Problem]] | None:
    """Return the number by the time stamps, with a note, if averages of few digits give ``value`` less precisely.

    None if the stamps are not finer, or if the digits do not explain the difference.
    """
    clock = log.records.clock_s
    if clock is None or (share := rounding_of_averages(log, skipped)) <= MATTERS:
        return None
    try:
        by_clock, problems = _by_clock(log, skipped)
    except NoNumberError:
        return None
    span = clock.array(max(skipped - 1, 0), log.records.count)[[0, -1]]
    finer = 2 * log.clock_resolution_s <= share * (span[1] - span[0])
    # Where epochs change often, averages know the time that stamps leave out.
    doubted = any(problem.severity is Severity.DOUBT for problem in problems)
    if not finer or doubted or abs(by_clock / value - 1) > share:
        return None
    sentence = (
        f"the averages have so few digits that they give the number only to within {share:.1%} ({value:.6g}): the "
        "time stamps are used instead"
    )
    return by_clock, [*problems, Problem("by-clock", sentence, Severity.NOTE)]


def _by_finer_times(found: Series, skipped: int) -> Series | None:
    """Return the series of the printed step times; None if they are not finer than the rates, or of other work.

    A rate may be cut to whole units (``tok/sec: 31`` of 31.9), so it is too low by half a unit in the mean.
    """
    log, batch = found.log, found.log.global_batch
    rates, times = log.records.rate, log.records.step_time_s
    if rates is None or times is None or not batch or log.meaning is Meaning.RUNNING:
        return None
    rate, seconds = (column.array(skipped, skipped + _BLOCK) for column in (rates, times))
    good = rate > 0
    # A slow step's rate may be cut to zero.
    if not ((rate >= 0) & (seconds > 0)).all() or not good.any():
        return None
    rate, seconds = rate[good], seconds[good]
    share = median(last_digit(rate))
    off = np.abs(rate * found.factor * seconds / batch - 1)
    if not MATTERS < share < 1 or median(last_digit(seconds)) >= share or median(off) > 2 * share:
        return None
    return Series(replace(log, records=replace(log.records, rate=None)), 1.0, batch)


def _own(log: ParsedLog, words: OwnRun) -> float:
    from trainmark.measure.own_window import NotMeasurable, NoWindow, own_window

    times = log.records.step_time_s
    try:
        return own_window(words, np.empty(0) if times is None else times.array()).throughput
    except NoWindow as none:
        raise NoNumberError("no-window", str(none)) from None
    except NotMeasurable as refused:
        raise NoNumberError("contradicted-window", str(refused)) from None


def _by_rates(found: Series, skipped: int) -> tuple[float, list[Problem]]:
    log = found.log
    problems = not_finite(found, skipped)
    if not count(lambda: found.rates(skipped)):
        raise NoNumberError("no-rates", "no record after the warm-up has a rate that is a positive number")
    if log.meaning is Meaning.RUNNING:
        return _by_running_average(found, skipped), problems
    value = harmonic_mean(lambda: found.rates(skipped), lambda: found.weights(skipped))
    if log.meaning is Meaning.SAMPLED and log.step_interval > 1:
        error = _error_of_sampling(found, skipped)
        sentence = f"each record shows one step in {log.step_interval}, so slow steps in between are missed"
        if error > MOST_OF_A_NOTE:
            sentence += f", and the sampled steps determine the mean only to within {error:.0%}"
        problems.append(Problem("sampled", sentence, Severity.of_effect(error)))
    plain = mean(lambda: found.rates(skipped))
    if plain > value * (1 + _UNEVEN):
        off = plain / value - 1
        sentence = f"step times vary: the mean of the rates ({plain:.6g}) would be {off:.1%} too high"
        problems.append(Problem("uneven-steps", sentence, weight_of(log, off, skipped)))
    return value, problems


def _error_of_sampling(found: Series, skipped: int) -> float:
    """Return the standard error of the mean step time from the sampled steps, as a share of it."""
    size = total = squares = 0.0
    for block in found.rates(skipped):
        times = 1 / block[np.isfinite(block)]
        size, total, squares = size + len(times), total + times.sum(), squares + (times**2).sum()
    if size < _FEWEST_SAMPLES:
        return 1.0
    variance = max(squares / size - (total / size) ** 2, 0.0)
    return float(np.sqrt(variance / size) / (total / size))


def _by_running_average(found: Series, skipped: int) -> float:
    """Return the rate from running averages: the time up to step n is n / average, the window a difference of two."""
    records = found.log.records
    if records.step is None:
        raise NoNumberError("no-steps", NO_STEPS)
    steps_done, seconds = [], []
    for (first, rate), (last, last_rate) in _ends_of_epochs(found, skipped):
        steps_done.append(last - first)
        seconds.append(last / last_rate - first / rate)
    if not steps_done or fsum(seconds) <= 0:
        return mean(lambda: found.rates(len(found) - 1))
    return fsum(steps_done) / fsum(seconds)


def _ends_of_epochs(found: Series, skipped: int) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Yield (step, rate) of the first and of the last usable record of each epoch that has two."""
    records = found.log.records
    assert records.step is not None
    ends: list[tuple[float, float]] = []
    for part in parts(records, skipped, found.log.restarts):
        if part.begins:
            if len(ends) > 1:
                yield ends[0], ends[-1]
            ends = []
        steps = records.step.array(part.start, part.stop)
        rates = np.concatenate(list(found.rates(part.start, part.stop)))
        good = np.flatnonzero(np.isfinite(rates))
        if len(good):
            places = [good[-1]] if ends or len(good) == 1 else good[[0, -1]]
            ends = [*ends[:1], *((float(steps[at]), float(rates[at])) for at in places)]
    if len(ends) > 1:
        yield ends[0], ends[-1]


def _with_advice(refused: NoNumberError) -> NoNumberError:
    if refused.problem.code != "no-clock":
        return refused
    return NoNumberError(
        "no-clock",
        f"{refused}, and their lines have no rate and no step time: print the time before each line, such as by "
        "`COMMAND | ts '%Y-%m-%d %H:%M:%.S'`",
    )


def _by_clock(log: ParsedLog, skipped: int) -> tuple[float, list[Problem]]:
    """Return steps x global batch over seconds, from the time stamps of each epoch, and the problems with that."""
    records = log.records
    if records.clock_s is None:
        raise NoNumberError("no-clock", "the records have no time stamps")
    batch = 1 if log.counts_samples else global_batch(log)
    steps, seconds = [], []
    turns, between, from_zero = 0, 0.0, counts_from_zero(records)
    before: tuple[float, float, float] | None = None
    # The window opens at the last skipped record; with none skipped, at the first record.
    for start in range(max(skipped - 1, 0), records.count, _BLOCK):
        stop = min(start + _BLOCK, records.count)
        clock = records.clock_s.array(start, stop)
        epoch = records.epoch.array(start, stop) if records.epoch is not None else np.zeros(stop - start)
        counter = (
            records.step.array(start, stop)
            if records.step is not None
            else np.arange(start, stop, dtype=float)
        )
        if before is not None:
            epoch, counter, clock = (
                np.concatenate(([b], c)) for b, c in zip(before, (epoch, counter, clock), strict=True)
            )
        rises, passed = differences(counter), differences(clock)
        forth = ~(rises < 0)  # the time until a run resumes from a checkpoint is not a step
        # A repeated counter (loss scaling) means that steps were done: an interval's worth of work.
        rises = np.where(rises > 0, np.minimum(rises, 10 * log.step_interval), log.step_interval)
        good = forth & (differences(epoch) == 0) & np.isfinite(passed) & (passed >= 0)
        turned = differences(epoch) != 0
        turns += int(np.count_nonzero(turned))
        between += float(steps_since_restart(counter[1:][turned], from_zero, log.step_interval).sum())
        steps.append(float(rises[good].sum()))
        seconds.append(float(passed[good].sum()))
        before = (float(epoch[-1]), float(counter[-1]), float(clock[-1]))
    total = fsum(seconds)
    fewest = _FEWEST_GRAINS if log.clock_resolution_s >= 1 else _ENOUGH_GRAINS
    if total < fewest * log.clock_resolution_s or not fsum(steps):
        raise NoNumberError(
            "coarse-clock",
            f"the time stamps are too coarse: after the warm-up they span {total:.6g} s with a resolution of "
            f"{log.clock_resolution_s:g} s, and a number needs {fewest * log.clock_resolution_s:g} s of them",
        )
    problems = []
    if total < _ENOUGH_GRAINS * log.clock_resolution_s:
        sentence = (
            f"the time stamps span {total:.6g} s with a resolution of {log.clock_resolution_s:g} s: the number may be "
            f"wrong by {2 * log.clock_resolution_s / total:.1%}"
        )
        problems.append(Problem("coarse-clock", sentence, Severity.NOTE))
    if turns:
        share = between / (between + fsum(steps))
        epochs = f"{turns} changes of epoch" if turns > 1 else "1 change of epoch"
        sentence = (
            "the time between an epoch's last line and the next epoch's first line is left out, because it may include "
            f"validation; this also leaves out steps at {epochs}, at least {share:.1%} of all steps"
        )
        problems.append(Problem("between-epochs", sentence, Severity.of_effect(share)))
    return fsum(steps) * batch / total, problems
