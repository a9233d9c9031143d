"""A log's records as rates over all devices, and the formulas over them; the scope of a rate is resolved here only.

The formulas take one or a few passes and constant memory, because a log may have ten million records.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import fsum

import numpy as np

from trainmark.logs.intervals import counts_from_zero, steps_covered
from trainmark.logs.model import Floats, ParsedLog, Problem, Scope, Severity, differences, median

_BLOCK = 1 << 15
Blocks = Callable[[], Iterator[Floats]]
"""A function that returns the same blocks of values at each call."""
_RADIX_BITS = 16


class NoNumberError(Exception):
    """A rule cannot compute a number from this log: ``problem`` has the reason, ``needs`` the flags that would help."""

    def __init__(self, code: str, message: str, needs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problem = Problem(code, message)
        self.needs = needs


@dataclass(frozen=True, slots=True)
class Series:
    """The rates of ``log`` over all devices, record by record.

    ``factor`` turns a printed rate into a rate of all devices; where the log prints step times instead of rates,
    ``global_batch`` (samples of a step) divided by them is the rate.
    """

    log: ParsedLog
    factor: float
    global_batch: int | None

    def __len__(self) -> int:
        """Return the number of records."""
        return self.log.records.count

    def rates(self, start: int = 0, stop: int | None = None) -> Iterator[Floats]:
        """Yield the rates (units/s, all devices) of the records ``start`` … ``stop``; NaN where a record has none."""
        records = self.log.records
        if records.rate is not None:
            for block in records.rate.blocks(start, stop):
                yield _positive(block) * self.factor
        elif records.step_time_s is not None and self.global_batch is not None:
            for block in records.step_time_s.blocks(start, stop):
                yield self.global_batch / _positive(block)

    def weights(self, start: int = 0, stop: int | None = None) -> Iterator[Floats]:
        """Yield the number of samples of each record, up to a common factor: its own count, else its steps.

        A record covers the steps since the one before it (``trainmark.logs.intervals.steps_covered``). A counter of the
        work done shows that of a step, which padding or a ramp of the batch changes.
        """
        work = _usual_work(self.log)
        for first, covered in self._steps(start, stop):
            yield covered if work is None else covered * _work_per_step(self.log, first, len(covered), work)

    def _steps(self, start: int, stop: int | None) -> Iterator[tuple[int, Floats]]:
        """Yield the first record of each block, and the samples of its records, or else their steps."""
        records, usual = self.log.records, self.log.step_interval
        stop = records.count if stop is None else min(stop, records.count)
        if records.samples is not None:
            for block in records.samples.blocks(start, stop):
                yield start, block
                start += len(block)
            return
        steps = None if self.log.counts_samples else records.step
        from_zero = steps is not None and counts_from_zero(records)
        for first in range(start, stop, _BLOCK):
            last = min(first + _BLOCK, stop)
            if steps is None:
                yield first, np.ones(last - first)
            else:
                yield first, steps_covered(steps, first, last, usual, from_zero=from_zero)


_HEAD = 4096
"""Records at the start of a log that show whether its counter of work can be used."""
_MOST_ROUNDING = 0.02
_MOSTLY = 0.9
_NEAR_END = 8


def _usual_work(log: ParsedLog) -> float | None:
    """Return the usual work of a step by a counter of the work done; None if the log has none that is fine enough.

    A printed time of a step is not weighted by its work: the samples over it are those of the usual step.
    """
    records = log.records
    if records.consumed is None or records.samples is not None or records.rate is None or log.counts_samples:
        return None
    counts = records.consumed.array(0, _HEAD)
    work = _rises_per_step(log, 0, len(counts))
    rises = work[work > 0]
    if not len(rises) or len(rises) < _MOSTLY * (len(counts) - 1):
        return None
    usual = median(rises)
    late = records.consumed.array(max(0, records.count - _NEAR_END), records.count)
    grain = max(_last_digit(counts[:_NEAR_END]), _last_digit(late))
    return usual if grain <= _MOST_ROUNDING * usual * log.step_interval else None


def _last_digit(counts: Floats) -> float:
    """Return the unit of the last digit that is not 0 in any of ``counts``: a large one may be rounded (``5.24M``)."""
    whole = np.round(counts[np.isfinite(counts) & (counts > 0)])
    unit = 1.0
    while len(whole) and unit < whole.max() and not (whole % (10 * unit)).any():
        unit *= 10
    return unit


def _work_per_step(log: ParsedLog, first: int, count: int, usual: float) -> Floats:
    """Return the work of a step in each of ``count`` records from ``first`` on; ``usual`` where it is unknown."""
    work = _rises_per_step(log, first, count)
    return np.where(work > 0, work, usual)


def _rises_per_step(log: ParsedLog, first: int, count: int) -> Floats:
    """Return by how much the counter of work rises in a step of each record; NaN for the log's first record."""
    records, before = log.records, max(first - 1, 0)
    assert records.consumed is not None
    rises = differences(records.consumed.array(before, first + count))
    if records.step is not None:
        steps = differences(records.step.array(before, first + count))
        rises = np.where(steps > 0, rises / np.where(steps > 0, steps, 1), np.nan)
    return rises if first else np.concatenate(([np.nan], rises))


