"""Every way to the throughput of one MLPerf run, and which of them the benchmark prefers.

- ``own``: the program's own throughput in ``tracked_stats``.
- ``step-time``: the global batch over the printed time of a step (``train_step_time``).
- ``blocks``: the samples of a block (``samples_count``) over its training time, without evaluation.
- ``epochs``: the samples of an epoch over its time; an evaluation within an epoch shows the trained part.
- ``steps``: the steps of a block or an epoch x the global batch over its time.
- ``run``: ``train_samples`` printed in or after the last epoch are those of the run, over the time of the whole run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trainmark.logs.model import Floats, Witness, median
from trainmark.programs.log_formats.mlperf.dialects import BENCHMARKS, DIALECTS, USUAL, Dialect
from trainmark.programs.log_formats.mlperf.events import Events, Spans, segments, spans

_MOST_STEPS = 1e6
"""Most steps of one epoch or block: larger values count something else."""
_MOST_RATE = 1e9
_FITS = 0.02
_WARM_UP = 0.1
"""A first block that is slower than the others by this share holds the warm-up."""
_FEWEST = 3
_MOST_DEVICES = 16
Records = dict[str, Floats]


class Part(NamedTuple):
    """The place of a part in its run, and what its ways need of the other parts.

    ``starts_s`` are the first and the last start of an epoch (or block) of the whole run.
    ``next_step`` and ``next_samples`` are the counters at the start of the next part, NaN if not printed.
    """

    is_first: bool = True
    is_last: bool = True
    starts_s: tuple[float, float] | None = None
    next_step: float = np.nan
    next_samples: float = np.nan


_WHOLE = Part()


@dataclass(frozen=True, slots=True)
class Run:
    """The events of one run, or of a part of it, and what every way needs of them."""

    events: Events
    dialect: Dialect
    name: str | None
    is_named: bool
    batch: float
    epochs: Spans
    blocks: Spans
    training: Spans
    unpaired: int
    part: Part

    @classmethod
    def of(cls, events: Events, part: Part = _WHOLE) -> "Run":
        """Return the run of ``events``, or a part of it."""
        benchmark, batch = (
            events.of(key).values("value") for key in ("submission_benchmark", "global_batch_size")
        )
        known = benchmark[np.isfinite(benchmark)]
        name = BENCHMARKS[int(known[0])] if len(known) else None
        size = float(batch[0]) if len(batch) else np.nan
        epochs, unpaired = spans(events, "epoch_start", "epoch_stop")
        blocks, _ = spans(events, "block_start", "block_stop")
        return cls(
            events=events,
            dialect=DIALECTS.get(name or "", USUAL),
            name=name,
            batch=size,
            epochs=epochs,
            blocks=blocks,
            training=segments(events, size, part.next_samples),
            is_named=len(benchmark) > 0,
            unpaired=unpaired,
            part=part,
        )

    @property
    def spans(self) -> Spans:
        """The epochs, or the blocks if it has no epochs."""
        return self.epochs if len(self.epochs) else self.blocks

    @property
    def train_samples(self) -> Events:
        """The events of ``train_samples``."""
        return self.events.of("train_samples")

    @property
    def samples_of_epoch(self) -> float:
        """The samples of one epoch by ``train_samples``; NaN if they do not fit the data set."""
        values, dataset = self.train_samples.values("value"), self.dialect.dataset
        printed = float(values[0]) if len(values) else np.nan
        if dataset is None or abs(printed / dataset - 1) < _FITS:
            return printed
        return printed * self.batch if abs(printed * self.batch / dataset - 1) < _FITS else np.nan


def records_of(run: Run) -> Records:
    """Return the records of a run by the first way of its benchmark that gives any."""
    return next((found for way in run.dialect.prefers if (found := _METHODS[way](run))), {})


def preferred(run: Run, found: Mapping[str, Records]) -> str | None:
    """Return the first way of the run's benchmark that is among those ``found``; ``None`` without any."""
    return next((way for way in run.dialect.prefers if way in found), None)


