"""MLPerf Training result logs (``:::MLLOG {json}``, https://github.com/mlcommons/logging).

    :::MLLOG {"namespace": "", "time_ms": 1590000000000, "event_type": "INTERVAL_END", "key": "epoch_stop", "value": …}

Benchmarks count different things, so a record is the first of these that the log has:

- blocks with ``samples_count`` at both ends (large language models): the difference over the block's time;
- epochs, or blocks of ``epoch_count`` epochs, whose numbers rise: ``train_samples`` each, over the time between start
  and stop, without evaluation. If the last evaluation was at a fraction of an epoch (DLRM), that fraction counts;
- blocks that are counted in steps (``step_count``, or the difference of ``step_num``): steps x ``global_batch_size``.
  Blocks that all have one epoch's number are parts of it;
- ``train_samples`` printed in or after the last of them (BERT: anywhere in the run): samples of the whole run, over the
  time from ``run_start`` to ``run_stop``. Before BERT's run it is the size of the data set, which no run covers;
- ``tracked_stats`` with a ``throughput`` (samples/s of all devices), if the log prints the batch.

A log that counts no samples (minigo) has no rate, and neither has a log whose counts imply more steps than a run can
have (``epoch_count`` counts sequences). Records have their own start and stop, so the time between two stops is not
that of a record.
"""

import json
import re
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.fields import Extract
from trainmark.logs.format import Format, LogContext, parse_setting, search_word
from trainmark.logs.model import EndState, Facts, Problem, Scope

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
"""Number of COCO's training images with objects. Mask R-CNN's submissions print the number of iterations as
``train_samples``, which is detected by this number."""
_BENCHMARKS = {"maskrcnn": "images", "bert": "sequences"}
"""Benchmarks whose ``train_samples`` have another meaning, with the event key that represents their name."""
_COLUMNS = ("key", "time_s", "number", "count", "samples", "value", "first_step", "step_count")
_MOST_STEPS = 1e6
"""Most steps of one epoch or block: larger values count something else."""
_MOST_RATE = 1e9
_LARGEST = 1e18
"""Largest valid time, count or rate: larger numbers come from damaged lines."""
_RANK_DELAY_S = 60.0
"""Longest delay between ranks that print the same start; a later start is another run."""


class _Span(NamedTuple):
    """An interval with start and stop events: number, times, epochs, samples and steps; NaN if not printed."""

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
    return Facts(model=name, global_batch=parse_setting(parameters(context), "global_batch_size"))


def parameters(context: LogContext) -> dict[str, str]:
    """Return the single values of all POINT_IN_TIME events."""
    return {str(event["key"]): str(event.get("value")) for event in _events(context.text) if "key" in event}


def extract(text: bytes) -> Extract:
    """Return the events in ``text`` that time or count something, one row each."""
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
    """Return the records (step, rate, samples, clock) computed from all events of a log."""
    runs = [_records(run) for run in _runs(_in_time(events))]
    whole = [record for record in runs if record]
    if len(runs) > 1 and any(len(record["step"]) < 2 for record in whole):
        return {}  # their counters cannot distinguish the runs
    return {name: np.concatenate([record[name] for record in whole]) for name in (whole[0] if whole else ())}


def _in_time(events: dict[str, Floats]) -> Floats:
    """Return the events as rows in chronological order."""
    rows = np.column_stack([events[name] for name in _COLUMNS])
    return rows[np.argsort(rows[:, 1], kind="stable")]


def _runs(rows: Floats) -> list[Floats]:
    """Split the events into runs."""
    starts: list[int] = []
    for at in np.flatnonzero(rows[:, 0] == _KEYS.index("run_start")).tolist():
        since = rows[starts[-1] : at] if starts else rows[:0]
        ended = bool((since[:, 0] == _KEYS.index("run_stop")).any())
        if not starts or ended or rows[at, 1] - rows[starts[-1], 1] > _RANK_DELAY_S:
            starts.append(at)
    if len(starts) < 2:
        return [rows]
    stops = np.flatnonzero(rows[:, 0] == _KEYS.index("run_stop"))
    # A run begins where the previous one ended: its settings are printed before its start event.
    cuts = [int(max((stop + 1 for stop in stops if stop < at), default=at)) for at in starts[1:]]
    return [rows[begin:end] for begin, end in pairwise((0, *cuts, len(rows)))]


def _records(rows: Floats) -> dict[str, Floats]:
    """Return the records of one run."""
    table = {name: rows[rows[:, 0] == place] for place, name in enumerate(_KEYS)}
    batches = table["global_batch_size"][:, 5]
    batch = float(batches[0]) if len(batches) else np.nan
    epochs = _spans(rows, "epoch_start", "epoch_stop")
    blocks = _fill_counts(_spans(rows, "block_start", "block_stop"), table)
    if counted := [span for span in blocks if span.samples > 0]:
        return _of_spans(counted, [span.samples for span in counted], batch)
    spans = epochs or blocks
    train_samples = _sample_counts(table)
    if (
        len(train_samples)
        and spans
        and _count_whole_run(train_samples, spans, is_bert=len(table["sequences"]) > 0)
    ):
        return _whole_run(train_samples, table)
    rising = len(spans) < 2 or all(after.number > before.number for before, after in pairwise(spans))
    if len(train_samples) and spans and rising and all(span.epochs > 0 for span in spans):
        if len(table["sequences"]) and train_samples[0, 1] <= spans[0].start_s:
            return {}
        done = [float(train_samples[0, 5]) * span.epochs for span in spans]
        done[-1] *= _fraction_of_last(spans, table["eval_accuracy"])
        return _of_spans(spans, done, batch)
    if stepped := [span for span in (blocks or spans) if span.steps > 0]:
        return _of_spans(stepped, [span.steps * batch for span in stepped], batch)
    return _tracked(table) if len(train_samples) or len(batches) else {}


