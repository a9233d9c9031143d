"""The lines of ``telemetry.jsonl`` (a header, then samples), and their summary over a window.

Shares are of the logical CPUs of a node that the run may use, 0 to 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from trainmark.schema.frozen import Frozen, Share

SCHEMA_VERSION = 1

POWER_LIMIT = "sw_power_cap"
"""The clock reason of a GPU at its power limit."""


@dataclass(frozen=True, slots=True)
class GpuName:
    """The GPU that a sample's ``index`` (NVML's) refers to."""

    index: int
    uuid: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Header:
    """The first line: the root of the run's process tree, the requested interval, and the sampled quantities.

    ``pid`` is None for processes that another host's mpirun started.
    """

    schema_version: int
    pid: int | None
    interval_s: float
    cpus: int
    gpus: tuple[GpuName, ...]


@dataclass(frozen=True, slots=True)
class CpuSample:
    """Shares of the node's processor time since the previous sample; None in the first one.

    ``tree`` is the run's process tree, ``own`` this program, ``other`` the rest of ``busy``.
    """

    busy: float | None
    tree: float | None
    own: float | None
    other: float | None


@dataclass(frozen=True, slots=True)
class CpuCounters:
    """Processor seconds that only grow; their differences give exact shares over any window.

    ``busy_s`` and ``total_s`` are of the CPUs that the run may use (/proc/stat), ``tree_s`` of the run's processes,
    ``own_s`` of this program. ``throttled_s`` is the time for which the CPU quota of this program's control group
    stopped its processes; None without a quota. ``waited_s`` is the time for which the main threads of the run's busy
    processes were ready and waited for a CPU, the mean over these processes; None in files of older versions.
    """

    busy_s: float
    total_s: float
    tree_s: float
    own_s: float
    throttled_s: float | None = None
    waited_s: float | None = None


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Memory in bytes; ``tree_rss`` counts shared pages per process, ``tree_pss`` divides them (rarely sampled).

    ``available_bytes`` is read about once a second.
    """

    tree_rss_bytes: int
    tree_pss_bytes: int | None
    available_bytes: int | None


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment; values that NVML does not report are None.

    ``clock_reasons`` are NVML's reasons for a clock below the highest. ``utilisation`` is the share of the last driver
    period with a kernel running (0 to 1). ``foreign_pids`` are processes outside the run that compute on this GPU;
    ``unseen_processes`` counts those whose pid is not visible here (another container's): their owner is unknown.
    ``energy_j`` and ``violations_s`` are NVML's counters, which only grow: the energy used since the driver was loaded,
    and by policy (``thermal``, ``power``, ...) the time for which it lowered the clocks.

    ``power_w`` is the power at that moment, or where the driver lacks it the driver's mean, over the last second on an
    H100; files before 2026-11-27 have the mean. The two counters are read about once a second and at the end; the
    samples in between have None. ``run_processes`` counts the
    processes of the run that compute on this GPU; ``memory_utilisation`` is the share of the last driver period in
    which the GPU's memory was read or written. Both are None in files of older versions.
    """

    index: int
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    power_w: float | None
    temperature_c: int | None
    utilisation: float | None
    memory_used_bytes: int | None
    clock_reasons: tuple[str, ...] | None
    foreign_pids: tuple[int, ...] | None
    unseen_processes: int | None
    energy_j: float | None = None
    violations_s: Mapping[str, float] | None = None
    run_processes: int | None = None
    memory_utilisation: float | None = None


@dataclass(frozen=True, slots=True)
class ForeignProcess:
    """A process outside the run that computes on the node, and the cores that it used, as a mean."""

    pid: int
    name: str
    cores: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One line. ``monotonic_s`` is CLOCK_MONOTONIC, which every process of the node shares; ``wall_s`` is Unix time.

    ``interval_s`` is the time since the previous sample, 0 in the first. ``busy_cpus`` is the number of CPUs that the
    busy processes of the run may use, read about once a second. ``counters`` and ``busy_cpus`` are None in files of
    older versions. ``foreign`` are the processes outside the run that used most processor time in about a second
    before; they are searched while other processes take 5 % of the CPUs, and None in the samples without a search.
    ``cpu_energy_j`` is the kernel's counter of the energy of all processor packages (RAPL), in
    files before 2026-11-27 once a second; None where it cannot be read.
    """

    monotonic_s: float
    wall_s: float
    interval_s: float
    processes: int
    cpu: CpuSample
    memory: MemorySample
    gpus: tuple[GpuSample, ...]
    counters: CpuCounters | None = None
    foreign: tuple[ForeignProcess, ...] | None = None
    busy_cpus: int | None = None
    cpu_energy_j: float | None = None


class GpuSummary(Frozen):
    """One GPU over a window; values that were never sampled are None.

    ``reason_shares`` is the share of samples that show each clock reason; ``throttled_share`` is the share of
    samples with any of ``SLOWDOWNS`` (heat, a hardware slowdown, a power brake; not the power limit).
    ``clock_dropped_share`` is the share of busy samples whose clock is more than 5 % below the window's highest, for
    another reason than the power limit. ``samples`` counts those of this GPU in the window. ``energy_j`` is the energy
    that it used in the window (None if the window is too short for it, or its counter was reset), and
    ``violation_shares`` gives by policy the share of the window for which NVML's counters say that the policy lowered
    the clocks. ``run_processes_max`` is the largest number of the run's own processes that NVML listed on this GPU.
    ``memory_utilisation_mean`` is the share of the window in which the GPU's memory was read or written.
    """

    index: int
    uuid: str | None
    name: str | None
    sm_clock_mhz_mean: float | None
    sm_clock_mhz_min: int | None
    power_w_mean: float | None
    power_w_max: float | None
    temperature_c_max: int | None
    utilisation_mean: Share | None
    memory_used_bytes_max: int | None
    throttled_share: Share | None
    reason_shares: Mapping[str, Share]
    foreign_pids: tuple[int, ...]
    unseen_processes_max: int | None
    clock_dropped_share: float | None = None
    samples: int | None = None
    energy_j: float | None = None
    violation_shares: Mapping[str, float] = Field(default_factory=dict)
    run_processes_max: int | None = None
    memory_utilisation_mean: Share | None = None


class TelemetrySummary(Frozen):
    """A window of a run: means over time of the CPU shares (0 to 1, of all logical CPUs), extremes of memory.

    It covers one node, over the window of that node's ranks. ``unreadable_lines`` counts lines that are not samples,
    including a truncated last line.
    ``seconds`` is the time between the first and the last sample in the window. ``window_s`` is the window's length,
    ``covered_s`` the part of it that the samples cover, and ``period_s`` the time between two samples there.
    ``cpu_tree_s`` are the processor seconds of the run's processes in the window, ``cpu_throttled_s`` those seconds of
    it for which a CPU quota stopped them. ``cpus`` are the logical CPUs that the shares are of, ``busy_cpus`` those of
    them that the busy processes of the run may use, at the last reading in the window or before it.
    ``cpu_wait_mean`` is the share of the window in which their main threads were ready and waited for a CPU.
    Files of older versions lack these eight.
    ``host`` is the node's name (None: this machine). ``foreign`` are the processes outside the run that used most
    processor time in the window; None where other processes took so little that they were not searched.
    ``clock_ahead_s`` is by how much its clock was ahead of the first node's, which its window is corrected for.
    ``cpu_energy_j`` is the energy of the node's processors in the covered part, those of other processes included.
    """

    node: int = 0
    samples: int
    unreadable_lines: int = 0
    seconds: float = 0.0
    cpu_busy_mean: float | None = None
    cpu_tree_mean: float | None = None
    cpu_other_mean: float | None = None
    cpu_other_max: float | None = None
    tree_rss_bytes_max: int | None = None
    tree_pss_bytes_max: int | None = None
    available_bytes_min: int | None = None
    gpus: tuple[GpuSummary, ...] = ()
    window_s: float | None = None
    covered_s: float | None = None
    period_s: float | None = None
    cpu_tree_s: float | None = None
    cpu_throttled_s: float | None = None
    host: str | None = None
    foreign: tuple[ForeignProcess, ...] | None = None
    clock_ahead_s: float | None = None
    cpus: int | None = None
    busy_cpus: int | None = None
    cpu_wait_mean: float | None = None
    cpu_energy_j: float | None = None
