"""One run's measurement, out of what the run itself wrote down."""

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from trainmark.logs.events import RunEvents
from trainmark.measure.steadiness import judge_steadiness
from trainmark.words.measurement import About, Measurement, StepTimes, Suspicion


class _Doubt(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    code: str
    sentence: str


class _Summary(BaseModel):
    """What is read of the event that holds for the whole run; other keys are for people."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    window_s: PositiveFloat
    samples: PositiveInt
    first_step_s: float | None = None
    compile_s: float | None = None
    peak_memory_bytes: Annotated[tuple[int, ...], Field(strict=False)] = ()
    suspect: Annotated[tuple[_Doubt, ...], Field(strict=False)] = ()


class NotMeasurable(Exception):  # noqa: N818 - it is an outcome with a reason, not a program's error
    """The run left no measurement; the message is the reason, for the outcome ``invalid``."""


def measure_events(events: RunEvents) -> Measurement:
    """Return the measurement of a run of a built-in worker by the window rule.

    Raises ``NotMeasurable`` when the events do not hold a whole window: no summary, no measured steps, or
    numbers that contradict each other.
    """
    if not events.parameters:
        raise NotMeasurable("the run wrote no parameters: nothing says what it did")
    if not {"window_s", "samples"} <= events.summary.keys():
        raise NotMeasurable("the run wrote no measured window")
    summary, global_batch, unit = _summary(events)
    times = events.step_times_s[events.measured]
    if times.size == 0:
        raise NotMeasurable("the run wrote no measured step: it had no more steps than its warm-up")
    if (times <= 0).any():
        raise NotMeasurable(f"a step cannot have taken {times.min()} s")
    if summary.samples != global_batch * times.size:
        raise NotMeasurable(
            f"the window counts {summary.samples} samples, but {times.size} steps of the global batch make "
            f"{global_batch * times.size}"
        )
    throughput = summary.samples / summary.window_s
    if not math.isfinite(throughput):
        raise NotMeasurable(f"{summary.samples} samples cannot have taken {summary.window_s} s")
    waits = events.data_waits_s[events.measured]
    losses = events.losses[np.isfinite(events.losses)]
    return Measurement(
        unit=unit,
        rule="window",
        throughput=throughput,
        samples=summary.samples,
        window_s=summary.window_s,
        measured_steps=int(times.size),
        warmup_steps=int((~events.measured).sum()),
        first_step_s=summary.first_step_s,
        compile_s=summary.compile_s,
        step_times=_step_times(times),
        data_wait=float(np.nansum(waits) / summary.window_s) if np.isfinite(waits).any() else None,
        peak_memory_bytes=summary.peak_memory_bytes,
        final_loss=float(losses[-1]) if losses.size else None,
        steadiness=judge_steadiness(times),
        suspicions=tuple(
            Suspicion(code=doubt.code, sentence=doubt.sentence, about=About.WORK) for doubt in summary.suspect
        ),
    )


def _summary(events: RunEvents) -> tuple[_Summary, int, str]:
    """Return the summary, the global batch and the unit of the throughput."""
    batch, unit = events.parameters.get("global_batch"), events.parameters.get("unit", "samples/s")
    if not isinstance(batch, int) or not isinstance(unit, str):
        raise NotMeasurable("the run's parameters name no global batch")
    try:
        return _Summary.model_validate(events.summary), batch, unit
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        said = f"{first['msg'][0].lower()}{first['msg'][1:]}"
        raise NotMeasurable(f"the run's summary cannot be used: {place}: {said}") from None


def _step_times(times: NDArray[np.float64]) -> StepTimes | None:
    known = times[np.isfinite(times)]
    if known.size == 0:
        return None
    p50, p90, p99 = (float(p) for p in np.percentile(known, (50, 90, 99)))
    low, high = float(known.min()), float(known.max())
    return StepTimes(mean=float(known.mean()), minimum=low, p50=p50, p90=p90, p99=p99, maximum=high)