def _sample_counts(table: dict[str, Floats]) -> Floats:
    """Return the rows of ``train_samples`` that count samples."""
    rows = table["train_samples"]
    if len(rows) and len(table["images"]) and abs(rows[0, 5] / _COCO_IMAGES - 1) > 0.05:
        return rows[:0]
    return rows


def _count_whole_run(train_samples: Floats, spans: list[_Span], *, is_bert: bool) -> bool:
    """Return whether ``train_samples`` count the whole run, by the time at which they are printed."""
    return bool(train_samples[-1, 1] > spans[0 if is_bert else -1].start_s)


def _whole_run(train_samples: Floats, table: dict[str, Floats]) -> dict[str, Floats]:
    starts, stops = table["run_start"][:, 1], table["run_stop"][:, 1]
    if not len(starts) or not len(stops) or stops[0] <= starts[0]:
        return {}
    run = _Span(1.0, float(starts[0]), float(stops[0]), np.nan, np.nan, np.nan, np.nan)
    return _of_spans([run], [float(train_samples[-1, 5])], np.nan)


def _tracked(table: dict[str, Floats]) -> dict[str, Floats]:
    tracked = table["tracked_stats"]
    tracked = tracked[np.isfinite(tracked[:, 5])]
    if not len(tracked):
        return {}
    steps = np.where(np.isfinite(tracked[:, 2]), tracked[:, 2], np.arange(len(tracked)))
    return {"step": steps, "rate": tracked[:, 5], "clock_s": tracked[:, 1]}


def _spans(rows: Floats, start: str, stop: str) -> list[_Span]:
    """Return the intervals between start and stop events, in the order of their end.

    Untagged ranks print the same events several times, so an open interval is not started again. A later interval with
    the same number is another part of the same epoch.
    """
    found: list[_Span] = []
    started: dict[float, Floats] = {}
    keys = {_KEYS.index(start): True, _KEYS.index(stop): False}
    for row in rows[np.isin(rows[:, 0], list(keys))]:
        number = float(np.nan_to_num(row[2], nan=-1.0))
        if keys[int(row[0])]:
            started.setdefault(number, row)
            continue
        first = started.pop(number, None)
        if first is None or row[1] <= first[1]:
            continue
        epochs = first[3] if np.isfinite(first[3]) or start == "block_start" else 1.0
        # Some programs print the number of steps at the end, others the step at both ends.
        steps = next((count for count in (row[7], first[7]) if np.isfinite(count)), row[6] - first[6])
        place = number if number >= 0 else float(len(found))
        found.append(_Span(place, first[1], row[1], epochs, row[4] - first[4], first[6], steps))
    return found


def _fill_counts(blocks: list[_Span], table: dict[str, Floats]) -> list[_Span]:
    """Return the blocks with missing samples and steps taken from the next block's start, or the run's stop."""
    starts, ends = table["block_start"], table["run_stop"][:1]
    # The start of each block, and the run's stop, print the number of samples so far.
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
    """Return the trained fraction of the last epoch, by the last evaluation in it; 1 if none prints a fraction."""
    in_last = evaluations[(evaluations[:, 1] >= spans[-1].start_s) & np.isfinite(evaluations[:, 2])]
    if not len(in_last):
        return 1.0
    whole, part = divmod(float(in_last[-1, 2]), 1.0)
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
    """Check for several results in one file, and for a single epoch that may be incomplete."""
    names = set(re.findall(rb'"key": ?"submission_benchmark", ?"value": ?"([^"]+)"', context.text))
    if len(names) > 1:
        listing = ", ".join(sorted(name.decode("utf-8", "replace") for name in names))
        sentence = f"the file contains the results of {len(names)} benchmarks ({listing}): split it"
        return (Problem("several-runs", sentence),)
    events = _rows(context.text)
    if not events:
        return ()
    rows = _in_time(events)
    if (runs := len(_runs(rows))) > 1:
        return (Problem("several-runs", f"the file contains {runs} runs: split it"),)
    spans = _spans(rows, "epoch_start", "epoch_stop") or _spans(rows, "block_start", "block_stop")
    table = {name: rows[rows[:, 0] == place] for place, name in enumerate(_KEYS)}
    counts, stops = table["train_samples"], table["run_stop"]
    if len(spans) != 1 or not len(counts) or not len(stops) or counts[-1, 1] > spans[0].start_s:
        return ()
    after = table["eval_accuracy"][table["eval_accuracy"][:, 1] >= spans[0].start_s]
    if spans[0].stop_s < stops[0, 1] - 1 or spans[0].samples > 0 or np.isfinite(after[:, 2]).any():
        return ()
    sentence = (
        "the only epoch ends together with the run, so it may not have trained all of its train_samples"
    )
    return (Problem("epoch-unfinished", sentence),)


def end_state(context: LogContext) -> EndState:
    """Return whether ``run_stop`` is printed with status success."""
    stop = re.search(rb':::MLLOG [^\n]*"key": ?"run_stop"[^\n]*"status": ?"(\w+)"', context.tail)
    return EndState.FOUND if stop and stop[1] == b"success" else EndState.MISSING


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
    end_state=end_state,
    doubts=doubts,
    extract=extract,
    assemble=assemble,
    warmup_steps=0,
    without_records="the log has no sample count of a finished epoch, block or run",
    header=re.compile(rb"run_start"),
)
