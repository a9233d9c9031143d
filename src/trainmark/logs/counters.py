"""Analysis of the records' counters: mixed ranks, concatenated runs, repeats, and decreasing steps."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trainmark.logs.columns import Column, Floats, differences, median
from trainmark.logs.fields import FIELDS
from trainmark.logs.model import Records, Restart
from trainmark.logs.restarts import find_restarts, find_resumed_runs

_EPOCH = 1e9
_SAMPLE = 1 << 18
"""Records used to detect repeated counters: repeats show from the start, and sorting all costs memory."""
_BLOCK = 1 << 15


class Counters(NamedTuple):
    """The numbering of the records.

    ``interval`` is the usual number of steps between records. ``repeated`` and ``backwards`` count records whose
    number equals, or is lower than, the highest one before. ``copies`` is how often nearly every number occurs (more
    than once if several ranks print the same lines untagged). ``starts`` are the positions at which the numbering
    restarts like a second run. ``restarts`` are the returns to a checkpoint; if present, they explain all
    ``backwards`` records.
    """

    interval: int = 1
    repeated: int = 0
    backwards: int = 0
    copies: int = 1
    starts: tuple[int, ...] = ()
    restarts: tuple[Restart, ...] = ()


def count(records: Records) -> Counters:
    """Return the numbering of ``records`` (of one rank, in the order of the log)."""
    if records.step is None and records.epoch is None:
        return Counters()
    interval = _interval(records)
    repeated = backwards = position = 0
    first = high = -np.inf
    starts: list[int] = []
    for keys in _keys(records):
        if np.isinf(first):
            first = keys[0]
        if keys[0] > high and (keys[1:] > keys[:-1]).all():
            high = float(keys[-1])
            position += len(keys)
            continue
        offset = 0
        while offset < len(keys):
            rest = keys[offset:]
            before = np.maximum.accumulate(np.concatenate(([high], rest)))[:-1]
            # A number back at or below the first one, after higher ones, starts a second run.
            anew = np.flatnonzero((rest <= first) & (before > first)) if len(rest) else np.empty(0)
            end = int(anew[0]) if len(anew) else len(rest)
            part, highest = rest[:end], before[:end]
            repeated += int(np.count_nonzero(part == highest))
            backwards += int(np.count_nonzero(part < highest))
            if end:
                high = max(high, float(part.max()))
            if end < len(rest):
                starts.append(position + offset + end)
                high, first = float(rest[end]), float(rest[end])
                end += 1
            offset += end
        position += len(keys)
    if not (repeated or backwards or starts):
        return Counters(interval=interval)
    copies = _copies(records)
    restarts = find_restarts(records, interval) if backwards and not starts else None
    if restarts and (copies == 1 or len(restarts) < copies):
        # When the counter reaches its value before the restart, it repeats one number.
        return Counters(interval, max(repeated - len(restarts), 0), backwards, restarts=restarts)
    if starts and copies == 1 and (resumed := find_resumed_runs(records, starts)):
        return Counters(interval, repeated, backwards, restarts=resumed)
    if starts and copies > 1 and not _whole_runs(records, starts):
        starts = []  # interleaved lines of several ranks, not consecutive runs
    elif starts:
        copies = 1
    return Counters(interval, repeated, backwards, copies, tuple(starts))


def first_of_each(records: Records) -> Records:
    """Return the first record of each number, as one rank would have printed them."""
    columns = {name: Column() for name in _names(records)}
    high, position, total = -np.inf, 0, 0
    for keys in _keys(records):
        before = np.maximum.accumulate(np.concatenate(([high], keys)))[:-1]
        keep = keys > before
        high = max(high, float(keys.max()))
        for name, column in columns.items():
            column.append(getattr(records, name).array(position, position + len(keys))[keep])
        position += len(keys)
        total += int(np.count_nonzero(keep))
    return Records(count=total, **columns)


def copy_deviation(records: Records, copies: int) -> float:
    """Return the median relative difference in speed between the ``copies`` of a record; 0 if they print none."""
    column = next(
        (c for c in (records.rate, records.step_time_s, records.average_time_s) if c is not None), None
    )
    if column is None:
        return 0.0
    keys = _sample(records)
    order = np.argsort(keys, kind="stable")
    _, first, size = np.unique(keys[order], return_index=True, return_counts=True)
    places = first[size == copies][:, None] + np.arange(copies)
    values = column.array(0, len(keys))[order][places]
    values = values[(values > 0).all(axis=1)]
    return median(values.max(axis=1) / values.min(axis=1)) - 1 if len(values) else 0.0


def _names(records: Records) -> list[str]:
    return [name for name in FIELDS if getattr(records, name) is not None]


def _sample(records: Records) -> Floats:
    return np.concatenate(list(_keys(records, min(_SAMPLE, records.count))))


def _keys(records: Records, end: int | None = None) -> Iterator[Floats]:
    end = records.count if end is None else end
    for start in range(0, end, _BLOCK):
        stop = min(start + _BLOCK, end)
        key = np.zeros(stop - start)
        if records.epoch is not None:
            key += _finite(records.epoch.array(start, stop)) * _EPOCH
        if records.step is not None:
            key += _finite(records.step.array(start, stop))
        yield key


def _finite(values: Floats) -> Floats:
    return values if np.isfinite(values).all() else np.nan_to_num(values)


def _interval(records: Records) -> int:
    if records.step is None or records.count < 2:
        return 1
    steps = records.step.array(0, min(records.count, 4096))
    rises = differences(steps)
    rises = rises[rises > 0]
    if not len(rises):
        return 1
    if rises.min() == rises.max():
        return int(rises[0])
    values, counts = np.unique(rises, return_counts=True)
    return int(values[np.argmax(counts)])


def _copies(records: Records) -> int:
    _, counts = np.unique(_sample(records), return_counts=True)
    values, how_often = np.unique(counts, return_counts=True)
    usual = int(values[np.argmax(how_often)])
    return usual if usual > 1 and how_often.max() >= 0.8 * len(counts) else 1


def _whole_runs(records: Records, starts: list[int]) -> bool:
    """Return whether the part before the first new start covers at least half the range of all parts."""
    reach, all_reach = (np.ptp(list(_extremes(records, stop))) for stop in (starts[0], records.count))
    return bool(reach >= 0.5 * all_reach)


def _extremes(records: Records, stop: int) -> Iterator[float]:
    """Yield the lowest and the highest number in each block of the records up to ``stop``."""
    for keys in _keys(records, stop):
        yield from (float(keys.min()), float(keys.max()))
