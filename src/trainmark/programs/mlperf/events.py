"""Events of an MLPerf result log (``:::MLLOG {"key": …, "time_ms": …, "value": …, "metadata": {…}}``) as rows."""

import json
import re
from typing import Any

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.programs.mlperf.dialects import BENCHMARKS

KEYS = (
    *("epoch_start", "epoch_stop", "block_start", "block_stop", "eval_start", "eval_stop", "eval_accuracy"),
    *("run_start", "run_stop", "train_samples", "global_batch_size", "tracked_stats", "submission_benchmark"),
)
"""The keys of events that time or count something; a row has the key's position."""
COLUMNS = ("key", "time_s", "number", "count", "samples", "value", "first_step", "step_count", "step_time_s")
"""``number`` is an epoch's or a step's, ``count`` of epochs, ``samples`` is ``samples_count``, ``value`` the event's
own or the throughput in it. NaN for what an event does not have."""
_EVENT = re.compile(rb":::MLLOG (\{[^\n]*\})")
_LARGEST = 1e18
"""Largest valid time, count or rate: larger numbers come from damaged lines."""


def read_events(text: bytes) -> list[dict[str, Any]]:
    """Return the events in ``text``; damaged lines are left out."""
    events = []
    for body in _EVENT.findall(text):
        try:
            event = json.loads(body)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def rows_of(text: bytes) -> dict[str, Floats]:
    """Return the events that time or count something as columns (``COLUMNS``), one row each; empty without any."""
    rows = [row for event in read_events(text) if (row := _row(event)) is not None]
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
    if key not in KEYS or not np.isfinite(time_s):
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
        return np.nan
    return float(value)
