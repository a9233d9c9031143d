"""DLPerf's conventions: iterations 21 to 120 by printed speed or by time; mean, median and speedup over repeats.

Source: Oneflow-Inc/DLPerf, "计算规则" of the TensorFlow ResNet-50 v1.5 report: ``extract_tensorflow_logs.py`` averages
the printed speeds of the last 100 of 120 iterations, ``extract_tensorflow_logs_time.py`` divides their samples by the
time that they took; each set of repeats gives a mean and a median; the speedup is by the median, against 1n1g.
"""

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainmark.logs.model import ParsedLog, median
from trainmark.measure.rules.series import NoNumberError, global_batch, series

FIRST, LAST = 20, 120
"""The iterations at which the convention's window opens and closes."""
BASELINE = "1n1g"


@dataclass(frozen=True, slots=True)
class PlacementSummary:
    """The repeats of one placement: speeds in units/s, rounded to two decimals as the scripts print them.

    ``speedup`` is ``None`` without a baseline to divide by.
    """

    average_speed: float
    median_speed: float
    speedup: float | None


def summarise(
    speeds: Mapping[str, Sequence[float]], baseline: str = BASELINE, unlike: Container[str] = ()
) -> dict[str, PlacementSummary]:
    """Return mean, median and speedup of each placement (``"4n8g"`` -> speeds of its repeats, in their order).

    Placements in ``unlike`` have other hardware than the baseline and no speedup. Placements without a speed are left
    out. Like DLPerf's scripts, this rounds speeds, means, medians and speedups to two decimals and divides the rounded
    medians, so that their tables are reproduced to the digit.
    """
    rounded = {name: [two_decimals(speed) for speed in values] for name, values in speeds.items() if values}
    medians = {name: two_decimals(median(values)) for name, values in rounded.items()}
    base = medians.get(baseline)
    return {
        name: PlacementSummary(
            average_speed=two_decimals(sum(values) / len(values)),
            median_speed=medians[name],
            speedup=two_decimals(medians[name] / base) if base and name not in unlike else None,
        )
        for name, values in rounded.items()
    }


def no_speedup(placement: str, kinds: Iterable[Hashable], baseline: str, others: Iterable[Hashable]) -> str:
    """Return the sentence that a placement has no speedup because its hardware differs from the baseline's."""
    named = {
        side: " and ".join(sorted(kind for kind in of if isinstance(kind, str)))
        for side, of in ((placement, kinds), (baseline, others))
    }
    devices = ", ".join(f"{side} ran on {words}" for side, words in named.items() if words)
    return f"no speedup, because the hardware differs: {devices or f'{placement} and {baseline}'}"


def two_decimals(value: float) -> float:
    """Return ``value`` with two decimals, rounding halves to even as numpy does: 5099.425 becomes 5099.42."""
    return float(np.round(value, 2))


def dlperf_speed(log: ParsedLog) -> tuple[float, int]:
    """Return (mean of the printed speeds of iterations 21 … 120, records left out before them)."""
    found = series(log)
    in_window, before = _iterations(log)
    rates = np.concatenate(list(found.rates(0, before + len(in_window))))[before:]
    good = rates[np.isfinite(rates)]
    if not len(good):
        raise NoNumberError("no-rates", "no iteration between 20 and 120 has a rate")
    return float(good.mean()), before


def dlperf_time(log: ParsedLog) -> tuple[float, int]:
    """Return (samples of iterations 21 … 120 over the time between them, records left out before them)."""
    if log.records.clock_s is None or log.records.step is None:
        raise NoNumberError("no-clock", "the rule needs time stamps and iteration numbers")
    if log.usual_batch is not None:
        raise NoNumberError(
            "batch-changes", "the global batch size changes, but the rule needs a constant one"
        )
    batch = global_batch(log)
    in_window, before = _iterations(log)
    opening = max(before - 1, 0)
    steps = log.records.step.array(opening, before + len(in_window))
    clock = log.records.clock_s.array(opening, before + len(in_window))
    seconds = float(clock[-1] - clock[0])
    if not seconds > 0:
        raise NoNumberError("no-clock", "the time stamps do not advance between iterations 20 and 120")
    return float(steps[-1] - steps[0]) * batch / seconds, before


def _iterations(log: ParsedLog) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], int]:
    """Return the numbers of the iterations in the convention's window, and the number of records before it."""
    if log.records.step is None:
        raise NoNumberError("no-steps", "the rule needs iteration numbers")
    steps = log.records.step.array(0, 4 * LAST)
    # Programs that count from 0 print 20 for the 21st iteration; one that hides its warm-up starts with 20.
    from_zero = len(steps) > 0 and (steps[0] == 0 or (steps[0] == FIRST and log.step_interval == 1))
    numbers = steps + 1 if from_zero else steps
    reached = np.flatnonzero(numbers >= LAST)
    end = int(reached[0]) if len(reached) else len(numbers)
    if any(one.record <= end for one in log.restarts):
        raise NoNumberError(
            "restarted",
            f"the run was restarted before iteration {LAST}: the rule needs {LAST} iterations without a restart",
        )
    # A counter that is reset later, to a checkpoint or by an epoch, reaches the same numbers again.
    numbers = numbers[: end + 1]
    before = int(np.count_nonzero(numbers <= FIRST))
    in_window = numbers[(numbers > FIRST) & (numbers <= LAST)]
    if not len(in_window) or numbers.max() < LAST:
        raise NoNumberError(
            "too-short", f"the rule needs {LAST} iterations; the log has {log.records.count} records"
        )
    return in_window, before
