"""The step times of the runs that are drawn, read from the runs' events: the only file that charts need."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.events import read_events
from trainmark.schema.names import EVENTS
from trainmark.schema.results import CaseResult, Results

MOST_CASES = 12
"""The number of cases that are drawn; the series of the others are in their ``events.jsonl``."""


@dataclass(frozen=True, slots=True)
class StepSeries:
    """A run's steps in order: their times (s, NaN if unknown), and which of them were in the measured window."""

    repeat: int
    times_s: NDArray[np.float64]
    measured: NDArray[np.bool_]


def read_series(results: Results, directory: Path) -> dict[str, tuple[StepSeries, ...]]:
    """Return the series of the first measured cases, by case id."""
    measured = [case for case in results.cases if case.estimate is not None][:MOST_CASES]
    return {case.id: tuple(_series(case, directory)) for case in measured}


def _series(case: CaseResult, directory: Path) -> Sequence[StepSeries]:
    found = []
    for run in case.runs:
        if run.measurement is None:
            continue
        events = read_events(directory / run.directory / EVENTS)
        if events.measured.any():
            found.append(StepSeries(run.repeat, events.step_times_s, events.measured))
    return found