def series(log: ParsedLog) -> Series:
    """Return the rates of ``log``; raise ``NoNumberError`` if a fact that they need is unknown."""
    records = log.records
    if not records.count:
        raise NoNumberError("no-records", "the log has no training record")
    if records.rate is None and records.step_time_s is None:
        raise NoNumberError("no-rates", "the records of this format have no rate")
    if records.rate is None:
        return Series(log, 1.0, global_batch(log))
    return Series(log, scope_factor(log), log.global_batch)


def scope_factor(log: ParsedLog) -> float:
    """Return the factor from a printed rate to that of all devices; raise ``NoNumberError`` if it is unknown."""
    facts = log.facts
    if log.scope is Scope.DEVICE:
        return float(_known(log, "the printed rate is per device", gpus=facts.gpus)[0])
    if log.scope is Scope.NODE:
        return float(_known(log, "the printed rate is per node", nodes=facts.nodes)[0])
    return 1.0


def global_batch(log: ParsedLog) -> int:
    """Return the samples of one printed step over all devices; raise ``NoNumberError`` if they are unknown."""
    facts = log.facts
    if facts.global_batch is not None and not log.contested & {"gpus", "batch_per_device"}:
        return facts.global_batch
    why = f"the records have times but no rates{_usual_step(log)}"
    _known(log, why, gpus=facts.gpus, batch_per_device=facts.batch_per_device)
    if log.global_batch is None:
        raise NoNumberError("unknown-batch", f"{why}, and the number of micro-batches per step is unknown")
    return log.global_batch


def _usual_step(log: ParsedLog) -> str:
    """Return the median time of a step of the first records in brackets; empty if they have none."""
    times = log.records.step_time_s
    first = np.empty(0) if times is None else times.array(0, min(log.records.count, _BLOCK))
    usable = first[np.isfinite(first)]
    return f" (a step takes {np.median(usable):.4g} s, the median)" if len(usable) else ""


def scope_problems(log: ParsedLog) -> list[Problem]:
    """Return the problem of a rate that is scaled up from one node."""
    nodes = log.facts.nodes
    if log.scope is Scope.NODE and nodes and nodes > 1:
        sentence = f"the log is from one of {nodes} nodes; the value assumes that the others are equally fast"
        return [Problem("one-node-of-many", sentence)]
    return []


_OF_THE_PACE = frozenset({"stall", "few-records", "pace-changes", "too-fast"})


def weight_of(log: ParsedLog, effect: float, skipped: int) -> Severity:
    """Return the severity of uneven records with ``effect``; only a note if another doubt is about these records.

    The records are those after the first ``skipped`` ones.
    """
    doubted = any(
        p.severity is Severity.DOUBT and p.code in _OF_THE_PACE for p in log.problems_after(skipped)
    )
    return Severity.NOTE if doubted else Severity.of_effect(effect)


def not_finite(found: Series, start: int) -> list[Problem]:
    """Return a problem if records from ``start`` on have no usable rate."""
    bad = sum(int(np.count_nonzero(~np.isfinite(block))) for block in found.rates(start))
    if not bad:
        return []
    sentence = (
        f"{bad} of {len(found) - start} records are ignored because their rate is not a positive number"
    )
    return [Problem("rate-not-finite", sentence, Severity.DOUBT)]


_FLAGS = {
    "nodes": ("nodes", "--nodes"),
    "gpus": ("devices", "--gpus"),
    "batch_per_device": (
        "batch per device",
        "--batch (of one device, or of one group that a model is split over)",
    ),
}


