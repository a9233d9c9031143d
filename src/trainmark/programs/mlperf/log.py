"""MLPerf Training result logs (``:::MLLOG {json}``, https://github.com/mlcommons/logging).

    :::MLLOG {"namespace": "", "time_ms": 1590000000000, "event_type": "INTERVAL_END", "key": "epoch_stop", "value": …}

What a line counts differs by benchmark, so a record is the first of these that the log has:

- blocks with ``samples_count`` at both ends (large language models): the difference over the block's time;
- epochs, or blocks of epochs, with ``train_samples`` said before them: that many samples each, over the time between
  start and stop, evaluation left out. Where the last evaluation was at a fraction of an epoch (DLRM), that fraction
  counts;
- ``train_samples`` said after them (BERT): samples of the whole run, over the time from ``run_start`` to ``run_stop``;
- ``tracked_stats`` with a ``throughput`` (samples/s of all devices) where the log says how large a batch is.

A log that counts no samples (minigo) has no rate.
"""

import json
import re
from typing import Any

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.format import Format, LogContext, integer, search_word
from trainmark.logs.model import Ending, Facts, Problem, Scope

_EVENT = re.compile(rb":::MLLOG (\{[^\n]*\})")

_KEYS = (
    "epoch_start",
    "epoch_stop",
    "block_start",
    "block_stop",
    "train_samples",
    "eval_accuracy",
    "tracked_stats",
    "run_start",
    "run_stop",
    "global_batch_size",
    "images",
)
_COCO_IMAGES = 117_266
"""Of COCO's training images, those that have objects. Mask R-CNN's submissions print the number of iterations as
``train_samples``, which is known by this."""
_COLUMNS = ("key", "time_s", "number", "count", "samples", "value")


def facts(context: LogContext) -> Facts:
    """Read the benchmark's name and the batch; the number of devices is not part of the log."""
    name = search_word(rb'"key": ?"submission_benchmark", ?"value": ?"([^"]+)"', context.text)
    return Facts(model=name, global_batch=integer(parameters(context), "global_batch_size"))


def parameters(context: LogContext) -> dict[str, str]:
    """Return the single values of all POINT_IN_TIME events."""
    return {str(event["key"]): str(event.get("value")) for event in _events(context.text) if "key" in event}


def extract(text: bytes) -> dict[str, Floats]:
    """Return the events in ``text`` that time or count something, a row each."""
    rows: list[tuple[float, ...]] = []
    for event in _events(text):
        key, now_ms, value = event.get("key"), event.get("time_ms"), event.get("value")
        about = event.get("metadata")
        about = about if isinstance(about, dict) else {}
        if key == "submission_benchmark" and value == "maskrcnn":
            key = "images"
        if key not in _KEYS or not isinstance(now_ms, int | float):
            continue
        if isinstance(value, dict):
            value = value.get("throughput")
        number = about.get("epoch_num", about.get("first_epoch_num", about.get("step")))
        words = (number, about.get("epoch_count"), about.get("samples_count"), value)
        rows.append((float(_KEYS.index(key)), now_ms / 1000, *(_number(word) for word in words)))
    if not rows:
        return {}
    table = np.array(rows, dtype=np.float64)
    return {name: table[:, place].copy() for place, name in enumerate(_COLUMNS)}


def assemble(events: dict[str, Floats]) -> dict[str, Floats]:
    """Return the records (step, rate, samples, clock) that all events of a log make."""
    table = {
        name: np.column_stack([events[column][events["key"] == place] for column in _COLUMNS[1:]])
        for place, name in enumerate(_KEYS)
    }
    epochs = _intervals(table["epoch_start"], table["epoch_stop"])
    blocks = _intervals(table["block_start"], table["block_stop"])
    blocks = _counted_on(blocks, table["block_start"], table["run_stop"])
    counted = blocks[np.isfinite(blocks[:, 4]) & (blocks[:, 4] > 0)]
    if len(counted):
        return _records(counted[:, 0], counted[:, 4], counted[:, 1], counted[:, 2])
    spans = epochs if len(epochs) else blocks
    samples = table["train_samples"]
    if len(samples) and len(table["images"]) and abs(samples[0, 4] / _COCO_IMAGES - 1) > 0.05:
        samples = samples[:0]
    if len(samples) and len(spans):
        if samples[0, 0] <= spans[0, 1]:
            done = samples[0, 4] * spans[:, 3]
            done[-1] *= _fraction_of_last(spans, table["eval_accuracy"])
            return _records(spans[:, 0], done, spans[:, 1], spans[:, 2])
        runs = _intervals(table["run_start"], table["run_stop"])
        return _records(np.ones(len(runs[:1])), samples[-1:, 4], runs[:1, 1], runs[:1, 2])
    tracked = table["tracked_stats"]
    tracked = tracked[np.isfinite(tracked[:, 4])]
    if len(tracked) and (len(samples) or len(table["global_batch_size"])):
        steps = np.where(np.isfinite(tracked[:, 1]), tracked[:, 1], np.arange(len(tracked)))
        return {"step": steps, "rate": tracked[:, 4], "clock_s": tracked[:, 0]}
    return {}


