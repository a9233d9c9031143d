"""Intervals of an MLPerf run: epochs and blocks between their start and stop events, and the training within blocks."""

from typing import NamedTuple

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.programs.mlperf.events import KEYS, of_key

_CLOSE = 0.01
_TIME, _NUMBER, _COUNT, _SAMPLES, _FIRST_STEP, _STEP_COUNT = 1, 2, 3, 4, 6, 7


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
