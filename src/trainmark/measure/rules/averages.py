"""Running averages undone: what a program averages since its epoch's start tells the time of all steps between two
lines.

After ``n`` steps of ``b`` samples with an average of ``r`` samples a second, ``n b / r`` seconds have passed; the
difference of two such times is the time of the steps between, slow ones that no line shows included. An epoch that
begins within the window is in it from its start, where no step was done and no second passed; of the first one the
window has what follows its first record.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.columns import Floats
from trainmark.logs.model import MOST_OF_A_NOTE, ParsedLog, Problem, Severity
from trainmark.measure.rules.epochs import parts
from trainmark.measure.rules.series import NoNumberError, global_batch, scope_factor

Bools = NDArray[np.bool_]

_LEFT_OUT = 0.02
_TIME_GRAIN_S = 0.0006
"""Programs print average step times with three decimals or more."""


def has_averages(log: ParsedLog) -> bool:
    """Say whether the records hold averages since the epoch's start beside what they say of single steps."""
    return log.records.average_rate is not None or log.records.average_time_s is not None


def by_averages(log: ParsedLog, skipped: int) -> tuple[float, int, list[Problem]]:
    """Return (units/s, skipped records, problems) of the steps after the first ``skipped`` records.

    Where these are fewer than half of what the last average covers (an excerpt, a short log), that average is the
    better witness: it is given, and a difference is a problem. Raises ``NoNumberError``.
    """
    counts, seconds = 0.0, 0.0
    last: tuple[float, float] | None = None
    epochs = left_out = 0
    for span in _epochs(log, skipped):
        last, epochs, left_out = span.last, epochs + 1, left_out + span.left_out
        # Of an epoch of which nothing but its first steps can be used it is not known how the others went.
        told = span.size > 1 or (span.whole and span.last[0] >= log.step_interval)
        if told and span.last[1] > span.first[1]:
            counts += span.last[0] - span.first[0]
            seconds += span.last[1] - span.first[1]
    if last is None:
        raise NoNumberError("no-averages", "no record after the warm-up has a usable average")
    between = counts / seconds if seconds > 0 else None
    problems = []
    if left_out > epochs + _LEFT_OUT * (log.records.count - skipped):  # an epoch's last batch may be smaller
        sentence = (
            f"the average rate and time of {left_out} records make a smaller batch than others of their epoch: "
            "they are left out, and either they or the others are damaged"
        )
        problems.append(Problem("batches-differ", sentence))
    if unknown := sum(one.until - one.record for one in log.restarts if not one.fresh):
        sentence = f"the averages after the restart are of an unknown number of steps: {unknown} records are left out"
        problems.append(Problem("averages-restarted", sentence))
    if between is not None and 2 * counts >= last[0]:
        return between, skipped, problems
    if last[0] <= log.warmup_steps:
        raise NoNumberError(
            "only-warm-up", f"the last average covers {last[0]:.0f} steps, all of them warm-up"
        )
    value = last[0] / last[1]
    sentence = f"the last line's average of {last[0]:.0f} steps since their start is given: the lines cover few of them"
    problems.append(Problem("by-average", sentence, Severity.NOTE))
    if between is not None and abs(between / value - 1) > MOST_OF_A_NOTE:
        problems.append(
            Problem(
                "average-differs",
                f"the {counts:.0f} steps between the lines ran at {between:.6g}, {between / value - 1:+.1%} from it",
            )
        )
    return value, skipped, problems


@dataclass(slots=True)
class _Span:
    """What the usable records of an epoch say: samples done and seconds passed at the first and at the last of them.

    Of a ``whole`` epoch the first is its start, of which both are 0.
    ``highest`` is the most that any record has done, ``grain`` how exactly the first one tells the epoch's batch, and
    ``left_out`` counts records of another batch.
    """

    size: int = 0
    left_out: int = 0
    whole: bool = False
    first: tuple[float, float] = (0.0, 0.0)
    last: tuple[float, float] = (0.0, 0.0)
    highest: float = -np.inf
    grain: float = np.nan

    def meet(self, done: Floats, passed: Floats, good: Bools) -> None:
        """Take in the next records of the epoch, those of them that are ``good``."""
        # A bar is drawn again after its last step, when validation is in the average too: the first of equals counts.
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
    """Yield of each epoch the samples done and the seconds passed at its first and its last usable record.

    A sample count is steps x the samples of a step; of a record whose batch is not that of the epoch's first (the rest
    of the data, at an epoch's end) the average says nothing of the others, and it is left out.
    """
    records = log.records
    if records.step is None:
        raise NoNumberError("no-steps", "running averages cannot be undone without step counters")
    factor, batch = _scale(log)
    rate, time = records.average_rate, records.average_time_s
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
                alike = np.abs(printed * times - most) <= 2 * np.maximum(grain, span.grain)
                span.left_out += int(np.count_nonzero(good & ~alike))
                good &= alike
        span.meet(done, passed, good)
    if span.size:
        yield span


def _largest_batches(log: ParsedLog, skipped: int, factor: float) -> Iterator[float]:
    """Yield the largest batch of each epoch, by its average rates and times; NaN where a log does not print both."""
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
    """Return the factor from a printed rate to all devices, and the samples of a step where only times are printed."""
    if log.records.average_rate is not None:
        return scope_factor(log), 1
    return 1.0, global_batch(log)
