"""Events of an MLPerf result log (``:::MLLOG {"key": …, "time_ms": …, "value": …, "metadata": {…}}``) as rows.

Epochs and blocks are the spans between their start and stop events.
"""

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.columns import Floats
from trainmark.logs.digits import IrregularError
from trainmark.logs.json_lines import Hooks, read_object, rows_by_shape
from trainmark.programs.log_formats.mlperf.dialects import BENCHMARKS

KEYS = (
    *("epoch_start", "epoch_stop", "block_start", "block_stop", "eval_start", "eval_stop", "eval_accuracy"),
    *("run_start", "run_stop", "train_samples", "global_batch_size", "tracked_stats", "submission_benchmark"),
)
"""The keys of events that time or count something; a row has the key's position."""
COLUMNS = ("key", "time_s", "number", "count", "samples", "value", "first_step", "step_count", "step_time_s")
"""``number`` is an epoch's or a step's, ``count`` of epochs, ``samples`` is ``samples_count``, ``value`` the event's
own or the throughput in it. NaN for what an event does not have."""
_PREFIX = b":::MLLOG "
_EVENT = re.compile(rb":::MLLOG (\{[^\n]*\})")
_KEY = re.compile(rb'"key"\s*:\s*"([^"]*)"')
_COUNTING = re.compile(rb'"key"\s*:\s*"(?:%s)"' % b"|".join(key.encode() for key in KEYS))
_CLOSE = 0.01
_TIME, _NUMBER, _COUNT, _SAMPLES, _FIRST_STEP, _STEP_COUNT = 1, 2, 3, 4, 6, 7
_LARGEST = 1e18
"""Largest valid time, count or rate: larger numbers come from damaged lines."""


def last_values(text: bytes) -> dict[str, str]:
    """Return the last value of each key in ``text``; damaged lines are left out, earlier ones not decoded."""
    found: dict[str, str] = {}
    for body in reversed(_EVENT.findall(text)):
        named = _KEY.findall(body)
        if len(named) == 1 and str(named[0], "utf-8", "replace") in found:
            continue
        event = _decoded(str(body, "utf-8", "replace"), {})
        if event is not None and "key" in event:
            found.setdefault(str(event["key"]), str(event.get("value")))
    return dict(reversed(found.items()))


def _decoded(body: str, hooks: Hooks) -> dict[str, Any] | None:
    # Nothing may follow the object, which ends with the line's last brace.
    return read_object(body, hooks) if body.startswith("{") and "\ufffd" not in body else None


class Rows(NamedTuple):
    """The events that time or count something as columns (``COLUMNS``), one row each; empty without any.

    ``samples`` are lines that represent the text except for its numbers.
    """

    columns: dict[str, Floats]
    samples: list[bytes]


@lru_cache(maxsize=1)
def rows_of(text: bytes) -> Rows:
    """Return the events in ``text``. A short log is asked for its records and for its doubts."""
    regular = rows_by_shape(text, _PREFIX, len(COLUMNS), _row)
    if regular is not None:
        return Rows(_columns(regular.rows), regular.samples)
    bodies = (str(body, "utf-8", "replace") for body in _EVENT.findall(text) if _COUNTING.search(body))
    rows = [row for body in bodies if (row := _row(body, {})) is not None]
    return Rows(_columns(np.array(rows, np.float64).reshape(-1, len(COLUMNS))), [text])


def _columns(table: Floats) -> dict[str, Floats]:
    table = table[np.abs(table[:, _TIME]) <= _LARGEST].copy()
    if not len(table):
        return {}
    table[np.abs(table) > _LARGEST] = np.nan
    table[:, _TIME] /= 1000
    return {name: table[:, place].copy() for place, name in enumerate(COLUMNS)}


def in_time(columns: dict[str, Floats]) -> Floats:
    """Return the events as rows in chronological order."""
    rows = np.column_stack([columns[name] for name in COLUMNS])
    times = rows[:, _TIME]
    # Most logs are: sorting takes longer than reading them.
    in_order = bool((times[1:] >= times[:-1]).all())
    return rows if in_order else rows[np.argsort(times, kind="stable")]


def of_key(rows: Floats, *keys: str) -> Floats:
    """Return the rows with one of ``keys``."""
    kinds = rows[:, 0].copy()
    return rows[np.logical_or.reduce([kinds == KEYS.index(key) for key in keys])]


def _row(body: str, hooks: Hooks) -> tuple[float, ...] | None:
    """Return the numbers of one event as they are printed, the time in milliseconds; ``None`` if it counts nothing."""
    event = _decoded(body[: body.rfind("}") + 1], hooks)
    if event is None or (key := event.get("key")) not in KEYS:
        return None
    metadata, value = event.get("metadata"), event.get("value")
    about: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    step_time: object = None
    if key == "submission_benchmark":
        if hooks:  # the digits of a name
            raise IrregularError
        value = BENCHMARKS.index(value) if value in BENCHMARKS else None
    elif isinstance(value, dict):
        tracked: dict[str, Any] = value
        value, step_time = tracked.get("throughput"), tracked.get("train_step_time")
    number = about.get("epoch_num", about.get("first_epoch_num", about.get("step")))
    first = about.get("first_step_num", about.get("step_num", about.get("step")))
    words = (
        event.get("time_ms"),
        number,
        about.get("epoch_count"),
        about.get("samples_count"),
        value,
        first,
        about.get("step_count"),
        step_time,
    )
    return (float(KEYS.index(str(key))), *map(_number, words))


