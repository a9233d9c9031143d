"""MLPerf Training result logs (``:::MLLOG {json}``, https://github.com/mlcommons/logging).

    :::MLLOG {"namespace": "", "time_ms": 1590000000000, "event_type": "INTERVAL_END", "key": "epoch_stop", "value": …}

What a line counts differs by benchmark, so a record is the first of these that the log has:

- blocks with ``samples_count`` at both ends (large language models): the difference over the block's time;
- epochs, or blocks of ``epoch_count`` epochs, whose numbers rise: ``train_samples`` each, over the time between start
  and stop, evaluation left out. Where the last evaluation was at a fraction of an epoch (DLRM), that fraction counts;
- blocks that are counted in steps (``step_count``, or the difference of ``step_num``): steps x ``global_batch_size``.
  Blocks that all say one epoch's number are parts of it;
- ``train_samples`` said in or after the last of them (BERT: anywhere in the run): samples of the whole run, over the
  time from ``run_start`` to ``run_stop``. Said before BERT's run it is the data set, which no run sees whole;
- ``tracked_stats`` with a ``throughput`` (samples/s of all devices) where the log says how large a batch is.

A log that counts no samples (minigo) has no rate, nor has one whose counts make more steps than a run can have (where
``epoch_count`` counts sequences). Records have their own start and stop: the time from stop to stop is not theirs.
"""

import json
import re
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.fields import Extract
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
    "sequences",
)
_COCO_IMAGES = 117_266
"""Of COCO's training images, those that have objects. Mask R-CNN's submissions print the number of iterations as
``train_samples``, which is known by this."""
_BENCHMARKS = {"maskrcnn": "images", "bert": "sequences"}
"""Benchmarks whose ``train_samples`` count otherwise, by the key that stands for their name among the events."""
_COLUMNS = ("key", "time_s", "number", "count", "samples", "value", "first_step", "step_count")
_MOST_STEPS = 1e6
"""Steps of one epoch or block: more are counts of something else."""
_MOST_RATE = 1e9
_LARGEST = 1e18
"""No time, count or rate is larger: such a number is a damaged line."""
_RANKS_APART_S = 60.0
"""Ranks that print the same start are not further apart; what starts later is another run."""


class _Span(NamedTuple):
    """What was started and stopped: its number, when, the epochs, samples and steps in it; NaN is not said."""

    number: float
    start_s: float
    stop_s: float
    epochs: float
    samples: float
    first_step: float
    steps: float


def facts(context: LogContext) -> Facts:
    """Read the benchmark's name and the batch; the number of devices is not part of the log."""
    name = search_word(rb'"key": ?"submission_benchmark", ?"value": ?"([^"]+)"', context.text)
    return Facts(model=name, global_batch=integer(parameters(context), "global_batch_size"))


def parameters(context: LogContext) -> dict[str, str]:
    """Return the single values of all POINT_IN_TIME events."""
    return {str(event["key"]): str(event.get("value")) for event in _events(context.text) if "key" in event}


def extract(text: bytes) -> Extract:
    """Return the events in ``text`` that time or count something, a row each."""
    return Extract(_rows(text), [text])


def _rows(text: bytes) -> dict[str, Floats]:
    rows: list[tuple[float, ...]] = []
    for event in _events(text):
        key, now_ms, value = event.get("key"), event.get("time_ms"), event.get("value")
        about = event.get("metadata")
        about = about if isinstance(about, dict) else {}
        if key == "submission_benchmark":
            key = _BENCHMARKS.get(str(value))
        if key not in _KEYS or not np.isfinite(_number(now_ms)):
            continue
        if isinstance(value, dict):
            value = value.get("throughput")
        number = about.get("epoch_num", about.get("first_epoch_num", about.get("step")))
        first = about.get("first_step_num", about.get("step_num"))
        words = (
            *(number, about.get("epoch_count"), about.get("samples_count"), value),
            *(first, about.get("step_count")),
        )
        rows.append((float(_KEYS.index(key)), _number(now_ms) / 1000, *(_number(word) for word in words)))
    if not rows:
        return {}
    table = np.array(rows, dtype=np.float64)
    return {name: table[:, place].copy() for place, name in enumerate(_COLUMNS)}


def assemble(events: dict[str, Floats]) -> dict[str, Floats]:
    """Return the records (step, rate, samples, clock) that all events of a log make."""
    runs = [_records(run) for run in _runs(_in_time(events))]
    whole = [record for record in runs if record]
    if len(runs) > 1 and any(len(record["step"]) < 2 for record in whole):
        return {}  # their counters cannot tell one run from the other
    return {name: np.concatenate([record[name] for record in whole]) for name in (whole[0] if whole else ())}


