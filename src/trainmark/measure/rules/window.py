"""Trainmark's own rule: samples over time in the window after the warm-up, never a mean of rates.

The steps that a printed rate averages over decide how the window's time is computed:

- a record covers exactly its own steps: sum(samples) / sum(samples / rate);
- the rate is a running average since the epoch's start, or that of one step in an interval: steps x global batch
  over the difference of the time stamps within each epoch; without stamps, differences of the running averages,
  or the harmonic mean of the sampled steps, with a problem;
- the log has one step's rate and also an average since the epoch's start: the difference of two such averages
  (``trainmark.measure.rules.averages``);
- no rate: the time stamps.

A built-in worker reports its window, from a barrier at its start to the slowest rank's end.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import fsum

import numpy as np

from trainmark.logs.columns import differences, median
from trainmark.logs.model import MOST_OF_A_NOTE, Meaning, OwnRun, ParsedLog, Problem, Severity
from trainmark.logs.plausibility.intervals import counts_from_zero, last_digit, steps_since_restart
from trainmark.logs.plausibility.step_timing import MATTERS
from trainmark.measure.rules.averages import (
    NO_STEPS,
    by_averages,
    has_averages,
    parts,
    rounding_of_averages,
)
from trainmark.measure.rules.formulas import count, harmonic_mean, mean
from trainmark.measure.rules.series import (
    NoNumberError,
    Series,
    global_batch,
    not_finite,
    scope_problems,
    series,
    weight_of,
)
from trainmark.measure.rules.short_logs import all_skipped, short_warmup

_FEWEST_GRAINS = 100
"""The least length of a window, in units of the time stamps' resolution: its error is then below 2 %."""
_UNEVEN = 0.02
_FEW_DIGITS = 0.025
"""Rounding of the printed figures that is not mentioned."""
_FEWEST_SAMPLES = 3
_BLOCK = 1 << 15


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
            f"({value:.6g}): it is that of the printed step times"
        )
        return by_times, skipped, [*problems, *more, Problem("by-step-times", sentence, Severity.NOTE)]
    return value, skipped, [*problems, *more, *_rounded(log)]


def _rounded(log: ParsedLog) -> Iterator[Problem]:
    """Yield the problem that the printed figures have few digits."""
    if log.figure_rounding > _FEW_DIGITS:
        sentence = f"the figures are printed with so few digits that the number is known to {log.figure_rounding:.0%}"
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
        f"the averages have so few digits that they give the number to {share:.1%} ({value:.6g}): it is that of the "
        "time stamps"
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
        f"{refused}, and their lines no rate and no time of a step: print the time before each line, such as by "
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
    if total < _FEWEST_GRAINS * log.clock_resolution_s or not fsum(steps):
        raise NoNumberError(
            "coarse-clock",
            f"the time stamps are too coarse: after the warm-up they span {total:.6g} s with a resolution of "
            f"{log.clock_resolution_s:g} s, and a number needs {_FEWEST_GRAINS * log.clock_resolution_s:g} s of them",
        )
    problems = []
    if turns:
        share = between / (between + fsum(steps))
        epochs = f"{turns} changes of epoch" if turns > 1 else "1 change of epoch"
        sentence = (
            "the time between an epoch's last line and the next epoch's first line is left out, because it may include "
            f"validation; this also leaves out steps at {epochs}, at least {share:.1%} of all steps"
        )
        problems.append(Problem("between-epochs", sentence, Severity.of_effect(share)))
    return fsum(steps) * batch / total, problems
