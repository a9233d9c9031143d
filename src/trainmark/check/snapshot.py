"""A host's current state, in addition to the manifest's facts; runs on the host as ``python -m``.

It only reads; a value that cannot be read is null.
"""

import contextlib
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from trainmark.node.machine import Nvml, open_nvml
from trainmark.schema.frozen import Frozen
from trainmark.version import __version__

_SAMPLE_S = 1.0
"""Seconds over which the processes' core usage is sampled."""

_MIN_CORES = 0.2
"""Processes that use less of a core are not reported."""


class Busy(Frozen):
    """A process and the cores that it uses, as a mean over the sample."""

    pid: int
    name: str
    cores: float


class Interface(Frozen):
    """A network interface: its addresses, whether it is up, its MTU in bytes and its speed in Mbit/s."""

    name: str
    addresses: tuple[str, ...]
    up: bool
    mtu: int | None
    speed_mbit: int | None


class InfinibandPort(Frozen):
    """A port below ``/sys/class/infiniband``, in the kernel's notation (``4: ACTIVE``, ``200 Gb/sec (4X HDR)``)."""

    device: str
    port: str
    state: str | None
    rate: str | None


class GpuSnapshot(Frozen):
    """A GPU's state as NVML reports it; ``processes`` are those that compute on it, clocks are in MHz.

    ``ecc_errors`` are the uncorrected errors since the last reset, ``remapped`` the rows remapped because of them;
    ``slowdowns`` are the reasons why it is throttled.
    """

    index: int
    name: str | None = None
    processes: tuple[int, ...] = ()
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    ecc_errors: int | None = None
    remapped: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    slowdowns: tuple[str, ...] = ()
    application_clock_mhz: int | None = None
    max_clock_mhz: int | None = None
    persistence: bool | None = None
    temperature_c: int | None = None


class HostSnapshot(Frozen):
    """A host's current state; sizes are in bytes, ``disks`` are the free bytes below each requested folder.

    ``allowed_cores`` is the number of CPUs that a process may use; hosts with the same ``boot_id`` share a kernel and
    so a machine. Limits are soft limits, -1 means unlimited.
    """

    trainmark: str
    boot_id: str | None
    allowed_cores: int
    load_1min: float
    busy: tuple[Busy, ...]
    governors: tuple[str, ...]
    turbo: bool | None
    mhz: float | None
    max_mhz: float | None
    memory_available: int
    memory_total: int
    shm_total: int | None
    shm_free: int | None
    disks: Mapping[str, int | None]
    open_files: int
    locked_memory: int
    interfaces: tuple[Interface, ...]
    infiniband: tuple[InfinibandPort, ...]
    gpus: tuple[GpuSnapshot, ...]

    def interface(self, name: str | None) -> Interface | None:
        """Return the interface with a name, or None."""
        return next((found for found in self.interfaces if found.name == name), None)


def take_snapshot(
    folders: Sequence[str], sys_: Path = Path("/sys"), proc: Path = Path("/proc")
) -> HostSnapshot:
    """Return the state of this machine; takes a second."""
    before, began = dict(_times(proc)), time.monotonic()
    time.sleep(_SAMPLE_S)
    memory, shm = psutil.virtual_memory(), _usage(Path("/dev/shm"))  # noqa: S108 (only its size is read)
    cpufreq = [
        path / "cpufreq"
        for path in (sys_ / "devices/system/cpu").glob("cpu[0-9]*")
        if (path / "cpufreq").is_dir()
    ]
    with open_nvml() as nvml:
        return HostSnapshot(
            trainmark=__version__,
            boot_id=_text(proc / "sys/kernel/random/boot_id"),
            allowed_cores=len(os.sched_getaffinity(0)),
            load_1min=os.getloadavg()[0],
            busy=tuple(_busy(before, dict(_times(proc)), time.monotonic() - began, proc)),
            governors=tuple(sorted({text for path in cpufreq if (text := _text(path / "scaling_governor"))})),
            turbo=_turbo(sys_ / "devices/system/cpu"),
            mhz=_mhz([path / "scaling_cur_freq" for path in cpufreq]),
            max_mhz=_mhz([path / "cpuinfo_max_freq" for path in cpufreq]),
            memory_available=memory.available,
            memory_total=memory.total,
            shm_total=shm and shm[0],
            shm_free=shm and shm[1],
            disks={folder: found and found[1] for folder in folders for found in (_usage(Path(folder)),)},
            open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            locked_memory=resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
            interfaces=tuple(_interfaces()),
            infiniband=tuple(_infiniband(sys_ / "class/infiniband")),
            gpus=() if nvml is None else tuple(read_gpus(nvml)),
        )


