"""Events of an MLPerf result log (``:::MLLOG {"key": …, "time_ms": …, "value": …, "metadata": {…}}``) as rows.

Epochs and blocks are the spans between their start and stop events.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.programs.log_formats.mlperf.dialects import BENCHMARKS

KEYS = (
    *("epoch_start", "epoch_stop", "block_start", "block_stop", "eval_start", "eval_stop", "eval_accuracy"),
    *("run_start", "run_stop", "train_samples", "global_batch_size", "tracked_stats", "submission_benchmark"),
)
"""The keys of events that time or count something; a row has the key's position."""
COLUMNS = ("key", "time_s", "number", "count", "samples", "value", "first_step", "step_count", "step_time_s")
"""``number`` is an epoch's or a step's, ``count`` of epochs, ``samples`` is ``samples_count``, ``value`` the event's
own or the throughput in it. NaN for what an event does not have."""
_EVENT = re.compile(rb":::MLLOG (\{[^\n]*\})")
_COUNTING = re.compile(rb'"key"\s*:\s*"(?:%s)"' % b"|".join(key.encode() for key in KEYS))
_decode = json.JSONDecoder().raw_decode
_CLOSE = 0.01
_TIME, _NUMBER, _COUNT, _SAMPLES, _FIRST_STEP, _STEP_COUNT = 1, 2, 3, 4, 6, 7
_LARGEST = 1e18
"""Largest valid time, count or rate: larger numbers come from damaged lines."""


def read_events(text: bytes) -> Iterator[dict[str, Any]]:
    """Yield the events in ``text``; damaged lines are left out."""
    return _decoded(_EVENT.findall(text))