def every_way(run: Run) -> dict[str, Records]:
    """Return the records of a run by every way that gives any."""
    return {way: records for way, method in _METHODS.items() if (records := method(run))}


def only_own(run: Run) -> bool:
    """Return whether the program's own throughput is the only way to a number."""
    return bool(_own(run)) and not any(method(run) for way, method in _METHODS.items() if way != "own")


def count_methods(run: Run) -> int:
    """Return how many ways to a number the log of a run allows."""
    return sum(bool(method(run)) for method in _METHODS.values())


def witnesses_of(run: Run) -> tuple[Witness, ...]:
    """Return every way to the number as a witness; the whole run only if preferred second or without another."""
    return name_witnesses(run.dialect, {way: middle(records) for way, records in every_way(run).items()})


def name_witnesses(dialect: Dialect, rates: Mapping[str, float]) -> tuple[Witness, ...]:
    """Return the witnesses of a run, given its rate by every way."""
    usual = [way for way in rates if way != "run" or way in dialect.prefers[:2]]
    main = next((rates[way] for way in usual if way in dialect.prefers[:1]), None)
    witnesses = []
    for way in usual or rates:
        value, how = rates[way], _HOW[way]
        devices = _devices(main / value) if way == "own" and main else None
        if devices:
            value, how = value * devices, f"{how}, {value:.6g} of one of {devices} devices"
        witnesses.append(Witness(_NAMES[way], value, how))
    return tuple(witnesses)


_NAMES = {
    "own": "program's own throughput",
    "step-time": "step time",
    "blocks": "blocks",
    "epochs": "epochs",
    "steps": "steps",
    "run": "whole run",
}
_HOW = {
    "own": "the median of tracked_stats",
    "step-time": "global_batch_size / train_step_time, the median",
    "blocks": "samples_count / training time of a block, the median",
    "epochs": "train_samples / time of an epoch",
    "steps": "steps x global_batch_size / time",
    "run": "train_samples / time from run_start to run_stop, evaluations included",
}


def middle(records: Records) -> float:
    """Return the median rate of several blocks, or all samples over all time of up to two epochs."""
    rates = records["rate"]
    if len(rates) >= _FEWEST or "samples" not in records:
        return median(rates)
    return float(records["samples"].sum() / (records["samples"] / rates).sum())


def _devices(ratio: float) -> int | None:
    """Return the number of devices by which a rate of one device explains ``ratio``; None if it does not."""
    devices = round(ratio)
    usual = devices <= _MOST_DEVICES or devices % 8 == 0
    return devices if devices > 1 and usual and abs(ratio / devices - 1) < 2 * _FITS else None


def _own(run: Run) -> Records:
    rates = run.events.of("tracked_stats").values("value")
    rates = rates[np.isfinite(rates) & (rates > 0)]
    if not len(rates) or not (len(run.train_samples) or np.isfinite(run.batch)):
        return {}
    return _without_warm_up(run, {"step": np.arange(1.0, len(rates) + 1), "rate": rates})


def _step_time(run: Run) -> Records:
    times = run.events.of("tracked_stats").values("step_time_s")
    times = times[np.isfinite(times) & (times > 0)]
    if not len(times) or not np.isfinite(run.batch):
        return {}
    return _without_warm_up(run, {"step": np.arange(1.0, len(times) + 1), "rate": run.batch / times})


def _blocks(run: Run) -> Records:
    counted = run.training[(run.training.samples > 0) & (run.training.seconds > 0)]
    return _of_spans(counted, counted.samples, run.batch)


