"""The range of rates that parts of a log give: the slowest and the fastest run of neighbouring records."""

from dataclasses import dataclass

import numpy as np

from trainmark.logs.intervals import last_digit
from trainmark.logs.model import Floats, Meaning, ParsedLog, differences, median
from trainmark.measure.rules.series import NoNumberError, Series, series

_SHORTEST = 10
_MOST = 1 << 20
"""The number of records inspected at a log's start, to limit memory."""


@dataclass(frozen=True, slots=True)
class Span:
    """The lowest and the highest rate (units/s, all devices) of any stretch of at least ``records`` records.

    It is widened by the rounding of the printed digits.
    """

    low: float
    high: float
    records: int


def span_of_stretches(log: ParsedLog) -> Span | None:
    """Return the range of all stretches of ten records (a third of a shorter log); None if records have no rate.

    It includes means and harmonic means of the printed rates; for running averages, the printed ones and the rates of
    the steps between them.
    """
    try:
        found = series(log)
        rates = np.concatenate(list(found.rates(0, _MOST)) or [np.empty(0)])
    except NoNumberError:
        return None
    of_steps = _differenced(found, rates) if log.meaning is Meaning.RUNNING else 1 / rates
    rates, times = (values[np.isfinite(values) & (values > 0)] for values in (rates, of_steps))
    if not len(rates) or not len(times):
        return None
    width = min(_SHORTEST, max(1, len(rates) // 3))
    means = np.concatenate((_means(rates, width), 1 / _means(times, min(width, len(times)))))
    coarse = _coarseness(log)
    return Span(float(means.min()) / (1 + coarse), float(means.max()) / (1 - coarse), width)


def _coarseness(log: ParsedLog) -> float:
    """Return half the last printed digit as a share of the value: ``2ms`` may be anything from 1.5 to 2.5."""
    records = log.records
    printed = records.rate if records.rate is not None else records.step_time_s
    if printed is None:
        return 0.0
    values = printed.array(0, _MOST)
    values = values[np.isfinite(values) & (values > 0)]
    share = median(last_digit(values)) if len(values) else 0.0
    return share if share < 1 else 0.0


def _means(values: Floats, width: int) -> Floats:
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return (sums[width:] - sums[:-width]) / width


def _differenced(found: Series, rates: Floats) -> Floats:
    """Return the seconds per sample between running averages: the time up to step n is n / average."""
    records = found.log.records
    if records.step is None:
        return 1 / rates
    step = records.step.array(0, _MOST)
    seconds, steps = differences(step / rates), differences(step)
    return np.where(steps > 0, seconds / np.where(steps > 0, steps, 1.0), np.nan)