def _decoded(bodies: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for body in bodies:
        try:
            line = str(body, "utf-8")
            event, end = _decode(line)
        except (ValueError, RecursionError):
            continue
        # Nothing may follow the object, which ends with the line's last brace.
        if isinstance(event, dict) and end == len(line):
            yield event


def rows_of(text: bytes) -> dict[str, Floats]:
    """Return the events that time or count something as columns (``COLUMNS``), one row each; empty without any."""
    return dict(_rows_of(text))


@lru_cache(maxsize=1)
def _rows_of(text: bytes) -> dict[str, Floats]:
    # A short log is asked for its records and for its doubts.
    bodies = (body for body in _EVENT.findall(text) if _COUNTING.search(body))
    rows = [row for event in _decoded(bodies) if (row := _row(event)) is not None]
    if not rows:
        return {}
    table = np.array(rows, dtype=np.float64)
    return {name: table[:, place].copy() for place, name in enumerate(COLUMNS)}


def in_time(columns: dict[str, Floats]) -> Floats:
    """Return the events as rows in chronological order."""
    rows = np.column_stack([columns[name] for name in COLUMNS])
    return rows[np.argsort(rows[:, 1], kind="stable")]


def of_key(rows: Floats, *keys: str) -> Floats:
    """Return the rows with one of ``keys``."""
    return rows[np.isin(rows[:, 0], [KEYS.index(key) for key in keys])]


def _row(event: dict[str, Any]) -> tuple[float, ...] | None:
    key, time_s, value = event.get("key"), _number(event.get("time_ms")) / 1000, event.get("value")
    if key not in KEYS or not math.isfinite(time_s):
        return None
    metadata = event.get("metadata")
    about: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    step_time: object = None
    if key == "submission_benchmark":
        value = BENCHMARKS.index(value) if value in BENCHMARKS else None
    elif isinstance(value, dict):
        tracked: dict[str, Any] = value
        value, step_time = tracked.get("throughput"), tracked.get("train_step_time")
    number = about.get("epoch_num", about.get("first_epoch_num", about.get("step")))
    first = about.get("first_step_num", about.get("step_num", about.get("step")))
    words = (
        number,
        about.get("epoch_count"),
        about.get("samples_count"),
        value,
        first,
        about.get("step_count"),
    )
    return (float(KEYS.index(str(key))), time_s, *(_number(word) for word in words), _number(step_time))


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > _LARGEST:
        return math.nan
    return float(value)


class Span(NamedTuple):
    """An interval with start and stop events: number, times, epochs, samples and steps; NaN if not printed."""

    number: float
    start_s: float
    stop_s: float
    epochs: float
    samples: float
    first_step: float
    steps: float

    @property
    def seconds(self) -> float:
        """Its duration."""
        return self.stop_s - self.start_s


def spans(rows: Floats, start: str, stop: str) -> tuple[list[Span], int]:
    """Return the intervals between start and stop events in the order of their end, and how many events do not pair.

    Untagged ranks print the same events several times, so an open interval is not started again. A later interval with
    the same number is another part of the same epoch. A stop with another number than the only open start is its end.
    """
    found: list[Span] = []
    started: dict[float, Floats] = {}
    unpaired, last_stop = 0, -np.inf
    for row in of_key(rows, start, stop):
        number = float(np.nan_to_num(row[_NUMBER], nan=-1.0))
        if int(row[0]) == KEYS.index(start):
            started.setdefault(number, row)
            continue
        key = number if number in started else next(iter(started), None) if len(started) == 1 else None
        if key is None:
            # Several ranks print one stop; what comes later has lost its start.
            unpaired += row[_TIME] > last_stop + 1
            continue
        first = started.pop(key)
        if row[_TIME] <= first[_TIME]:
            continue
        last_stop = row[_TIME]
        epochs = first[_COUNT] if np.isfinite(first[_COUNT]) or start == "block_start" else 1.0
        # Some programs print the number of steps at the end, others the step at both ends.
        counts = (row[_STEP_COUNT], first[_STEP_COUNT])
        steps = next((count for count in counts if np.isfinite(count)), row[_FIRST_STEP] - first[_FIRST_STEP])
        place = number if number >= 0 else float(len(found))
        samples = row[_SAMPLES] - first[_SAMPLES]
        found.append(Span(place, first[_TIME], row[_TIME], epochs, samples, first[_FIRST_STEP], steps))
    return found, int(unpaired) + len(started)


def segments(rows: Floats, batch: float) -> list[Span]:
    """Return the training within blocks, without evaluation, with the samples of each; NaN samples if unknown.

    A segment begins at ``block_start`` and ends at the first of ``eval_start``, ``block_stop``, the next start and
    ``run_stop``: some programs stop only the last of their blocks. ``samples_count`` is a counter of samples, or, if
    all blocks have the same one from the first start on, the length of a block. ``batch`` is the samples of a step.
    """
    ends: list[tuple[Floats, Floats]] = []
    started: Floats | None = None
    for row in of_key(rows, "block_start", "block_stop", "eval_start", "run_stop"):
        is_start = int(row[0]) == KEYS.index("block_start")
        if started is not None and row[_TIME] > started[_TIME]:
            ends.append((started, row))
            started = None
        if is_start and started is None:
            started = row
    counters = [float(first[_SAMPLES]) for first, _ in ends]
    same = len(set(counters)) == 1 and counters[0] > 0
    # Of a single block only its steps can tell.
    steps = float(ends[0][1][_FIRST_STEP] - ends[0][0][_FIRST_STEP]) if ends else np.nan
    confirmed = len(ends) > 1 or abs(steps * batch / counters[0] - 1) < _CLOSE if same else False
    lengths = same and confirmed and ends[0][1][_SAMPLES] == counters[0]
    later = of_key(rows, "run_stop", "eval_stop", "eval_accuracy", "block_stop")
    found = []
    for place, (first, last) in enumerate(ends):
        at_start = float(first[_SAMPLES])
        if lengths:
            samples = at_start
        else:
            after = later[(later[:, _TIME] >= last[_TIME]) & (later[:, _SAMPLES] > at_start)][:1, _SAMPLES]
            following = counters[place + 1] if place + 1 < len(ends) else np.nan
            candidates = (float(last[_SAMPLES]), following, *after.tolist())
            samples = next((count - at_start for count in candidates if count > at_start), np.nan)
        steps = float(last[_FIRST_STEP] - first[_FIRST_STEP])
        found.append(
            Span(
                float(place),
                float(first[_TIME]),
                float(last[_TIME]),
                np.nan,
                samples,
                float(first[_FIRST_STEP]),
                steps,
            )
        )
    return found
