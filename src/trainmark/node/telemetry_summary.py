"""Reading of ``telemetry.jsonl``, and the summary of a window of a run."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from trainmark.errors import InputError
from trainmark.node.telemetry import SLOWDOWNS
from trainmark.schema.telemetry import (
    POWER_LIMIT,
    SCHEMA_VERSION,
    GpuSample,
    GpuSummary,
    Header,
    Sample,
    TelemetrySummary,
)

CLOCK_DROP = 0.95
"""A clock below this share of the window's highest one has dropped."""

_T = TypeVar("_T")
_AS_HEADER, _AS_SAMPLE = TypeAdapter(Header), TypeAdapter(Sample)


@dataclass(frozen=True, slots=True)
class Recording:
    """A parsed telemetry file; ``header`` is None if the first line is unreadable."""

    header: Header | None
    samples: tuple[Sample, ...]
    unreadable_lines: int


def read_telemetry(path: Path) -> Recording:
    """Read a file that may be truncated anywhere; raise ``InputError`` for another schema version.

    ``OSError`` passes through when the file cannot be read.
    """
    header: Header | None = None
    samples, unreadable = [], 0
    for number, line in enumerate(path.read_bytes().splitlines()):
        try:
            if number == 0:
                header = _AS_HEADER.validate_json(line)
            else:
                samples.append(_AS_SAMPLE.validate_json(line))
        except ValidationError:
            unreadable += 1
    if header is not None and header.schema_version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: telemetry of schema version {header.schema_version}; this trainmark reads {SCHEMA_VERSION}"
        )
    return Recording(header, tuple(samples), unreadable)


def summarise(path: Path, window: tuple[float, float] | None = None) -> TelemetrySummary:
    """Return the summary of ``window`` (Unix times in seconds, from and to, as in events; None: of everything).

    A sample counts if it was taken within the window. The shares of the first one reach back over its interval.
    """
    recording = read_telemetry(path)
    in_window = [
        sample for sample in recording.samples if window is None or window[0] <= sample.wall_s <= window[1]
    ]
    names = {gpu.index: gpu for gpu in recording.header.gpus} if recording.header else {}
    indexes = sorted({gpu.index for sample in in_window for gpu in sample.gpus})
    return TelemetrySummary(
        samples=len(in_window),
        unreadable_lines=recording.unreadable_lines,
        seconds=in_window[-1].monotonic_s - in_window[0].monotonic_s if in_window else 0.0,
        cpu_busy_mean=_over_time(in_window, lambda sample: sample.cpu.busy),
        cpu_tree_mean=_over_time(in_window, lambda sample: sample.cpu.tree),
        cpu_other_mean=_over_time(in_window, lambda sample: sample.cpu.other),
        cpu_other_max=max(_present(sample.cpu.other for sample in in_window), default=None),
        tree_rss_bytes_max=max((sample.memory.tree_rss_bytes for sample in in_window), default=None),
        tree_pss_bytes_max=max(_present(sample.memory.tree_pss_bytes for sample in in_window), default=None),
        available_bytes_min=min(
            _present(sample.memory.available_bytes for sample in in_window), default=None
        ),
        gpus=tuple(
            _gpu(
                index,
                names[index].uuid if index in names else None,
                names[index].name if index in names else None,
                [gpu for sample in in_window for gpu in sample.gpus if gpu.index == index],
            )
            for index in indexes
        ),
    )


def _gpu(index: int, uuid: str | None, name: str | None, samples: list[GpuSample]) -> GpuSummary:
    reasons = _present(sample.clock_reasons for sample in samples)
    named = sorted({reason for found in reasons for reason in found})
    clocks = _present(sample.sm_clock_mhz for sample in samples)
    power = _present(sample.power_w for sample in samples)
    return GpuSummary(
        index=index,
        uuid=uuid,
        name=name,
        sm_clock_mhz_mean=_mean(clocks),
        sm_clock_mhz_min=min(clocks, default=None),
        power_w_mean=_mean(power),
        power_w_max=max(power, default=None),
        temperature_c_max=max(_present(sample.temperature_c for sample in samples), default=None),
        utilisation_mean=_mean(_present(sample.utilisation for sample in samples)),
        memory_used_bytes_max=max(_present(sample.memory_used_bytes for sample in samples), default=None),
        throttled_share=_mean([float(not SLOWDOWNS.isdisjoint(found)) for found in reasons]),
        reason_shares={reason: sum(reason in found for found in reasons) / len(reasons) for reason in named},
        foreign_pids=tuple(
            sorted({pid for found in _present(s.foreign_pids for s in samples) for pid in found})
        ),
        unseen_processes_max=max(_present(sample.unseen_processes for sample in samples), default=None),
        clock_dropped_share=_dropped(samples),
    )


def _dropped(samples: list[GpuSample]) -> float | None:
    """Return the share of busy samples with a dropped clock that the power limit does not explain."""
    busy = [
        (sample.sm_clock_mhz, sample.clock_reasons)
        for sample in samples
        if sample.sm_clock_mhz is not None
        and sample.clock_reasons is not None
        and "gpu_idle" not in sample.clock_reasons
        and sample.utilisation != 0
    ]
    if not busy:
        return None
    highest = max(clock for clock, _ in busy)
    return _mean(
        [float(clock < CLOCK_DROP * highest and POWER_LIMIT not in reasons) for clock, reasons in busy]
    )


def _present(values: Iterable[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]


def _mean(values: list[float] | list[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _over_time(samples: list[Sample], share: Callable[[Sample], float | None]) -> float | None:
    """Return the mean of a share over the samples, weighted by the time that each covers."""
    weighted = [(value, sample.interval_s) for sample in samples if (value := share(sample)) is not None]
    seconds = sum(interval for _, interval in weighted)
    return sum(value * interval for value, interval in weighted) / seconds if seconds > 0 else None