def _number(value: object) -> float:
    if isinstance(value, float):
        return value
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST:
        return math.nan
    return float(value)


@dataclass(frozen=True, slots=True)
class Spans:
    """Intervals with start and stop events, a row each; NaN for what is not printed."""

    rows: Floats

    @classmethod
    def of(cls, *columns: Floats) -> "Spans":
        """Return the intervals with these columns, in the order of the properties."""
        return cls(np.column_stack(columns))

    def __len__(self) -> int:
        """Return the number of intervals."""
        return len(self.rows)

    def __getitem__(self, some: slice | NDArray[np.bool_]) -> "Spans":
        """Return some of the intervals."""
        return Spans(self.rows[some])

    @property
    def number(self) -> Floats:
        """The number of the epoch or block."""
        return self.rows[:, 0]

    @property
    def start_s(self) -> Floats:
        """The start of each."""
        return self.rows[:, 1]

    @property
    def stop_s(self) -> Floats:
        """The end of each."""
        return self.rows[:, 2]

    @property
    def epochs(self) -> Floats:
        """The epochs of each."""
        return self.rows[:, 3]

    @property
    def samples(self) -> Floats:
        """The samples of each."""
        return self.rows[:, 4]

    @property
    def first_step(self) -> Floats:
        """The step at the start of each."""
        return self.rows[:, 5]

    @property
    def steps(self) -> Floats:
        """The steps of each."""
        return self.rows[:, 6]

    @property
    def seconds(self) -> Floats:
        """The duration of each."""
        return self.stop_s - self.start_s


def spans(rows: Floats, start: str, stop: str) -> tuple[Spans, int]:
    """Return the intervals between start and stop events in the order of their end, and how many events do not pair.

    Untagged ranks print the same events several times, so an open interval is not started again. A later interval with
    the same number is another part of the same epoch. A stop with another number than the only open start is its end.
    """
    rows = of_key(rows, start, stop)
    starts, stops = rows[0::2], rows[1::2]
    if (
        len(starts) == len(stops)
        and (starts[:, 0] == KEYS.index(start)).all()
        and (stops[:, 0] == KEYS.index(stop)).all()
        and (np.nan_to_num(starts[:, _NUMBER], nan=-1.0) == np.nan_to_num(stops[:, _NUMBER], nan=-1.0)).all()
        and (stops[:, _TIME] > starts[:, _TIME]).all()
    ):
        return _spans_of(starts, stops, start), 0
    first: list[int] = []
    last: list[int] = []
    started: dict[float, int] = {}
    unpaired, last_stop = 0, -np.inf
    pairing = np.column_stack((rows[:, 0], rows[:, _TIME], np.nan_to_num(rows[:, _NUMBER], nan=-1.0)))
    for at, (kind, time_s, number) in enumerate(pairing.tolist()):
        if int(kind) == KEYS.index(start):
            started.setdefault(number, at)
            continue
        key = number if number in started else next(iter(started), None) if len(started) == 1 else None
        if key is None:
            # Several ranks print one stop; what comes later has lost its start.
            unpaired += time_s > last_stop + 1
            continue
        opened = started.pop(key)
        if time_s <= rows[opened, _TIME]:
            continue
        last_stop = time_s
        first.append(opened)
        last.append(at)
    return _spans_of(rows[first], rows[last], start), int(unpaired) + len(started)


def _spans_of(starts: Floats, stops: Floats, start: str) -> Spans:
    """Return the intervals from ``starts`` to ``stops``, which pair; ``start`` is the key of a start."""
    numbers = np.nan_to_num(stops[:, _NUMBER], nan=-1.0)
    epochs = starts[:, _COUNT]
    if start != "block_start":
        epochs = np.where(np.isfinite(epochs), epochs, 1.0)
    # Some programs print the number of steps at the end, others the step at both ends.
    steps = stops[:, _FIRST_STEP] - starts[:, _FIRST_STEP]
    for counts in (starts[:, _STEP_COUNT], stops[:, _STEP_COUNT]):
        steps = np.where(np.isfinite(counts), counts, steps)
    return Spans.of(
        np.where(numbers >= 0, numbers, np.arange(len(numbers))),
        starts[:, _TIME],
        stops[:, _TIME],
        epochs,
        stops[:, _SAMPLES] - starts[:, _SAMPLES],
        starts[:, _FIRST_STEP],
        steps,
    )


def segments(rows: Floats, batch: float) -> Spans:
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
        place_and_times = (float(place), float(first[_TIME]), float(last[_TIME]))
        found.append((*place_and_times, np.nan, samples, float(first[_FIRST_STEP]), steps))
    return Spans(np.array(found, np.float64).reshape(-1, 7))