def _epochs(run: Run) -> Records:
    found = _finished(run)
    samples = run.samples_of_epoch
    if not len(found) or not samples > 0 or _counts_whole_run(run, found):
        return {}
    if not (np.diff(found.number) > 0).all() or not (found.epochs > 0).all():
        return {}
    if run.name == "bert" and run.train_samples.time_s[0] <= _starts(run, found)[0]:
        return {}  # the size of the data set, which no run covers
    done = samples * found.epochs
    if run.part.is_last:
        done[-1] *= _fraction_of_last(run, found)
    return _of_spans(found, done, run.batch)


def _finished(run: Run) -> Spans:
    """Return the epochs, or blocks, without a last one that the end of the run stops in the middle.

    Some programs train on while an evaluation runs, and stop when it has reached the target.
    """
    found, stops = run.spans, run.events.of("run_stop")
    if (
        len(found) < 2
        or not len(stops)
        or np.isfinite(stops.values("number")[0])
        or found.stop_s[-1] < stops.time_s[0]
    ):
        return found
    return found[:-1]


def _steps(run: Run) -> Records:
    """Missing steps of a block, or an epoch, are taken from the next one's start."""
    found = run.blocks if len(run.blocks) else run.epochs
    following = np.append(found.first_step[1:], run.part.next_step)[: len(found)]
    steps = np.where(found.steps > 0, found.steps, following - found.first_step)
    counted = steps > 0
    return _of_spans(found[counted], steps[counted] * run.batch, run.batch)


def _run(run: Run) -> Records:
    found = run.spans
    starts, stops = (run.events.of(key).time_s for key in ("run_start", "run_stop"))
    if (
        not len(found)
        or not _counts_whole_run(run, found)
        or not len(starts)
        or not len(stops)
        or stops[0] <= starts[0]
    ):
        return {}
    whole = Spans(*np.array([[1.0, starts[0], stops[0], np.nan, np.nan, np.nan, np.nan]]).T)
    return _of_spans(whole, run.train_samples.values("value")[-1:], np.nan)


_METHODS: Mapping[str, Callable[[Run], Records]] = {
    "own": _own,
    "step-time": _step_time,
    "blocks": _blocks,
    "epochs": _epochs,
    "steps": _steps,
    "run": _run,
}


def _counts_whole_run(run: Run, found: Spans) -> bool:
    """Return whether ``train_samples`` count the whole run, by the time at which they are printed."""
    times = run.train_samples.time_s
    return bool(len(times) and times[-1] > _starts(run, found)[0 if run.name == "bert" else -1])


def _starts(run: Run, found: Spans) -> Floats | tuple[float, float]:
    """Return the starts of the epochs ``found``, or of a part of a run the first and the last of the whole run."""
    return run.part.starts_s or found.start_s


def _fraction_of_last(run: Run, found: Spans) -> float:
    """Return the trained fraction of the last epoch, by the last evaluation in it; 1 if none prints a fraction."""
    events = run.events.of("eval_accuracy", "run_stop")
    numbers = events.values("number")
    in_last = numbers[(events.time_s >= found.start_s[-1]) & np.isfinite(numbers)]
    if not len(in_last):
        return 1.0
    whole, part = divmod(float(in_last[-1]), 1.0)
    return part if part and whole in (found.number[-1] - 1, np.floor(found.number[-1])) else 1.0


def _without_warm_up(run: Run, records: Records) -> Records:
    """Return the records without a first one that is clearly slower than the others."""
    rates = records["rate"]
    if not run.part.is_first or len(rates) <= _FEWEST or rates[0] * (1 + _WARM_UP) > median(rates[1:]):
        return records
    return {name: values[1:] for name, values in records.items()}


def _of_spans(found: Spans, done: Floats, batch: float) -> Records:
    if not len(found):
        return {}
    rates = done / found.seconds
    if not np.isfinite(rates).all() or rates.max() > _MOST_RATE or (done / batch > _MOST_STEPS).any():
        return {}
    numbers = found.number
    steps = numbers if (np.diff(numbers) > 0).all() else np.arange(1.0, len(found) + 1)
    return {"step": steps, "rate": rates, "samples": done}
