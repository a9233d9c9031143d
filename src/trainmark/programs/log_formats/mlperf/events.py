"""Events of an MLPerf result log (``:::MLLOG {"key": …, "time_ms": …, "value": …, "metadata": {…}}``) as columns.

Epochs and blocks are the spans between their start and stop events.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.lines.digits import IrregularError
from trainmark.logs.lines.json_lines import Hooks, read_object, rows_by_line, rows_by_shape
from trainmark.logs.model import Floats
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
_SHORT_BYTES = 1 << 15
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
    """The events that time or count something as columns (``COLUMNS``), without those that have no number.

    ``samples`` are lines that represent the text except for its numbers.
    """

    columns: dict[str, Floats]
    samples: list[bytes]


@lru_cache(maxsize=1)
def rows_of(text: bytes) -> Rows:
    """Return the events in ``text``. A short log is asked for its records and for its doubts."""
    # Of many ranks, each prints a few lines, for which arrays do not pay.
    regular = rows_by_shape(text, _PREFIX, len(COLUMNS), _row) if len(text) > _SHORT_BYTES else None
    if regular is not None:
        return Rows(_columns(regular.columns), regular.samples)
    bodies = (body for body in _EVENT.findall(text) if _COUNTING.search(body))
    table = np.array(list(rows_by_line(bodies, _row)), np.float64).reshape(-1, len(COLUMNS))
    return Rows(_columns(list(table.T.copy())), [text])


def _columns(found: list[Floats | None]) -> dict[str, Floats]:
    """Return the columns by name, without impossible numbers; empty without an event that has a possible time."""
    named = {
        name: values
        for name, values in zip(COLUMNS, found, strict=True)
        if values is not None and len(values)
    }
    times = named.get("time_s")
    if times is None:
        return {}
    possible = np.abs(times) <= _LARGEST
    if not possible.all():
        named = {name: values[possible] for name, values in named.items()}
    for values in named.values():
        values[np.abs(values) > _LARGEST] = np.nan
    if not len(named["time_s"]):
        return {}
    named["time_s"] /= 1000
    return {name: values for name, values in named.items() if not np.isnan(values).all()}


@dataclass(frozen=True, slots=True)
class Events:
    """Events in chronological order, as columns (``COLUMNS``; a column without any number may be missing)."""

    columns: Mapping[str, Floats]

    @classmethod
    def in_time(cls, columns: Mapping[str, Floats]) -> "Events":
        """Return the events in ``columns``, which may be in any order."""
        found, times = cls(columns), columns["time_s"]
        # Most logs are in order: sorting takes longer than reading them.
        in_order = bool((times[1:] >= times[:-1]).all())
        return found if in_order else found[np.argsort(times, kind="stable")]

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.columns["key"])

    def __getitem__(self, some: slice | NDArray[Any]) -> "Events":
        """Return some of the events: those of a slice, of a mask, or with the given positions."""
        return Events({name: values[some] for name, values in self.columns.items()})

    def values(self, name: str) -> Floats:
        """Return the column ``name``, one number an event."""
        found = self.columns.get(name)
        return np.full(len(self), np.nan) if found is None else found

    @property
    def time_s(self) -> Floats:
        """The time of each event."""
        return self.columns["time_s"]

    @property
    def numbers(self) -> Floats:
        """The epoch or step of each event; -1 if it has none."""
        return np.nan_to_num(self.values("number"), nan=-1.0)

    def places(self, key: str) -> NDArray[np.int64]:
        """Return the positions of the events with ``key``."""
        return np.flatnonzero(self.columns["key"] == KEYS.index(key))

    def of(self, *keys: str) -> "Events":
        """Return the events with one of ``keys``."""
        kinds = self.columns["key"]
        chosen = np.logical_or.reduce([kinds == KEYS.index(key) for key in keys])
        return self if chosen.all() else self[np.flatnonzero(chosen)]


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
    """Intervals with start and stop events; NaN for what is not printed.

    ``number`` is that of the epoch or block, ``epochs``, ``samples`` and ``steps`` are what it covers, and
    ``first_step`` is the step at its start.
    """

    number: Floats
    start_s: Floats
    stop_s: Floats
    epochs: Floats
    samples: Floats
    first_step: Floats
    steps: Floats

    def __len__(self) -> int:
        """Return the number of intervals."""
        return len(self.number)

    def __getitem__(self, some: slice | NDArray[np.bool_]) -> "Spans":
        """Return some of the intervals."""
        return Spans(*(getattr(self, each.name)[some] for each in fields(self)))

    @property
    def seconds(self) -> Floats:
        """The duration of each."""
        return self.stop_s - self.start_s


def spans(events: Events, start: str, stop: str) -> tuple[Spans, int]:
    """Return the intervals between start and stop events in the order of their end, and how many events do not pair.

    Untagged ranks print the same events several times, so an open interval is not started again. A later interval with
    the same number is another part of the same epoch. A stop with another number than the only open start is its end.
    """
    found = events.of(start, stop)
    starts, stops = found[0::2], found[1::2]
    if (
        len(starts) == len(stops)
        and (starts.columns["key"] == KEYS.index(start)).all()
        and (stops.columns["key"] == KEYS.index(stop)).all()
        and (starts.numbers == stops.numbers).all()
        and (stops.time_s > starts.time_s).all()
    ):
        return _spans_of(starts, stops, start), 0
    first: list[int] = []
    last: list[int] = []
    started: dict[float, int] = {}
    unpaired, last_stop = 0, -np.inf
    kinds, times = found.columns["key"].tolist(), found.time_s.tolist()
    for at, (kind, time_s, number) in enumerate(zip(kinds, times, found.numbers.tolist(), strict=True)):
        if int(kind) == KEYS.index(start):
            started.setdefault(number, at)
            continue
        key = number if number in started else next(iter(started), None) if len(started) == 1 else None
        if key is None:
            # Several ranks print one stop; what comes later has lost its start.
            unpaired += time_s > last_stop + 1
            continue
        opened = started.pop(key)
        if time_s <= times[opened]:
            continue
        last_stop = time_s
        first.append(opened)
        last.append(at)
    starts, stops = (found[np.array(places, np.int64)] for places in (first, last))
    return _spans_of(starts, stops, start), int(unpaired) + len(started)


def _spans_of(starts: Events, stops: Events, start: str) -> Spans:
    """Return the intervals from ``starts`` to ``stops``, which pair; ``start`` is the key of a start."""
    numbers, epochs = stops.numbers, starts.values("count")
    if start != "block_start":
        epochs = np.where(np.isfinite(epochs), epochs, 1.0)
    # Some programs print the number of steps at the end, others the step at both ends.
    steps = stops.values("first_step") - starts.values("first_step")
    for counts in (starts.values("step_count"), stops.values("step_count")):
        steps = np.where(np.isfinite(counts), counts, steps)
    return Spans(
        number=np.where(numbers >= 0, numbers, np.arange(len(numbers))),
        start_s=starts.time_s,
        stop_s=stops.time_s,
        epochs=epochs,
        samples=stops.values("samples") - starts.values("samples"),
        first_step=starts.values("first_step"),
        steps=steps,
    )


class _Mark(NamedTuple):
    """One end of a segment."""

    time_s: float
    samples: float
    step: float


def segments(events: Events, batch: float, next_samples: float = math.nan) -> Spans:
    """Return the training within blocks, without evaluation, with the samples of each; NaN samples if unknown.

    A segment begins at ``block_start`` and ends at the first of ``eval_start``, ``block_stop``, the next start and
    ``run_stop``: some programs stop only the last of their blocks. ``samples_count`` is a counter of samples, or, if
    all blocks have the same one from the first start on, the length of a block. ``batch`` is the samples of a step, and
    ``next_samples`` the counter at the next start after the events, if they are a part of a run.
    """
    ends = _segment_ends(events.of("block_start", "block_stop", "eval_start", "run_stop"))
    counters = [first.samples for first, _ in ends]
    same = len(set(counters)) == 1 and counters[0] > 0
    # Of a single block only its steps can tell.
    steps = ends[0][1].step - ends[0][0].step if ends else np.nan
    confirmed = len(ends) > 1 or abs(steps * batch / counters[0] - 1) < _CLOSE if same else False
    lengths = same and confirmed and ends[0][1].samples == counters[0]
    counting = events.of("run_stop", "eval_stop", "eval_accuracy", "block_stop")
    times, counts = counting.time_s, counting.values("samples")
    found = []
    for place, (first, last) in enumerate(ends):
        if lengths:
            samples = first.samples
        else:
            following = counters[place + 1] if place + 1 < len(ends) else next_samples
            counter = next((count for count in (last.samples, following) if count > first.samples), None)
            if counter is None:
                after = counts[(times >= last.time_s) & (counts > first.samples)]
                counter = after[0] if len(after) else np.nan
            samples = counter - first.samples
        of_steps = first.step, last.step - first.step
        found.append((float(place), first.time_s, last.time_s, np.nan, samples, *of_steps))
    return Spans(*np.array(found, np.float64).reshape(-1, 7).T)


def _segment_ends(events: Events) -> list[tuple[_Mark, _Mark]]:
    """Return the start and the end of each segment; ``events`` are those that start or end one."""
    ends: list[tuple[_Mark, _Mark]] = []
    started: _Mark | None = None
    columns = (events.time_s, events.values("samples"), events.values("first_step"))
    marks = map(_Mark, *(values.tolist() for values in columns))
    for kind, mark in zip(events.columns["key"].tolist(), marks, strict=True):
        is_start = int(kind) == KEYS.index("block_start")
        if started is not None and mark.time_s > started.time_s:
            ends.append((started, mark))
            started = None
        if is_start and started is None:
            started = mark
    return ends
