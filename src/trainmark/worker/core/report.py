"""Events as DLLogger's JSON stream: the parameters, one line per step, and the summary.

The shape of a line (``timestamp``, ``datetime``, ``elapsedtime``, ``type``, ``step``, ``data``; times as text) is
that of ``JSONStreamBackend`` in https://github.com/NVIDIA/dllogger. The JSON is strict: no NaN, no Infinity.
"""

import json
import math
import time
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import IO, Any, NamedTuple

from .settings import Settings, flags_of
from .task import Task, Verified
from .training import Training
from .window import Timeline

SCHEMA, PARAMETER = "trainmark.events/1", "PARAMETER"
# Of the PARAMETER event: the settings that begin it, and the fields of recipes that others tell.
AXES = ("framework", "task", "model", "precision", "compiler", "data")
OBSERVED = ("loss_scale", "optimizer")
UNSEEN = -1  # the number of compilations of a framework that counts none

Step = str | list[int]
Event = tuple[Step, Mapping[str, Any], float]  # its step, its data and the Unix time at which it happened


class EventWriter:
    """Writes events to an open text stream, each flushed as soon as it is written; drops them without a stream."""

    def __init__(self, stream: IO[str] | None, started_at: float | None = None) -> None:
        """Take the stream, and the Unix time from which ``elapsedtime`` counts (now, if not given)."""
        self._stream = stream
        self._started_at = time.time() if started_at is None else started_at

    def write(self, step: Step, data: Mapping[str, Any], at: float | None = None) -> None:
        """Write one event that happened at Unix time ``at`` (now, if not given)."""
        self.write_all([(step, data, time.time() if at is None else at)])

    def write_all(self, events: list[Event]) -> None:
        """Write many events with one flush."""
        if self._stream is None:
            return
        for step, data, at in events:
            line = {
                "timestamp": str(at),
                "datetime": str(datetime.fromtimestamp(at)),
                "elapsedtime": str(round(at - self._started_at, 6)),
                "type": "LOG",
                "step": step,
                "data": data,
            }
            self._stream.write(f"DLLL {json.dumps(line, allow_nan=False, ensure_ascii=False)}\n")
        self._stream.flush()


class RankTotals(NamedTuple):
    """One rank's part of the result, as whole numbers, so that ranks can exchange it.

    ``compiled_in_window`` may be ``UNSEEN``; ``window_at_us`` is the window's start by the clock of the rank's host, in
    microseconds since the epoch.
    """

    window_ns: int
    samples: int
    peak_memory_bytes: int
    digest: int
    compiled_in_window: int
    window_at_us: int = 0


def parameters(training: Training, settings: Settings, actual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of the PARAMETER event: the request, the run's facts, and what the first step showed."""
    task, world_size, description = training.task, training.ranks.place.world_size, training.describe()
    global_batch = settings.batch_per_device * world_size
    requested = {
        "schema": SCHEMA,
        **{name: getattr(settings, name) for name in AXES},
        "loader": None if settings.synthetic else settings.loader,
        "loader_workers": None if settings.synthetic else settings.loader_workers,
        "batch_per_device": settings.batch_per_device,
        "world_size": world_size,
        "global_batch": global_batch,
        "steps": settings.steps - settings.drain_steps,
        "warmup_steps": settings.warmup_steps - settings.drain_steps,
        "drain_steps": settings.drain_steps,
        "seed": settings.seed,
        "memory_limit_bytes": settings.memory_limit,
        "work": task.work(settings, global_batch),
        "unit": task.unit,
    }
    names = [name for name in flags_of(type(settings.recipe)) if name not in OBSERVED]
    recipe = {name: getattr(settings.recipe, name) for name in names}
    return {**requested, **description, "optimizer": {**description["optimizer"], **recipe}, "actual": actual}


def step_events(
    settings: Settings,
    timeline: Timeline,
    losses: list[float],
    data_waits_s: list[float],
    epoch_samples: int,
    global_batch: int,
) -> list[Event]:
    """Return one event per step, with the time at which the step was done."""
    events: list[Event] = []
    done_at, warmup_steps = timeline.first_step_at, settings.warmup_steps
    for index, (step_s, loss, wait_s) in enumerate(zip(timeline.step_s, losses, data_waits_s)):
        done_at = timeline.window_at + step_s if index == warmup_steps else done_at + step_s
        phase = "first_step" if index == 0 else "warmup" if index < warmup_steps else "measured"
        shown = {"loss": loss} if math.isfinite(loss) else {"loss": None, "loss_finite": False}
        data = {"phase": phase, "step_time_s": step_s, **shown, "data_wait_s": wait_s}
        events.append(([index * global_batch // epoch_samples, index], data, done_at))
    return events


def summary(
    settings: Settings,
    task: Task[Any],
    timeline: Timeline,
    ranks: list[RankTotals],
    losses: list[float],
    memory_of: str,
    found: Verified | None = None,
    counted: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the data of the last event. Throughput is all ranks' headline work divided by the slowest rank's window.

    ``found`` is the result of all checks; ``counted`` is the work of all ranks that does not follow from the samples.
    """
    window_s = max(rank.window_ns for rank in ranks) / 1e9
    samples = sum(rank.samples for rank in ranks)
    work = {**task.work(settings, samples), **counted}
    compiled = [rank.compiled_in_window for rank in ranks]
    agree, every = len({rank.digest for rank in ranks}) == 1, Verified()
    first = next((index for index, loss in enumerate(losses) if not math.isfinite(loss)), None)
    if first is not None:
        every.doubt("loss-not-finite", f"The loss of step {first} is {losses[first]}.")
    if not agree:
        every.doubt("ranks-disagree", "The ranks hold different parameters after the window.")
    if late := [index for index, count in enumerate(compiled) if count > 0]:
        every.doubt("compiled-in-window", f"Ranks {late} compiled again in the window: too little warm-up.")
    every.add(found or Verified())
    return {
        "outcome": "ok",
        "throughput": work[task.headline] / window_s,
        "unit": task.unit,
        "work": work,
        "samples": samples,
        "window_s": window_s,
        "window_at": timeline.window_at,
        "world_size": len(ranks),
        "rank_windows_s": [rank.window_ns / 1e9 for rank in ranks],
        "rank_windows_at": [rank.window_at_us / 1e6 for rank in ranks],
        "rank_samples": [rank.samples for rank in ranks],
        "first_step_s": timeline.first_step_s,
        "compile_s": timeline.compile_s,
        "compiled_in_window": [None if count == UNSEEN else count for count in compiled],
        "peak_memory_bytes": [rank.peak_memory_bytes for rank in ranks],
        "peak_memory_of": memory_of,
        "ranks_agree": agree,
        **every.data,
        "suspect": [{"code": code, "sentence": sentence} for code, sentence in every.doubts],
    }
