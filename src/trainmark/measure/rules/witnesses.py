"""Witnesses: all ways to the throughput that one log allows, compared with the number in one place.

A number is confirmed if two independent witnesses agree. If they differ by more than 5 %, the number has a doubt that
names both, and an explanation if one fits. Time stamps are compared by the median interval, because evaluations and
checkpoints between two records are not a contradiction.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trainmark.logs.hints import is_of_sequences
from trainmark.logs.intervals import Intervals, first_interval, intervals, measure_timing
from trainmark.logs.model import Floats, Meaning, ParsedLog, Problem, Scope, Witness, differences, median
from trainmark.measure.rules.series import NoNumberError, Series, global_batch, harmonic_mean, series
from trainmark.measure.rules.window import by_averages, has_averages

TOLERANCE = 0.05
"""Two witnesses agree if they differ by at most this share of the number."""
_EXPLAINED = 0.03
"""A factor explains a disagreement if it fits within this share."""
_COMPARED = frozenset(
    {
        "witnesses-disagree",
        "rates-contradict-batch",
        "rates-contradict-clock",
        "average-differs",
        "totals-disagree",
        "summary-differs",
        "batch-changes",
    }
)
"""Problems that compare the same witnesses more closely."""
COUNTER = "consumed counter"
"""Name of the witness of consumed samples or tokens."""
_OF_TOKENS = frozenset({"step time", "time stamps", COUNTER})
_MOST_ROUNDING = 0.02
"""Largest uncertainty of the units by the counter's last digit: ``5.24M`` is known to 10 000."""
_NEAR_END = 8
_MOST_DIGITS = 12


def find_witnesses(log: ParsedLog, skipped: int, value: float) -> tuple[Witness, ...]:
    """Return every way to the throughput after the first ``skipped`` records, in the log's unit over all devices.

    ``value`` is the number by the rule ``window``, which is itself computed by one of the ways.
    """
    if log.own_run is not None or log.records.count <= skipped:
        return log.witnesses
    with np.errstate(all="ignore"):
        found = (*_of_records(log, skipped, value), *log.witnesses, *_of_summary(log))
    return tuple(witness for witness in found if 0 < witness.value < float("inf"))


def _of_records(log: ParsedLog, skipped: int, value: float) -> Iterator[Witness]:
    records = log.records
    batch = _batch(log)
    rate = _by_rates(log, skipped, value)
    if rate is not None:
        yield rate
    by_times = None
    is_comparable = log.meaning is not Meaning.RUNNING and not has_averages(log) and not log.counts_samples
    if records.step_time_s is not None and batch is not None and is_comparable:
        times = records.step_time_s
        # A longer interval has more steps of its time.
        weights = Series(log, 1.0, batch).weights
        seconds = 1 / harmonic_mean(
            lambda: (1 / block for block in times.blocks(skipped, records.count)), lambda: weights(skipped)
        )
        if seconds > 0:  # a step of no time is a mistake of the log
            by_times = Witness(
                "step time", batch / seconds, f"{batch} {_units(log)} a step / {seconds:.6g} s"
            )
        # A sampled step's time is compared with that step's rate; without one, it is the number itself.
        if by_times is not None and (log.meaning is Meaning.INTERVAL or rate is not None):
            yield by_times
    if records.clock_s is not None:
        yield from _of_stamps(log, skipped, rate or by_times, batch)
    if (counter := count_consumed(log, skipped)) is not None:
        value = counter.units / counter.seconds
        how = f"{counter.units:.6g} {_units(log)} by the counter / {counter.seconds:.6g} s"
        yield Witness(COUNTER, value, how)