def _in_time(events: dict[str, Floats]) -> Floats:
    """Return the events as rows in the order of their time."""
    rows = np.column_stack([events[name] for name in _COLUMNS])
    return rows[np.argsort(rows[:, 1], kind="stable")]


def _runs(rows: Floats) -> list[Floats]:
    """Split what was printed by the runs that started."""
    starts: list[int] = []
    for at in np.flatnonzero(rows[:, 0] == _KEYS.index("run_start")).tolist():
        since = rows[starts[-1] : at] if starts else rows[:0]
        ended = bool((since[:, 0] == _KEYS.index("run_stop")).any())
        if not starts or ended or rows[at, 1] - rows[starts[-1], 1] > _RANKS_APART_S:
            starts.append(at)
    if len(starts) < 2:
        return [rows]
    stops = np.flatnonzero(rows[:, 0] == _KEYS.index("run_stop"))
    # A run begins where the one before ended: what it says of itself stands before its start.
    cuts = [int(max((stop + 1 for stop in stops if stop < at), default=at)) for at in starts[1:]]
    return [rows[begin:end] for begin, end in pairwise((0, *cuts, len(rows)))]


def _records(rows: Floats) -> dict[str, Floats]:
    """Return the records of one run."""
    table = {name: rows[rows[:, 0] == place] for place, name in enumerate(_KEYS)}
    batches = table["global_batch_size"][:, 5]
    batch = float(batches[0]) if len(batches) else np.nan
    epochs = _spans(rows, "epoch_start", "epoch_stop")
    blocks = _counted_on(_spans(rows, "block_start", "block_stop"), table)
    if counted := [span for span in blocks if span.samples > 0]:
        return _of_spans(counted, [span.samples for span in counted], batch)
    spans = epochs or blocks
    said = _said(table)
    if len(said) and spans and _of_the_run(said, spans, is_bert=len(table["sequences"]) > 0):
        return _whole_run(said, table)
    rising = len(spans) < 2 or all(after.number > before.number for before, after in pairwise(spans))
    if len(said) and spans and rising and all(span.epochs > 0 for span in spans):
        if len(table["sequences"]) and said[0, 1] <= spans[0].start_s:
            return {}
        done = [float(said[0, 5]) * span.epochs for span in spans]
        done[-1] *= _fraction_of_last(spans, table["eval_accuracy"])
        return _of_spans(spans, done, batch)
    if stepped := [span for span in (blocks or spans) if span.steps > 0]:
        return _of_spans(stepped, [span.steps * batch for span in stepped], batch)
    return _tracked(table) if len(said) or len(batches) else {}


def _said(table: dict[str, Floats]) -> Floats:
    """Return the rows of ``train_samples`` that count samples."""
    said = table["train_samples"]
    if len(said) and len(table["images"]) and abs(said[0, 5] / _COCO_IMAGES - 1) > 0.05:
        return said[:0]
    return said


def _of_the_run(said: Floats, spans: list[_Span], *, is_bert: bool) -> bool:
    """Say whether ``train_samples`` count the whole run, by where they are said."""
    return bool(said[-1, 1] > spans[0 if is_bert else -1].start_s)


def _whole_run(said: Floats, table: dict[str, Floats]) -> dict[str, Floats]:
    starts, stops = table["run_start"][:, 1], table["run_stop"][:, 1]
    if not len(starts) or not len(stops) or stops[0] <= starts[0]:
        return {}
    run = _Span(1.0, float(starts[0]), float(stops[0]), np.nan, np.nan, np.nan, np.nan)
    return _of_spans([run], [float(said[-1, 5])], np.nan)


def _tracked(table: dict[str, Floats]) -> dict[str, Floats]:
    tracked = table["tracked_stats"]
    tracked = tracked[np.isfinite(tracked[:, 5])]
    if not len(tracked):
        return {}
    steps = np.where(np.isfinite(tracked[:, 2]), tracked[:, 2], np.arange(len(tracked)))
    return {"step": steps, "rate": tracked[:, 5], "clock_s": tracked[:, 1]}


def _spans(rows: Floats, start: str, stop: str) -> list[_Span]:
    """Return what was started and stopped, in the order of its end.

    Untagged ranks print the same events on top of each other: what is open is not started again. An equal number
    later is another part of the same epoch.
    """
    found: list[_Span] = []
    begun: dict[float, Floats] = {}
    keys = {_KEYS.index(start): True, _KEYS.index(stop): False}
    for row in rows[np.isin(rows[:, 0], list(keys))]:
        number = float(np.nan_to_num(row[2], nan=-1.0))
        if keys[int(row[0])]:
            begun.setdefault(number, row)
            continue
        first = begun.pop(number, None)
        if first is None or row[1] <= first[1]:
            continue
        epochs = first[3] if np.isfinite(first[3]) or start == "block_start" else 1.0
        # Some print the steps of the part at its end, some the step at either end.
        steps = next((count for count in (row[7], first[7]) if np.isfinite(count)), row[6] - first[6])
        place = number if number >= 0 else float(len(found))
        found.append(_Span(place, first[1], row[1], epochs, row[4] - first[4], first[6], steps))
    return found