def _intervals(starts: Floats, stops: Floats) -> Floats:
    """Return rows (number, start_s, stop_s, epochs, samples) of what was started and stopped, the first of each
    number.

    Untagged ranks may print the same events on top of each other. An interval without a number takes its place.
    """
    found: list[tuple[float, ...]] = []
    begun: dict[float | str, tuple[float, float, float]] = {}
    for place, (time_s, number, count, samples, _) in enumerate(starts):
        begun.setdefault(number if np.isfinite(number) else f"#{place}", (time_s, count, samples))
    for place, (time_s, number, _, samples, _) in enumerate(stops):
        start = begun.pop(number if np.isfinite(number) else f"#{place}", None)
        if start is not None and time_s > start[0]:
            epochs = start[1] if np.isfinite(start[1]) else 1.0
            step = number if np.isfinite(number) else float(place)
            found.append((step, start[0], time_s, epochs, samples - start[2]))
    return np.array(found, dtype=np.float64).reshape(-1, 5)


def _counted_on(blocks: Floats, starts: Floats, ends: Floats) -> Floats:
    """Fill in the samples of blocks whose stop does not count them from the next block's start, or the run's stop."""
    counts = np.vstack((starts, ends[:1]))[:, 3] if len(ends) else starts[:, 3]
    if len(counts) <= len(blocks):
        counts = np.append(counts, np.nan)
    after = np.diff(counts)[: len(blocks)]
    filled = blocks.copy()
    filled[:, 4] = (
        np.where(np.isfinite(blocks[:, 4]), blocks[:, 4], after)
        if len(blocks) == len(after)
        else blocks[:, 4]
    )
    return filled


def _fraction_of_last(spans: Floats, evaluations: Floats) -> float:
    """Return which part of the last epoch was trained, by the last evaluation in it; 1 where it is not said to be a
    part."""
    inside = evaluations[(evaluations[:, 0] >= spans[-1, 1]) & np.isfinite(evaluations[:, 1])]
    if not len(inside):
        return 1.0
    whole, part = divmod(float(inside[-1, 1]), 1.0)
    return part if part and whole in (spans[-1, 0] - 1, spans[-1, 0]) else 1.0


def _records(steps: Floats, samples: Floats, starts: Floats, stops: Floats) -> dict[str, Floats]:
    if not len(steps):
        return {}
    return {"step": steps, "rate": samples / (stops - starts), "samples": samples, "clock_s": stops}


def several(context: LogContext) -> tuple[Problem, ...]:
    """Tell a file that holds the results of more than one benchmark."""
    names = set(re.findall(rb'"key": ?"submission_benchmark", ?"value": ?"([^"]+)"', context.text))
    if len(names) < 2:
        return ()
    told = ", ".join(sorted(name.decode("utf-8", "replace") for name in names))
    return (
        Problem("several-runs", f"the file holds the results of {len(names)} benchmarks ({told}): split it"),
    )


def ending(context: LogContext) -> Ending:
    """See ``run_stop`` with status success."""
    stop = re.search(rb':::MLLOG [^\n]*"key": ?"run_stop"[^\n]*"status": ?"(\w+)"', context.tail)
    return Ending.SEEN if stop and stop[1] == b"success" else Ending.MISSING


def _events(text: bytes) -> list[dict[str, Any]]:
    events = []
    for body in _EVENT.findall(text):
        try:
            event = json.loads(body)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else np.nan


FORMAT = Format(
    name="mlperf",
    title="MLPerf Training",
    framework=None,
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(),
    mark=re.compile(rb":::MLLOG \{"),
    parameters=parameters,
    facts=facts,
    ending=ending,
    doubts=several,
    extract=extract,
    assemble=assemble,
    warmup_steps=0,
    without_records="the log counts no samples of a finished epoch, block or run",
    header=re.compile(rb"run_start"),
)
