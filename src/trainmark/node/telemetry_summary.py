"""Reading of ``telemetry.jsonl``, and the summary of a window of a run."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from trainmark.errors import InputError
from trainmark.node.processes import WALK_S
from trainmark.node.telemetry import SLOWDOWNS
from trainmark.schema.telemetry import (
    POWER_LIMIT,
    SCHEMA_VERSION,
    CpuCounters,
    ForeignProcess,
    GpuSample,
    GpuSummary,
    Header,
    Sample,
    TelemetrySummary,
)

CLOCK_DROP = 0.95
"""A clock below this share of the window's highest one has dropped."""

MIN_ENERGY_READINGS = 5
"""The smallest number of readings within a window whose energy is known: of the power, or else of the counter."""

_MOST_NAMED = 3
"""The largest number of processes outside the run in a summary."""

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

    A sample counts if it was taken within the window. CPU shares are differences of counters between the two ends of
    the window; where a sample has none (older files), they are means of the samples' shares, of which the first one
    reaches back over its interval.
    """
    recording = read_telemetry(path)
    in_window = [
        sample for sample in recording.samples if window is None or window[0] <= sample.wall_s <= window[1]
    ]
    names = {gpu.index: gpu for gpu in recording.header.gpus} if recording.header else {}
    indexes = sorted({gpu.index for sample in in_window for gpu in sample.gpus})
    covered = _covered(recording.samples, window)
    cpu = _cpu_in(recording.samples, covered)
    return TelemetrySummary(
        samples=len(in_window),
        unreadable_lines=recording.unreadable_lines,
        seconds=in_window[-1].monotonic_s - in_window[0].monotonic_s if in_window else 0.0,
        cpu_busy_mean=_over_time(in_window, lambda sample: sample.cpu.busy) if cpu is None else cpu.busy,
        cpu_tree_mean=_over_time(in_window, lambda sample: sample.cpu.tree) if cpu is None else cpu.tree,
        cpu_other_mean=_over_time(in_window, lambda sample: sample.cpu.other) if cpu is None else cpu.other,
        cpu_other_max=(
            max(_present(sample.cpu.other for sample in in_window), default=None)
            if cpu is None or covered is None
            else _highest_other(recording.samples, covered)
        ),
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
            ).model_copy(update=_gpu_counters(index, recording.samples, covered))
            for index in indexes
        ),
        window_s=None if window is None else window[1] - window[0],
        covered_s=None if covered is None else covered[1] - covered[0],
        period_s=_period(recording, covered),
        cpu_tree_s=None if cpu is None else cpu.tree_s,
        cpu_throttled_s=None if cpu is None else cpu.throttled_s,
        foreign=_foreign(recording.samples, covered),
        cpus=None if cpu is None else cpu.cpus,
        cpu_wait_mean=None if cpu is None else cpu.wait,
        cpu_energy_j=_rounded(
            _energy(
                [
                    (sample.wall_s, sample.cpu_energy_j)
                    for sample in recording.samples
                    if sample.cpu_energy_j is not None
                ],
                covered,
            )
        ),
        busy_cpus=next(
            (
                sample.busy_cpus
                for sample in reversed(recording.samples)
                if sample.busy_cpus is not None and (window is None or sample.wall_s <= window[1])
            ),
            None,
        ),
    )


@dataclass(frozen=True, slots=True)
class _CpuShares:
    """Shares of the CPUs over a stretch of time, and seconds in it."""

    busy: float
    tree: float
    other: float
    tree_s: float
    throttled_s: float | None
    cpus: int
    wait: float | None


def _covered(samples: Sequence[Sample], window: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the part of the window that the samples and their intervals cover, in Unix time; None for no part."""
    if not samples:
        return None
    first, last = samples[0].wall_s - samples[0].interval_s, samples[-1].wall_s
    begin, end = (first, last) if window is None else (max(window[0], first), min(window[1], last))
    return (begin, end) if end > begin else None


