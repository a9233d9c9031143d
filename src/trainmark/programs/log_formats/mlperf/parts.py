"""Runs of a log, and the parts of a long run, so that memory does not grow with the number of events.

A part ends between two epochs or blocks, and has the few events of the run that are no epochs, blocks or evaluations.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.format import Assembled
from trainmark.logs.model import Column, Floats, in_step, median
from trainmark.programs.log_formats.mlperf.events import KEYS, Events
from trainmark.programs.log_formats.mlperf.methods import (
    Part,
    Records,
    Run,
    every_way,
    middle,
    name_witnesses,
    preferred,
)

LONG_EVENTS = 1 << 17
"""More events are read in parts; no published result has as many."""
PART_EVENTS = 1 << 15
_LONGEST = 4
_FEWEST_SPANS = 3
_SAMPLE = 256
"""Rates of a part from which the median of a way is computed."""
_RANK_DELAY_S = 60.0
"""Longest delay between ranks that print the same start; a later start is another run."""
_STARTS = [KEYS.index(key) for key in ("epoch_start", "block_start")]
_STOPS = [KEYS.index(key) for key in ("epoch_stop", "block_stop")]
_OF_RUN = [
    KEYS.index(key)
    for key in ("run_start", "run_stop", "train_samples", "global_batch_size", "submission_benchmark")
]


def runs_of(events: Events) -> list[Run]:
    """Split the events into runs."""
    starts: list[int] = []
    times, stops = events.time_s, events.places("run_stop")
    ends = times[stops]
    for at in events.places("run_start").tolist():
        ended = bool(starts) and bool(((ends >= times[starts[-1]]) & (ends < times[at])).any())
        if not starts or ended or times[at] - times[starts[-1]] > _RANK_DELAY_S:
            starts.append(at)
    if len(starts) < 2:
        return [Run.of(events)]
    # A run begins where the previous one ended: its settings are printed before its start event.
    cuts = [max((stop + 1 for stop in stops.tolist() if stop < at), default=at) for at in starts[1:]]
    return [Run.of(events[begin:end]) for begin, end in pairwise((0, *cuts, len(events)))]


def assemble_parts(columns: Mapping[str, Column]) -> Assembled | None:
    """Return the records of a long run, one part in memory at a time; ``None`` if they need all events at once.

    They do if the log is not in the order of time, has several runs, does not close its epochs and blocks, or its parts
    have different ways to the number.
    """
    parts = _Parts.of(columns)
    if parts is None:
        return None
    records: dict[str, Column] = {}
    rates: dict[str, list[Floats]] = {}
    way, last = None, -np.inf
    for run in parts.runs():
        found = every_way(run)
        if not rates:
            way, rates = preferred(run, found), {name: [] for name in found}
        if way is None or found.keys() != rates.keys() or len(run.spans) < _FEWEST_SPANS:
            return None
        for name, values in found.items():
            rates[name].append(values["rate"][:: len(values["rate"]) // _SAMPLE + 1])
        if way != "run" or not records:
            last = _append(records, found[way], last)
    medians = {name: median(np.concatenate(values)) for name, values in rates.items()}
    if "run" in found:
        medians["run"] = middle(found["run"])
    return Assembled(records, name_witnesses(run.dialect, medians))


def _append(records: dict[str, Column], found: Records, last: float) -> float:
    """Append the records of a part, whose own numbering goes on after the ``last`` step; return the last step."""
    steps = found["step"]
    if records and steps[0] <= last:
        steps = last + np.arange(1.0, len(steps) + 1)
    for name, values in (found | {"step": steps}).items():
        records.setdefault(name, Column()).append(values)
    return float(steps[-1])


class _Parts:
    """The parts of a long run: the positions of their events, and of the run's few others."""

    def __init__(self, columns: Mapping[str, Column], cuts: list[int], of_run: NDArray[np.int64]) -> None:
        self._columns = columns
        self._cuts = cuts
        self._places = of_run
        self._of_run = Events(
            {
                name: np.array([column.array(at, at + 1)[0] for at in of_run.tolist()], np.float64)
                for name, column in columns.items()
            }
        )

    @classmethod
    def of(cls, columns: Mapping[str, Column]) -> "_Parts | None":
        """Return the parts; ``None`` if there are none."""
        found = _cuts_of(columns["key"], columns["time_s"])
        if found is None or len(found[0]) < 3 or np.diff(found[0]).max() > _LONGEST * PART_EVENTS:
            return None
        parts = cls(columns, *found)
        return parts if len(runs_of(parts._of_run)) == 1 else None

    def runs(self) -> Iterator[Run]:
        """Yield the parts, each as a run."""
        places = list(pairwise(self._cuts))
        first, last = (Run.of(self._events(*places[end])).spans.start_s for end in (0, -1))
        starts_s = (float(first[0]), float(last[-1])) if len(first) and len(last) else None
        for number, (begin, end) in enumerate(places):
            following = {
                name: float(self._columns[name].array(end, end + 1)[0])
                for name in ("first_step", "samples")
                if name in self._columns and end < self._cuts[-1]
            }
            part = Part(
                is_first=number == 0,
                is_last=number == len(places) - 1,
                starts_s=starts_s,
                next_step=following.get("first_step", np.nan),
                next_samples=following.get("samples", np.nan),
            )
            yield Run.of(self._events(begin, end), part)

    def _events(self, begin: int, end: int) -> Events:
        """Return the events of a part, and around them those of the run."""
        before, after = self._of_run[self._places < begin], self._of_run[self._places >= end]
        return Events(
            {
                name: np.concatenate((before.columns[name], column.array(begin, end), after.columns[name]))
                for name, column in self._columns.items()
            }
        )


def _cuts_of(keys: Column, times: Column) -> tuple[list[int], NDArray[np.int64]] | None:
    """Return where the parts begin and the last one ends, and the positions of the run's own events.

    ``None`` if the events are not in the order of time, or too many are the run's own.
    """
    cuts, places = [0], [np.empty(0, np.int64)]
    depth, position, before = 0, 0, -np.inf
    for kinds, moments in in_step([keys, times]):
        if moments[0] < before or (moments[1:] < moments[:-1]).any():
            return None
        starts, stops = np.isin(kinds, _STARTS), np.isin(kinds, _STOPS)
        level = depth + np.cumsum(starts.astype(np.int64) - stops)
        between = position + np.flatnonzero(starts & (level == 1))
        while (at := int(np.searchsorted(between, cuts[-1] + PART_EVENTS))) < len(between):
            cuts.append(int(between[at]))
        places.append(position + np.flatnonzero(np.isin(kinds, _OF_RUN)))
        if sum(map(len, places)) > PART_EVENTS:
            return None
        depth, position, before = int(level[-1]), position + len(kinds), float(moments[-1])
    if len(cuts) > 1 and position - cuts[-1] < PART_EVENTS // 2:
        cuts.pop()
    return [*cuts, position], np.concatenate(places)