def _known(log: ParsedLog, why: str, **facts: int | None) -> list[int]:
    """Return the values of ``facts``; raise ``NoNumberError`` with all that are unknown."""
    for name in facts:
        if name in log.contested:
            raise NoNumberError(
                f"contested-{name}", f"{why}, but {_FLAGS[name][1].split()[0]} contradicts the log"
            )
    missing = [name for name, value in facts.items() if value is None]
    if missing:
        words = " and ".join(_FLAGS[name][0] for name in missing)
        flags = " and ".join(_FLAGS[name][1] for name in missing)
        raise NoNumberError(
            f"unknown-{missing[0]}",
            f"{why}, and neither the log nor its name states {words}: add {flags}",
            tuple(_FLAGS[name][1].split()[0] for name in missing),
        )
    return [value for value in facts.values() if value is not None]


def _positive(values: Floats) -> Floats:
    """Return ``values`` with NaN for values that cannot be rates or times."""
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def count(blocks: Blocks) -> int:
    """Return the number of finite values."""
    return sum(int(np.count_nonzero(np.isfinite(block))) for block in blocks())


def mean(blocks: Blocks) -> float:
    """Return the arithmetic mean of the finite values; NaN if there are none."""
    size = count(blocks)
    return fsum(float(np.nansum(block)) for block in blocks()) / size if size else math.nan


def harmonic_mean(blocks: Blocks, weights: Blocks) -> float:
    """Return sum(w) / sum(w / r): with w samples and r samples per second, all samples over all time.

    The result is NaN if no record has both.
    """
    samples, seconds = [], []
    for rates, weight in _pairs(blocks(), weights()):
        good = np.isfinite(rates) & np.isfinite(weight)
        samples.append(float(weight[good].sum()))
        seconds.append(float((weight[good] / rates[good]).sum()))
    total = fsum(seconds)
    return fsum(samples) / total if total > 0 else math.nan


def order_statistic(blocks: Blocks, k: int) -> float:
    """Return the ``k``-th smallest (from 0) of the positive values; exact, in four passes and constant memory.

    The bits of positive doubles sort like the numbers: each pass counts one digit of 16 bits. A single block is sorted.
    """
    first = list(islice(blocks(), 2))
    if len(first) == 1:
        return float(np.sort(first[0][np.isfinite(first[0])])[k])
    prefix = 0
    for shift in range(64 - _RADIX_BITS, -1, -_RADIX_BITS):
        counts = np.zeros(1 << _RADIX_BITS, dtype=np.int64)
        for block in blocks():
            bits = block[np.isfinite(block)].view(np.uint64)
            bits = (
                bits[(bits >> np.uint64(shift + _RADIX_BITS)) == prefix] if shift < 64 - _RADIX_BITS else bits
            )
            digits = ((bits >> np.uint64(shift)) & np.uint64((1 << _RADIX_BITS) - 1)).astype(np.int64)
            counts += np.bincount(digits, minlength=1 << _RADIX_BITS)
        below = np.cumsum(counts)
        digit = int(np.searchsorted(below, k, side="right"))
        k -= int(below[digit - 1]) if digit else 0
        prefix = (prefix << _RADIX_BITS) | digit
    return float(np.array([prefix], dtype=np.uint64).view(np.float64)[0])


def block_median(blocks: Blocks) -> float:
    """Return the median; NaN if there are no values."""
    size = count(blocks)
    if not size:
        return math.nan
    middle = order_statistic(blocks, size // 2)
    return middle if size % 2 else (order_statistic(blocks, size // 2 - 1) + middle) / 2


def trimmed_mean(blocks: Blocks, drop: int) -> float:
    """Return the mean without the ``drop`` smallest and the ``drop`` largest values."""
    size = count(blocks)
    remaining = size - 2 * drop
    low, high = order_statistic(blocks, drop), order_statistic(blocks, size - drop - 1)
    if low == high:
        return low
    sums, between, up_to_low = [], 0, 0
    for block in blocks():
        good = block[np.isfinite(block)]
        middle = good[(good > low) & (good < high)]
        sums.append(float(middle.sum()))
        between += len(middle)
        up_to_low += int(np.count_nonzero(good <= low))
    # Only some of the values equal to an edge are dropped; the others count.
    lows = up_to_low - drop
    return (fsum(sums) + lows * low + (remaining - between - lows) * high) / remaining


def _pairs(left: Iterator[Floats], right: Iterator[Floats]) -> Iterator[tuple[Floats, Floats]]:
    """Yield blocks of two equally long columns cut at the same places."""
    b = np.empty(0)
    for block in left:
        a = block
        while len(a):
            if not len(b):
                b = next(right)
            size = min(len(a), len(b))
            yield a[:size], b[:size]
            a, b = a[size:], b[size:]