def _period(recording: Recording, covered: tuple[float, float] | None) -> float | None:
    """Return the median time between two samples whose intervals reach into the covered part."""
    if covered is None:
        return recording.header.interval_s if recording.header else None
    intervals = [
        sample.interval_s
        for sample in recording.samples
        if sample.interval_s > 0
        and sample.wall_s > covered[0]
        and sample.wall_s - sample.interval_s < covered[1]
    ]
    return median(intervals) if intervals else None


def _cpu_in(samples: Sequence[Sample], stretch: tuple[float, float] | None) -> _CpuShares | None:
    """Return the shares between the two ends of a stretch, by counters; None if samples lack them."""
    counted = [(sample.wall_s, found) for sample in samples if (found := sample.counters) is not None]
    if stretch is None or len(counted) < 2 or len(counted) < len(samples):
        return None
    times = [at for at, _ in counted]

    def difference(read: Callable[[CpuCounters], float]) -> float:
        values = [read(found) for _, found in counted]
        return _value_at(times, values, stretch[1]) - _value_at(times, values, stretch[0])

    total = difference(lambda found: found.total_s)
    if total <= 0:
        return None
    busy, tree = difference(lambda found: found.busy_s), difference(lambda found: found.tree_s)
    own = difference(lambda found: found.own_s)
    throttled = all(found.throttled_s is not None for _, found in counted)
    return _CpuShares(
        busy=_as_share(busy / total),
        tree=_as_share(tree / total),
        other=_as_share((busy - tree - own) / total),
        tree_s=round(tree, 4),
        throttled_s=round(difference(lambda found: found.throttled_s or 0.0), 4) if throttled else None,
        cpus=max(1, round(total / (stretch[1] - stretch[0]))),
        wait=_wait_share(counted, stretch),
    )


def _wait_share(counted: Sequence[tuple[float, CpuCounters]], stretch: tuple[float, float]) -> float | None:
    """Return the share of a stretch in which the busy processes waited for a CPU; None if nothing counted it."""
    known = [(at, found.waited_s) for at, found in counted if found.waited_s is not None]
    if len(known) < 2:
        return None
    times, values = [at for at, _ in known], [seconds for _, seconds in known]
    waited_s = _value_at(times, values, stretch[1]) - _value_at(times, values, stretch[0])
    return _as_share(waited_s / (stretch[1] - stretch[0]))


def _value_at(times: Sequence[float], values: Sequence[float], at: float) -> float:
    """Return a counter's value at a moment, by a straight line between the samples before and after it."""
    after = min(max(bisect_left(times, at), 1), len(times) - 1)
    before = after - 1
    length = times[after] - times[before]
    part = min(max((at - times[before]) / length, 0.0), 1.0) if length > 0 else 1.0
    return values[before] + part * (values[after] - values[before])


def _foreign(
    samples: Sequence[Sample], covered: tuple[float, float] | None
) -> tuple[ForeignProcess, ...] | None:
    """Return the processes outside the run by the searches in the covered part, the largest users first.

    The search that reaches back into a short window is the one after its end.
    """
    if covered is None:
        return None
    searches = [
        sample.foreign
        for sample in samples
        if sample.foreign is not None and covered[0] <= sample.wall_s <= covered[1] + WALK_S
    ]
    if not searches:
        return None
    cores: dict[tuple[int, str], float] = {}
    for one in (one for found in searches for one in found):
        cores[one.pid, one.name] = cores.get((one.pid, one.name), 0.0) + one.cores / len(searches)
    found = (ForeignProcess(pid, name, round(used, 3)) for (pid, name), used in cores.items())
    return tuple(sorted(found, key=lambda one: -one.cores)[:_MOST_NAMED])


def _highest_other(samples: Sequence[Sample], covered: tuple[float, float]) -> float | None:
    """Return the highest share of other processes over a second of the covered part, or over all of a shorter one.

    A tick of /proc/stat is 10 ms: over a tenth of a second its shares are too coarse.
    """
    seconds = max(1, int(covered[1] - covered[0]))
    length = (covered[1] - covered[0]) / seconds
    starts = [covered[0] + number * length for number in range(seconds)]
    found = (_cpu_in(samples, (start, start + length)) for start in starts)
    return max((shares.other for shares in found if shares is not None), default=None)