def _counted_on(blocks: list[_Span], table: dict[str, Floats]) -> list[_Span]:
    """Fill in what a block's stop does not count (samples, steps) from the next block's start, or the run's stop."""
    starts, ends = table["block_start"], table["run_stop"][:1]
    # The start of each block, and the run's stop, say how many samples were before.
    before = {float(row[1]): float(row[4]) for row in starts}
    last = float(ends[0, 4]) if len(ends) else np.nan
    filled = []
    for block, after in zip(blocks, (*blocks[1:], None), strict=False):
        samples, steps = block.samples, block.steps
        if not np.isfinite(samples):
            samples = (before[after.start_s] if after else last) - before[block.start_s]
        if not steps > 0 and after is not None:
            steps = after.first_step - block.first_step
        filled.append(block._replace(samples=samples, steps=steps))
    return filled


def _fraction_of_last(spans: list[_Span], evaluations: Floats) -> float:
    """Return which part of the last epoch was trained, by the last evaluation in it; 1 where it is not said to be a
    part."""
    inside = evaluations[(evaluations[:, 1] >= spans[-1].start_s) & np.isfinite(evaluations[:, 2])]
    if not len(inside):
        return 1.0
    whole, part = divmod(float(inside[-1, 2]), 1.0)
    return part if part and whole in (spans[-1].number - 1, spans[-1].number) else 1.0


def _of_spans(spans: list[_Span], samples: list[float], batch: float) -> dict[str, Floats]:
    done, table = np.array(samples), np.array(spans)
    rates = done / (table[:, 2] - table[:, 1])
    if not np.isfinite(rates).all() or rates.max() > _MOST_RATE or (done / batch > _MOST_STEPS).any():
        return {}
    numbers = table[:, 0]
    steps = numbers if (np.diff(numbers) > 0).all() else np.arange(1.0, len(spans) + 1)
    return {"step": steps, "rate": rates, "samples": done}


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Tell a file of several results, and an only epoch of which nothing says that it came to its end."""
    names = set(re.findall(rb'"key": ?"submission_benchmark", ?"value": ?"([^"]+)"', context.text))
    if len(names) > 1:
        told = ", ".join(sorted(name.decode("utf-8", "replace") for name in names))
        sentence = f"the file holds the results of {len(names)} benchmarks ({told}): split it"
        return (Problem("several-runs", sentence),)
    events = _rows(context.text)
    if not events:
        return ()
    rows = _in_time(events)
    if (runs := len(_runs(rows))) > 1:
        return (Problem("several-runs", f"{runs} runs were started in this file: split it"),)
    spans = _spans(rows, "epoch_start", "epoch_stop") or _spans(rows, "block_start", "block_stop")
    table = {name: rows[rows[:, 0] == place] for place, name in enumerate(_KEYS)}
    said, stops = table["train_samples"], table["run_stop"]
    if len(spans) != 1 or not len(said) or not len(stops) or said[-1, 1] > spans[0].start_s:
        return ()
    after = table["eval_accuracy"][table["eval_accuracy"][:, 1] >= spans[0].start_s]
    if spans[0].stop_s < stops[0, 1] - 1 or spans[0].samples > 0 or np.isfinite(after[:, 2]).any():
        return ()
    sentence = (
        "the only epoch ends with the run: nothing says that all of its train_samples were trained in it"
    )
    return (Problem("epoch-unfinished", sentence),)


def ending(context: LogContext) -> Ending:
    """See ``run_stop`` with status success."""
    stop = re.search(rb':::MLLOG [^\n]*"key": ?"run_stop"[^\n]*"status": ?"(\w+)"', context.tail)
    return Ending.SEEN if stop and stop[1] == b"success" else Ending.MISSING


def _events(text: bytes) -> list[dict[str, Any]]:
    events = []
    for body in _EVENT.findall(text):
        try:
            event = json.loads(body)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > _LARGEST:
        return np.nan
    return float(value)


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
    doubts=doubts,
    extract=extract,
    assemble=assemble,
    warmup_steps=0,
    without_records="the log counts no samples of a finished epoch, block or run",
    header=re.compile(rb"run_start"),
)
