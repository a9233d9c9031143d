"""The measurement of one run, computed from the events that the run wrote."""

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.events import RunEvents
from trainmark.logs.model import OwnRun
from trainmark.measure.own_window import own_window
from trainmark.measure.steadiness import judge_steadiness
from trainmark.schema.measurement import About, Measurement, StepTimes, Suspicion


def measure_events(events: RunEvents) -> Measurement:
    """Return the measurement of a run of a built-in worker by the window rule.

    Raises ``NotMeasurable`` when the events do not contain a whole window.
    """
    times = events.step_times_s[events.measured]
    window = own_window(OwnRun(events.parameters, events.summary), times)
    summary = window.summary
    waits = events.data_waits_s[events.measured]
    losses = events.losses[np.isfinite(events.losses)]
    return Measurement(
        unit=window.unit,
        rule="window",
        throughput=window.throughput,
        samples=summary.samples,
        work=summary.work,
        window_s=summary.window_s,
        measured_steps=int(times.size),
        warmup_steps=int((~events.measured).sum()),
        first_step_s=summary.first_step_s,
        compile_s=summary.compile_s,
        step_times=_step_times(times),
        data_wait=min(1.0, float(np.nansum(waits) / summary.window_s)) if np.isfinite(waits).any() else None,
        peak_memory_bytes=summary.peak_memory_bytes,
        final_loss=float(losses[-1]) if losses.size else None,
        peak_operations_per_s=sum(summary.peak_operations_per_s) if summary.peak_operations_per_s else None,
        # MFU > 1 is impossible; older runs recorded it because their measured peak was too low.
        mfu=summary.mfu if max(summary.mfu.values(), default=0.0) <= 1 else {},
        peak_bytes_per_s=sum(summary.peak_bytes_per_s) if summary.peak_bytes_per_s else None,
        roofline=summary.roofline,
        steps_skipped=summary.after_window.steps_skipped if summary.after_window else None,
        work_not_checked=summary.after_window.not_checked if summary.after_window else None,
        steadiness=judge_steadiness(times, _epoch_starts(events)[events.measured], waits),
        suspicions=tuple(
            Suspicion(code=doubt.code, sentence=doubt.sentence, about=About.WORK) for doubt in summary.suspect
        ),
    )


def _epoch_starts(events: RunEvents) -> NDArray[np.bool_]:
    """Return for each step whether it is the first of an epoch other than the first epoch."""
    epochs = events.steps[:, 0]
    return np.concatenate([[False], np.diff(epochs) != 0])[: epochs.size]


def _step_times(times: NDArray[np.float64]) -> StepTimes | None:
    known = times[np.isfinite(times)]
    if known.size == 0:
        return None
    p50, p90, p99 = (float(p) for p in np.percentile(known, (50, 90, 99)))
    low, high = float(known.min()), float(known.max())
    return StepTimes(mean=float(known.mean()), minimum=low, p50=p50, p90=p90, p99=p99, maximum=high)