def read_gpus(nvml: Nvml) -> Iterator[GpuSnapshot]:
    """Yield the state of each GPU as NVML reports it."""
    from trainmark.node.telemetry import CLOCK_REASONS, SLOWDOWNS

    for index, handle in enumerate(nvml.handles()):
        memory = nvml.query("nvmlDeviceGetMemoryInfo", handle)
        rows = nvml.query("nvmlDeviceGetRemappedRows", handle)
        reasons = nvml.query("nvmlDeviceGetCurrentClocksEventReasons", handle) or nvml.query(
            "nvmlDeviceGetCurrentClocksThrottleReasons", handle
        )
        running = nvml.query("nvmlDeviceGetComputeRunningProcesses", handle) or ()
        persistence = nvml.query("nvmlDeviceGetPersistenceMode", handle)
        yield GpuSnapshot(
            index=index,
            name=nvml.text("nvmlDeviceGetName", handle),
            processes=tuple(int(process.pid) for process in running),
            memory_used_bytes=memory and int(memory.used),
            memory_total_bytes=memory and int(memory.total),
            ecc_errors=_constants(
                nvml,
                "nvmlDeviceGetTotalEccErrors",
                handle,
                "NVML_MEMORY_ERROR_TYPE_UNCORRECTED",
                "NVML_VOLATILE_ECC",
            ),
            remapped=None if rows is None else int(rows[1]),
            remap_pending=None if rows is None else bool(rows[2]),
            remap_failed=None if rows is None else bool(rows[3]),
            slowdowns=tuple(
                word for bit, word in CLOCK_REASONS.items() if (reasons or 0) & bit and word in SLOWDOWNS
            ),
            application_clock_mhz=_constants(nvml, "nvmlDeviceGetApplicationsClock", handle, "NVML_CLOCK_SM"),
            max_clock_mhz=_constants(nvml, "nvmlDeviceGetMaxClockInfo", handle, "NVML_CLOCK_SM"),
            persistence=None if persistence is None else bool(persistence),
            temperature_c=_constants(nvml, "nvmlDeviceGetTemperature", handle, "NVML_TEMPERATURE_GPU"),
        )


def _constants(nvml: Nvml, function: str, handle: Any, *names: str) -> int | None:
    try:
        value = nvml.query(function, handle, *(nvml.constant(name) for name in names))
    except AttributeError:
        # Older bindings lack some constants.
        return None
    return None if value is None else int(value)


def _times(proc: Path) -> Iterator[tuple[int, float]]:
    """Yield the processor seconds of each process except this one and its ancestors."""
    tick, own = os.sysconf("SC_CLK_TCK"), {os.getpid(), *(process.pid for process in _above())}
    for folder in proc.glob("[0-9]*"):
        if int(folder.name) in own:
            continue
        with contextlib.suppress(OSError, IndexError, ValueError):
            words = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            yield int(folder.name), (int(words[11]) + int(words[12])) / tick


def _above() -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return psutil.Process().parents()
    return []


def _busy(
    before: Mapping[int, float], after: Mapping[int, float], elapsed_s: float, proc: Path
) -> Iterator[Busy]:
    taken = {pid: (seconds - before[pid]) / elapsed_s for pid, seconds in after.items() if pid in before}
    for pid, cores in sorted(taken.items(), key=lambda pair: -pair[1]):
        if cores >= _MIN_CORES:
            yield Busy(pid=pid, name=_text(proc / str(pid) / "comm") or "?", cores=round(cores, 2))


def _turbo(cpu: Path) -> bool | None:
    """Return whether clocks above the nominal one are allowed; drivers report it in one of two files."""
    off = _text(cpu / "intel_pstate/no_turbo")
    if off is not None:
        return off == "0"
    boost = _text(cpu / "cpufreq/boost")
    return None if boost is None else boost == "1"


def _mhz(files: Sequence[Path]) -> float | None:
    values = [int(text) / 1000 for path in files if (text := _text(path)) and text.isdigit()]
    return sum(values) / len(values) if values else None


def _usage(folder: Path) -> tuple[int, int] | None:
    """Return the size and the free bytes of the disk that holds, or will hold, a folder."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), None)
    if there is None:
        return None
    with contextlib.suppress(OSError):
        found = shutil.disk_usage(there)
        return found.total, found.free
    return None


def _interfaces() -> Iterator[Interface]:
    states = psutil.net_if_stats()
    for name, addresses in psutil.net_if_addrs().items():
        state = states.get(name)
        yield Interface(
            name=name,
            addresses=tuple(
                found.address.partition("%")[0]
                for found in addresses
                if found.family.name in ("AF_INET", "AF_INET6")
            ),
            up=state is not None and state.isup,
            mtu=None if state is None else state.mtu,
            speed_mbit=None if state is None else state.speed or None,
        )


def _infiniband(folder: Path) -> Iterator[InfinibandPort]:
    for port in sorted(folder.glob("*/ports/*")):
        yield InfinibandPort(
            device=port.parent.parent.name,
            port=port.name,
            state=_text(port / "state"),
            rate=_text(port / "rate"),
        )


def _text(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    return None


if __name__ == "__main__":
    from trainmark.environment.resolving import MARK

    snapshot = take_snapshot(json.loads(sys.argv[1])["folders"])
    sys.stdout.write(f"\n{MARK}{snapshot.model_dump_json()}\n")
