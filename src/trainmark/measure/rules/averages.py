"""Running averages undone: what a program averages since its epoch's start tells the time of all steps between two
lines.

After ``n`` steps of ``b`` samples with an average of ``r`` samples a second, ``n b / r`` seconds have passed; the
difference of two such times is the time of the steps between, slow ones that no line shows included.
"""

from collections.abc import Iterator

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.model import MOST_OF_A_NOTE, ParsedLog, Problem, Severity
from trainmark.measure.rules.series import NoNumberError, global_batch, scope_factor

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
    for steps, times in _epochs(log, skipped):
        last = float(steps[-1]), float(times[-1])
        if len(steps) > 1 and times[-1] > times[0]:
            counts += float(steps[-1] - steps[0])
            seconds += float(times[-1] - times[0])
    if last is None:
        raise NoNumberError("no-averages", "no record after the warm-up has a usable average")
    between = counts / seconds if seconds > 0 else None
    if between is not None and 2 * counts >= last[0]:
        return between, skipped, []
    if last[0] <= log.warmup_steps:
        raise NoNumberError(
            "only-warm-up", f"the last average covers {last[0]:.0f} steps, all of them warm-up"
        )
    value = last[0] / last[1]
    sentence = f"the last line's average of {last[0]:.0f} steps since their start is given: the lines cover few of them"
    problems = [Problem("by-average", sentence, Severity.NOTE)]
    if between is not None and abs(between / value - 1) > MOST_OF_A_NOTE:
        problems.append(
            Problem(
                "average-differs",
                f"the {counts:.0f} steps between the lines ran at {between:.6g}, {between / value - 1:+.1%} from it",
            )
        )
    return value, skipped, problems


def _epochs(log: ParsedLog, skipped: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield of each epoch the samples done up to each record and the seconds that they took.

    A sample count is steps x the samples of a step; of a record whose batch is not that of the epoch's first (the rest
    of the data, at an epoch's end) the average says nothing of the others, and it is left out.
    """
    records = log.records
    if records.step is None:
        raise NoNumberError("no-steps", "running averages cannot be undone without step counters")
    factor, batch = _scale(log)
    steps = records.step.array(skipped) - log.averages_from
    epochs = records.epoch.array(skipped) if records.epoch is not None else np.zeros(len(steps))
    rates = records.average_rate.array(skipped) * factor if records.average_rate is not None else None
    times = records.average_time_s.array(skipped) if records.average_time_s is not None else None
    for part in np.split(np.arange(len(steps)), np.flatnonzero(np.diff(epochs)) + 1):
        if not len(part):
            continue
        done = steps[part]
        with np.errstate(divide="ignore", invalid="ignore"):
            if rates is None:
                assert times is not None
                passed = done * times[part] / batch
            else:
                passed = done / rates[part]
            good = np.isfinite(passed) & (done > 0) & (passed > 0)
            if rates is not None and times is not None:
                good &= _of_the_usual_batch(rates[part] / factor, times[part])
        # A bar is drawn again after its last step, when validation is in the average too: the first of equals counts.
        good &= np.concatenate(([True], done[1:] > np.maximum.accumulate(done)[:-1]))
        if good.any():
            yield done[good], passed[good]


def _of_the_usual_batch(rates: Floats, times: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    batches = rates * times
    grain = 0.5 + rates * _TIME_GRAIN_S
    same: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.abs(batches - np.nanmax(batches)) <= 2 * np.maximum(
        grain, grain[0]
    )
    return same


def _scale(log: ParsedLog) -> tuple[float, int]:
    """Return the factor from a printed rate to all devices, and the samples of a step where only times are printed."""
    if log.records.average_rate is not None:
        return scope_factor(log), 1
    return 1.0, global_batch(log)
