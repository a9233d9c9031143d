"""Data for synthetic logs: given step times, and the rates and clocks computed from them.

Each program prints them in its own format (``sample`` of the format), so that tests can compare the parsed values
with the given ones. Nothing here is a measurement.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class SampleRun:
    """A run to be written as a log: steps that differ only in their times.

    ``step_times_s`` has one value in seconds per step (per optimizer step if a format accumulates). A record is
    printed every ``interval`` steps. ``batch_per_device`` counts samples, or tokens in the Transformer formats.
    """

    step_times_s: Sequence[float]
    gpus: int = 8
    batch_per_device: int = 64
    interval: int = 1
    amp: bool = False
    start: datetime = datetime(2023, 7, 28, 6, 50, 0, tzinfo=UTC)

    @property
    def global_batch(self) -> int:
        """Samples of one step over all devices."""
        return self.gpus * self.batch_per_device


@dataclass(frozen=True, slots=True)
class Line:
    """One record to be written: its last step (from 1), its clock, its interval's step time and rates."""

    step: int
    clock: datetime
    elapsed_s: float
    step_time_s: float
    rate: float
    last_step_time_s: float
    average_rate: float


def lines_of(run: SampleRun) -> Iterator[Line]:
    """Yield the record of each interval."""
    elapsed, interval_s = 0.0, 0.0
    for step, seconds in enumerate(run.step_times_s, start=1):
        elapsed += seconds
        interval_s += seconds
        if step % run.interval == 0:
            mean_s = interval_s / run.interval
            yield Line(
                step=step,
                clock=run.start + timedelta(seconds=elapsed),
                elapsed_s=elapsed,
                step_time_s=mean_s,
                rate=run.global_batch / mean_s,
                last_step_time_s=seconds,
                average_rate=step * run.global_batch / elapsed,
            )
            interval_s = 0.0


def end_of(run: SampleRun) -> datetime:
    """Return the time at which the run ends."""
    return run.start + timedelta(seconds=sum(run.step_times_s))


def mean_rate(run: SampleRun) -> float:
    """Return the mean of the printed rates (samples/s, all devices)."""
    rates = [line.rate for line in lines_of(run)]
    return sum(rates) / len(rates) if rates else float("nan")


def overall_rate(run: SampleRun) -> float:
    """Return the samples per second of the whole run (all devices)."""
    return run.global_batch * len(run.step_times_s) / sum(run.step_times_s)


def dll_stamp(moment: datetime) -> str:
    """Return the start of a DLLogger line."""
    return f"DLL {moment:%Y-%m-%d %H:%M:%S.%f} -"
