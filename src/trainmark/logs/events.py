"""Events of a trainmark run: ``events.jsonl``, written by a built-in worker after its measured window.

Each line is ``DLLL`` and a JSON object, the DLLogger JSON-stream convention: ``step`` is ``"PARAMETER"`` for the
run's parameters, ``[epoch, step]`` for one step, and ``[]`` for the summary of the whole run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.parameters import PARAMETER, stream_event
from trainmark.schema.measurement import Parameters

SCHEMA = "trainmark.events/1"

DEFAULT_UNIT = "samples/s"
"""Unit of a run that reports none, as in earlier versions, which only counted samples."""


@dataclass(frozen=True, slots=True)
class RunEvents:
    """The events of one run.

    ``steps`` has the epoch number and the step number of each step. ``step_times_s`` (seconds), ``losses`` and
    ``data_waits_s`` (seconds) have one value per step, NaN if it was not reported; ``measured`` is true for the steps
    of the measured window, of which ``losses_not_finite`` have a loss that is not finite. ``parameters`` and
    ``summary`` are as reported, and empty if the line is missing.
    """

    parameters: Parameters
    steps: NDArray[np.float64]
    step_times_s: NDArray[np.float64]
    losses: NDArray[np.float64]
    data_waits_s: NDArray[np.float64]
    measured: NDArray[np.bool_]
    summary: Mapping[str, Any]
    damaged_lines: int
    losses_not_finite: int = 0


def read_events(path: Path) -> RunEvents:
    """Read an events file; a missing file reads as an empty one."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        text = ""
    return parse_events(text.split("\n"))


def parse_events(lines: Iterable[str]) -> RunEvents:
    """Parse lines into ``RunEvents``; lines that are damaged or not events are counted and left out."""
    parameters: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    numbers: list[Any] = []
    steps: list[dict[str, Any]] = []
    damaged = 0
    for line in lines:
        event = stream_event(line)
        if event is None:
            damaged += bool(line.strip())
        elif event["step"] == PARAMETER:
            parameters |= event["data"]
        elif event["step"] == []:
            summary |= event["data"]
        else:
            numbers.append(event["step"])
            steps.append(event["data"])
    return RunEvents(
        parameters=Parameters.of(parameters),
        steps=np.array([_step_numbers(step) for step in numbers], dtype=np.float64).reshape(-1, 2),
        step_times_s=_column(steps, "step_time_s"),
        losses=_column(steps, "loss"),
        data_waits_s=_column(steps, "data_wait_s"),
        measured=np.array([step.get("phase") == "measured" for step in steps], dtype=np.bool_),
        summary=summary,
        damaged_lines=damaged,
        losses_not_finite=sum(
            step.get("loss_finite") is False and step.get("phase") == "measured" for step in steps
        ),
    )


def _step_numbers(step: Any) -> tuple[float, float]:
    words = step if isinstance(step, list) else [step]
    return (_number(words[0]), _number(words[-1])) if words else (np.nan, np.nan)


def _column(steps: list[dict[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([_number(step.get(name)) for step in steps], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, int | float) else np.nan
    except OverflowError:
        return np.nan
