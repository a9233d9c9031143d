"""One sample of a GPU through NVML: clocks, power, temperature, what holds the clocks down, who else computes."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from trainmark.environment import Nvml
from trainmark.words.telemetry import GpuName, GpuSample

CLOCK_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""The bits of ``nvmlClocksEventReasons`` (nvml.h), by their names there."""

SLOWDOWNS = frozenset(
    {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
)
"""The reasons by which a GPU is slower than its board is meant to be.

``sw_power_cap`` is not one: at full load a GPU runs at its power limit, which the manifest holds.
"""


def decode_clock_reasons(bits: int) -> tuple[str, ...]:
    """Return the names of the reasons set in ``bits``; a bit without a name is given as ``0x…``."""
    return tuple(
        CLOCK_REASONS.get(1 << bit, f"{1 << bit:#x}") for bit in range(bits.bit_length()) if bits >> bit & 1
    )


def name_gpus(nvml: Nvml, handles: list[Any]) -> tuple[GpuName, ...]:
    """Return which GPU each index means."""
    return tuple(
        GpuName(index, nvml.text("nvmlDeviceGetUUID", handle), nvml.text("nvmlDeviceGetName", handle))
        for index, handle in enumerate(handles)
    )


def sample_gpu(nvml: Nvml, index: int, handle: Any, run_pids: Collection[int], proc: Path) -> GpuSample:
    """Return what a GPU does now; ``run_pids`` are the processes of the run."""
    power_mw = nvml.ask("nvmlDeviceGetPowerUsage", handle)
    rates = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    pids = _compute_pids(nvml, handle)
    # NVML may give pids of another container's or the host's name space: what is not in /proc has no owner here.
    seen = None if pids is None else [pid for pid in pids if (proc / str(pid)).exists()]
    return GpuSample(
        index=index,
        sm_clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", handle, nvml.constant("NVML_CLOCK_SM")),
        memory_clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", handle, nvml.constant("NVML_CLOCK_MEM")),
        power_w=None if power_mw is None else power_mw / 1000,
        temperature_c=nvml.ask("nvmlDeviceGetTemperature", handle, nvml.constant("NVML_TEMPERATURE_GPU")),
        utilisation=None if rates is None else rates.gpu / 100,
        memory_used_bytes=None if memory is None else int(memory.used),
        clock_reasons=_clock_reasons(nvml, handle),
        foreign_pids=None if seen is None else tuple(sorted(set(seen) - {*run_pids, os.getpid()})),
        unseen_processes=None if pids is None or seen is None else len(pids) - len(seen),
    )


def _clock_reasons(nvml: Nvml, handle: Any) -> tuple[str, ...] | None:
    bits = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:
        # The name before driver 535.
        bits = nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return None if bits is None else decode_clock_reasons(int(bits))


def _compute_pids(nvml: Nvml, handle: Any) -> list[int] | None:
    processes = nvml.ask("nvmlDeviceGetComputeRunningProcesses", handle)
    return None if processes is None else [int(process.pid) for process in processes]