def _by_rates(log: ParsedLog, skipped: int, value: float) -> Witness | None:
    """Return the witness of the printed rates, or of the averages of lines whose other figures cover one step."""
    if has_averages(log):
        if log.records.clock_s is not None:
            # The number may be that of the clock, if the averages have few digits.
            value = by_averages(log, skipped)[0]
        return Witness("running average", value, "the difference of two averages since the epoch's start")
    if log.records.rate is None or log.meaning is Meaning.RUNNING:
        return None
    if log.meaning is Meaning.SAMPLED or log.records.step_time_s is not None:
        # The number may use the clock while the scope of the rates is unknown, or the times if the rates are coarse.
        try:
            found = series(log)
        except NoNumberError:
            return None
        if any((block == 0).any() for block in log.records.rate.blocks(skipped)):
            # The time of a step whose rate is cut to zero is unknown.
            return None
        value = harmonic_mean(lambda: found.rates(skipped), lambda: found.weights(skipped))
    return Witness("printed rate", value, "samples over time of the printed rates")


def _of_stamps(log: ParsedLog, skipped: int, printed: Witness | None, batch: int | None) -> Iterator[Witness]:
    """Yield the witness of the time stamps: by the records' own rates or times (``printed``), or by their steps."""
    pace = measure_timing(log)
    if printed is not None and pace.ratios:
        ratio = median(pace.ratios)
        if not ratio > 0 or 2 * log.clock_resolution_s > TOLERANCE * pace.clock_s:
            return
        name = "printed rate" if printed.name == "running average" else printed.name
        how = f"the {name} / {ratio:.4g}, the clock's time over the records'"
        yield Witness("time stamps", printed.value / ratio, how)
    elif (
        printed is None
        and batch is not None
        and pace.by_clock
        and pace.window_s > 0
        and not log.counts_samples
        # A short log may have another warm-up than its timing.
        and max(skipped, 1) == first_interval(log)
    ):
        steps = sum(chunk.work for chunk in pace.chunks)
        if log.records.samples is None and steps > 0:
            value = steps * batch / pace.window_s
            yield Witness(
                "time stamps", value, f"{steps:.0f} steps of {batch} {_units(log)} / {pace.window_s:.6g} s"
            )


def _of_summary(log: ParsedLog) -> Iterator[Witness]:
    summary = log.figures.get("summary")
    if summary is not None:
        yield Witness("program's summary", summary, "the result that the program prints at its end")


def _batch(log: ParsedLog) -> int | None:
    if (log.unit or "").startswith("tokens/") and is_of_sequences(log.facts):
        return None  # its tokens are unknown
    try:
        return global_batch(log)
    except NoNumberError:
        return None


def _units(log: ParsedLog) -> str:
    return (log.unit or "samples/s").removesuffix("/s")


def disagreement(
    log: ParsedLog, value: float, witnesses: tuple[Witness, ...], reported: frozenset[str]
) -> list[Problem]:
    """Return the doubt about witnesses that differ from ``value``, unless one in ``reported`` is about it."""
    off = [one for one in witnesses if abs(one.value / value - 1) > TOLERANCE]
    if not off:
        return []
    worst = max(off, key=lambda one: abs(np.log(one.value / value)))
    reason = explain_factor(log, worst.value / value) or _explain_tokens(log, worst, value)
    if reported & _COMPARED and not (reason and reported & _COMPARED == {"rates-contradict-clock"}):
        return []
    sentence = (
        f"the number is {value:.6g}, but by the {worst.name} it is {worst.value:.6g} ({worst.how})"
        f"{': ' + reason if reason else ''}"
    )
    return [Problem("witnesses-disagree", sentence)]


def explain_factor(log: ParsedLog, ratio: float) -> str | None:
    """Return the usual mistake by which one witness is ``ratio`` times another; None if none fits."""
    facts = log.facts
    batch = facts.global_batch or log.global_batch
    factors = (
        (facts.gpus, f"one of them counts a single device of {facts.gpus}"),
        (facts.nodes, f"one of them counts a single node of {facts.nodes}"),
        (facts.accumulation, f"one of them counts one micro-batch of {facts.accumulation} in a step"),
        (batch, f"one of them counts steps, the other {_units(log)}"),
        (facts.sequence_length, f"one of them counts samples of {facts.sequence_length} tokens"),
    )
    for factor, sentence in factors:
        if factor is not None and factor > 1 and _fits(ratio, float(factor)):
            return sentence
    devices = _other_devices(log, ratio)
    if devices is not None:
        return (
            f"the printed rate is of one device: by the other the run has {devices} devices, not {facts.gpus}"
        )
    if log.step_interval > 1 and _fits(ratio, float(log.step_interval)):
        return f"one of them counts one step of the {log.step_interval} that a record covers"
    return None