def _rounded(joules: float | None) -> float | None:
    return None if joules is None else round(joules, 3)


def _as_share(value: float) -> float:
    return round(min(max(value, 0.0), 1.0), 4)


def _gpu_counters(
    index: int, samples: Sequence[Sample], covered: tuple[float, float] | None
) -> dict[str, object]:
    """Return the fields of a GPU's summary that NVML's counters give: the energy, and the violation shares."""
    here = [(sample.wall_s, gpu) for sample in samples for gpu in sample.gpus if gpu.index == index]
    if covered is None or len(here) < 2:
        return {}

    def difference(read: Callable[[GpuSample], float | None]) -> float | None:
        known = [(at, value) for at, gpu in here if (value := read(gpu)) is not None]
        if len(known) < 2:
            return None
        times, values = [at for at, _ in known], [value for _, value in known]
        return max(_value_at(times, values, covered[1]) - _value_at(times, values, covered[0]), 0.0)

    seconds = covered[1] - covered[0]
    energy = _energy(
        [(at, gpu.energy_j) for at, gpu in here if gpu.energy_j is not None],
        covered,
        [(at, gpu.power_w) for at, gpu in here if gpu.power_w is not None],
    )
    policies = {policy for _, gpu in here for policy in gpu.violations_s or ()}
    lengths = {
        policy: difference(lambda gpu, policy=policy: (gpu.violations_s or {}).get(policy))  # type: ignore[misc]
        for policy in sorted(policies)
    }
    return {
        "energy_j": _rounded(energy),
        "violation_shares": {
            policy: _as_share(length / seconds) for policy, length in lengths.items() if length is not None
        },
    }


def _energy(
    readings: Sequence[tuple[float, float]],
    covered: tuple[float, float] | None,
    powers: Sequence[tuple[float, float]] = (),
) -> float | None:
    """Return the joules by a counter over the covered part, from readings of the counter and of the power in watts.

    A GPU's counter is read once a second, because a reading takes 6 ms of processor time; between two readings its
    joules are distributed by the power, which is read with every sample. None for too few readings, for a part that no
    readings enclose, and for a counter that resets: it starts again when a driver is loaded anew, or at its largest
    value.
    """
    if covered is None or not readings:
        return None
    times = [at for at, _ in readings]
    first, last = bisect_right(times, covered[0]) - 1, bisect_left(times, covered[1])
    within = [sum(covered[0] <= at <= covered[1] for at, _ in of) for of in (readings, powers)]
    if first < 0 or last == len(times) or max(within) < MIN_ENERGY_READINGS:
        return None
    if any(after < before for (_, before), (_, after) in pairwise(readings[first : last + 1])):
        return None
    start, end = (_joules_at(readings, powers, at) for at in covered)
    return end - start


def _joules_at(
    readings: Sequence[tuple[float, float]], powers: Sequence[tuple[float, float]], at: float
) -> float:
    """Return a counter's joules at a moment between two of its readings, which the power in between divides."""
    after = max(bisect_left(readings, at, key=lambda reading: reading[0]), 1)
    (from_s, before_j), (to_s, after_j) = readings[after - 1 : after + 1]
    whole = _integral(powers, from_s, to_s)
    part = (at - from_s) / (to_s - from_s) if whole <= 0 else _integral(powers, from_s, at) / whole
    return before_j + part * (after_j - before_j)


def _integral(points: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Return the area under a line through points of time and value; 0 without points."""
    if len(points) < 2:
        return 0.0
    times, values = [at for at, _ in points], [value for _, value in points]
    corners = [start, *(at for at in times if start < at < end), end]
    heights = [_value_at(times, values, at) for at in corners]
    return sum(
        (to_s - from_s) * (low + high) / 2
        for (from_s, low), (to_s, high) in pairwise(zip(corners, heights, strict=True))
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
        samples=len(samples),
        run_processes_max=max(_present(sample.run_processes for sample in samples), default=None),
        memory_utilisation_mean=_mean(_present(sample.memory_utilisation for sample in samples)),
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