def _other_devices(log: ParsedLog, ratio: float) -> int | None:
    """Return the number of devices for which a device's rate gives the other witness; None if it is no plain factor."""
    gpus = log.facts.gpus
    factor = round(max(ratio, 1 / ratio))
    if log.scope is not Scope.DEVICE or gpus is None or factor < 2 or not _fits(ratio, float(factor)):
        return None
    if ratio > 1:
        return gpus * factor
    return gpus // factor if gpus % factor == 0 else None


def _explain_tokens(log: ParsedLog, witness: Witness, value: float) -> str | None:
    """Return why ``witness``, by the tokens of a full batch or of a counter, may differ from a printed rate."""
    if _units(log) != "tokens" or log.records.rate is None or witness.name not in _OF_TOKENS:
        return None
    counted = "the counter" if witness.name == COUNTER else "batch x sequence length"
    if witness.value > value:
        return f"the printed rate may leave out padding, or {counted} may have micro-batches or devices twice"
    if witness.name == COUNTER:
        return (
            "the counter may leave out padding, or the printed rate may have micro-batches or devices twice"
        )
    return "the printed rate counts more tokens than a batch has: packed samples, or micro-batches that it leaves out"


def _fits(ratio: float, factor: float) -> bool:
    return abs(ratio / factor - 1) < _EXPLAINED or abs(ratio * factor - 1) < _EXPLAINED


class Consumed(NamedTuple):
    """The rise of the counter over the seconds of the same steps, by the records or else by the clock."""

    units: float
    seconds: float


def count_consumed(log: ParsedLog, skipped: int) -> Consumed | None:
    """Return the rise of the counter after the first ``skipped`` records.

    None without a counter, without the time of its steps, and if its digits are too few.
    """
    consumed = log.records.consumed
    if consumed is None or log.records.step is None or log.counts_samples:
        return None
    units = seconds = rounding = 0.0
    for block in intervals(log):
        counts = np.round(consumed.array(block.first - 1, block.first + len(block.own)))
        rises, took = differences(counts), _seconds(log, block)
        if took is None:
            return None
        # Time and samples of missing lines are unknown, and a counter may be reset.
        good = (rises > 0) & (took > 0) & np.isfinite(rises) & np.isfinite(took)
        good &= (block.steps <= log.step_interval) & (block.records > skipped)
        parts = int(np.count_nonzero(np.diff(good.astype(np.int8), prepend=0) > 0))
        units += float(rises[good].sum())
        seconds += float(took[good].sum())
        rounding += parts * max(_last_digit(counts[:_NEAR_END]), _last_digit(counts[-_NEAR_END:]))
    return Consumed(units, seconds) if units > 0 and rounding <= _MOST_ROUNDING * units else None


def _seconds(log: ParsedLog, block: Intervals) -> Floats | None:
    """Return the seconds of each interval by its record; by the clock if these have no absolute time."""
    if block.absolute:
        return block.own
    clock = block.clock_s[np.isfinite(block.clock_s)]
    is_fine = len(clock) and log.clock_resolution_s <= _MOST_ROUNDING * median(clock)
    return block.clock_s if is_fine else None


def _last_digit(counts: Floats) -> float:
    """Return the unit of the last digit that is not 0 in any of ``counts``."""
    known = counts[np.isfinite(counts) & (counts > 0)]
    for digits in range(_MOST_DIGITS):
        if len(known) and (known % 10.0 ** (digits + 1) != 0).any():
            return float(10.0**digits)
    return 0.0
