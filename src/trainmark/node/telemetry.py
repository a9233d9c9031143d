"""Samplers of a run: threads that write its telemetry, and the times at which its log grew.

Telemetry samples at 10 Hz at first, so that a short measured window has samples inside it; see ``Pacing``.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trainmark.files import restored
from trainmark.node.machine import Nvml
from trainmark.node.processes import (
    CpuWaits,
    ForeignProcesses,
    NodeUsage,
    ProcessTree,
    find_quota_counter,
    read_node,
)
from trainmark.schema.telemetry import (
    POWER_LIMIT,
    SCHEMA_VERSION,
    CpuCounters,
    CpuSample,
    GpuName,
    GpuSample,
    Header,
    MemorySample,
    Sample,
)

INTERVAL_S = 0.1
"""The time between two samples, in seconds, early in a run."""
MAX_INTERVAL_S = 1.0
"""The longest time between two samples, in seconds, late in a run."""
INTERVALS_SO_FAR = 1000
"""A run of this many intervals gets longer ones: the interval is then this part of the time since its start."""
SLOW_EVERY_S = 0.95
"""Seconds between two readings of the free memory and of the counters of a GPU, which take milliseconds."""
ARRIVAL_INTERVAL_S = 0.01
"""Seconds between two looks at a log's size: the resolution of the times at which its bytes arrive."""
PSS_EVERY_S = 30.0
"""Seconds between two PSS readings; for PSS the kernel walks page tables and holds the process's memory lock."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The clocks of a sampler, in seconds; ``own_cpu`` is the processor time of this program."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    own_cpu: Callable[[], float] = time.process_time


@dataclass(frozen=True, slots=True)
class Pacing:
    """The time from one sample to the next: ``interval_s`` at first, later a thousandth of the run's time so far.

    A window of three seconds that begins after ten minutes of compilation still has several samples, and the file of
    a run of one hour has six thousand lines instead of 36 thousand.
    """

    interval_s: float

    def interval_after(self, elapsed_s: float) -> float:
        """Return the seconds to the next sample of a run that started ``elapsed_s`` ago."""
        longest = max(self.interval_s, MAX_INTERVAL_S)
        return min(max(self.interval_s, elapsed_s / INTERVALS_SO_FAR), longest)


@dataclass(frozen=True, slots=True)
class _Counters:
    monotonic_s: float
    node: NodeUsage
    tree_cpu_s: float
    own_cpu_s: float


class _Due:
    """A reading that is due every ``every_s`` seconds, the first time at once."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._at: float | None = None

    def is_due(self, now_s: float) -> bool:
        """Return whether the reading is due now; if it is, the next one is due ``every_s`` seconds from now."""
        if self._at is not None and now_s < self._at:
            return False
        self._at = now_s + self._every_s
        return True


class Sampler:
    """Samples the node, the process tree below ``pid``, and the GPUs of ``nvml`` (None: no GPUs).

    Without a ``pid``, ``find`` returns the processes of the tree, or it is below our own ``wrapper``, which does not
    count. Only the processors in ``cpus`` count, all if None.
    """

    def __init__(
        self,
        pid: int | None,
        nvml: Nvml | None,
        clock: Clock | None = None,
        proc: Path = Path("/proc"),
        cpus: Collection[int] | None = None,
        find: Callable[[], Iterable[int]] = tuple,
        wrapper: int | None = None,
    ) -> None:
        self._cpus = cpus
        self._tree = ProcessTree(pid, proc, find, wrapper)
        self._nvml = nvml
        self._handles = nvml.handles() if nvml is not None else []
        self._clock = clock or Clock()
        self._proc = proc
        self._pid = wrapper if pid is None else pid
        self._before: _Counters | None = None
        self._tree_s = 0.0
        self._quota = find_quota_counter(proc=proc)
        self._pss, self._slow = _Due(PSS_EVERY_S), _Due(SLOW_EVERY_S)
        self._foreign = ForeignProcesses(proc)
        self._waits = CpuWaits(proc)
        self._energy = PackageEnergy()

    def header(self, interval_s: float) -> Header:
        """Return the first line of the file."""
        gpus = name_gpus(self._nvml, self._handles) if self._nvml is not None else ()
        return Header(SCHEMA_VERSION, self._pid, interval_s, os.cpu_count() or 1, gpus)

    def take(self, *, last: bool = False) -> Sample:
        """Return a sample; its shares cover the time since the previous one. The ``last`` one has all readings."""
        at = self._clock.monotonic()
        slow = self._slow.is_due(at) or last
        tree, node = self._tree.read(), read_node(self._proc, self._cpus, memory=slow)
        now = _Counters(at, node, tree.cpu_s, self._clock.own_cpu())
        before, self._before = self._before, now
        # Members that ended without their parent took their seconds along: what the tree used before still counts.
        self._tree_s += max(now.tree_cpu_s - (before.tree_cpu_s if before else 0.0), 0.0)
        pss = self._tree.pss_bytes() if self._pss.is_due(now.monotonic_s) else None
        other_s = node.busy_s - self._tree_s - now.own_cpu_s
        return Sample(
            monotonic_s=now.monotonic_s,
            wall_s=self._clock.wall(),
            interval_s=0.0 if before is None else now.monotonic_s - before.monotonic_s,
            processes=len(tree.pids),
            cpu=_shares(before, now),
            memory=MemorySample(tree.rss_bytes, pss, node.available_bytes),
            gpus=self._sample_gpus(tree.pids, slow=slow),
            counters=CpuCounters(
                busy_s=round(node.busy_s, 3),
                total_s=round(node.total_s, 3),
                tree_s=round(self._tree_s, 3),
                own_s=round(now.own_cpu_s, 4),
                throttled_s=None if self._quota is None else self._quota.read_s(),
                waited_s=self._waits.read(tree.busy_pids),
            ),
            foreign=self._foreign.take(at, other_s, node.total_s, tree.pids),
            busy_cpus=self._busy_cpus(tree.busy_pids) if slow else None,
            cpu_energy_j=self._energy.read_j(),
        )

    def _busy_cpus(self, pids: Iterable[int]) -> int | None:
        """Return the number of CPUs that these processes may use; None without a process."""
        allowed: set[int] = set()
        for pid in pids:
            with suppress(OSError):
                allowed |= os.sched_getaffinity(pid)
        return len(allowed if self._cpus is None else allowed & set(self._cpus)) or None

    def _sample_gpus(self, run_pids: tuple[int, ...], *, slow: bool) -> tuple[GpuSample, ...]:
        if self._nvml is None:
            return ()
        return tuple(
            sample_gpu(self._nvml, index, handle, run_pids, self._proc, slow=slow)
            for index, handle in enumerate(self._handles)
        )


class _InBackground:
    """A context manager whose ``_work`` is done by a thread until ``_stop`` is set at the context's end."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the last line and stop; the file is then complete."""
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        raise NotImplementedError


class Telemetry(_InBackground):
    """A context manager that writes samples to ``path`` every ``interval_s`` seconds, less often in a long run.

    One line is written at once, one at the end. It never disturbs the run: a full disk or an unreadable /proc ends
    the sampling, and ``problem`` is then the reason.
    """

    def __init__(
        self,
        path: Path,
        pid: int | None,
        *,
        find: Callable[[], Iterable[int]] = tuple,
        wrapper: int | None = None,
        interval_s: float = INTERVAL_S,
        nvml: Nvml | None = None,
        clock: Clock | None = None,
        proc: Path = Path("/proc"),
    ) -> None:
        self._path, self._interval_s = path, interval_s
        self._clock = clock or Clock()
        self._sampler = Sampler(pid, nvml, self._clock, proc, allowed_cpus(), find, wrapper)
        super().__init__("trainmark-telemetry")
        self.problem: str | None = None

    def _work(self) -> None:
        try:
            # Unbuffered: every line is one write, at once visible to readers.
            with self._path.open("w+b", buffering=0) as file, restored(self._path, file):
                file.write(to_line(self._sampler.header(self._interval_s)))
                due = started = self._clock.monotonic()
                pacing = Pacing(self._interval_s)
                stopping = False
                while True:
                    file.write(to_line(self._sampler.take(last=stopping)))
                    if stopping:
                        return
                    # A late sample is not caught up: the next one is due an interval from now.
                    now = self._clock.monotonic()
                    due = max(due + pacing.interval_after(now - started), now)
                    stopping = self._stop.wait(due - self._clock.monotonic())
        except (OSError, ValueError) as error:
            self.problem = f"telemetry stopped: {error}"


class ArrivalClock(_InBackground):
    """A context manager that appends ``UNIX_TIME SIZE`` to ``path`` each time that ``log`` has become longer.

    The program writes into the log itself, so it is never slowed down. A full disk ends the noting, not the run. The
    time is that of the last write, as the file system has it: a look may be late by some of the program's steps.
    """

    def __init__(self, log: Path, path: Path, interval_s: float = ARRIVAL_INTERVAL_S) -> None:
        self._log, self._path, self._interval_s = log, path, interval_s
        super().__init__("trainmark-arrivals")

    def _work(self) -> None:
        try:
            # The descriptor stays valid if the program removes its folder.
            with (
                self._log.open("rb") as log,
                self._path.open("w+b", buffering=0) as file,
                restored(self._path, file),
            ):
                size, last_look, stopping = 0, time.time(), False
                file.write(f"{last_look:.4f} 0\n".encode())
                while True:
                    look, noted = time.time(), os.fstat(log.fileno())
                    if noted.st_size != size:
                        size = noted.st_size
                        moment = _time_of_write(noted.st_mtime, last_look, time.time())
                        file.write(f"{moment:.4f} {size}\n".encode())
                    last_look = look
                    if stopping:
                        return
                    stopping = self._stop.wait(self._interval_s)
        except OSError:
            return


_TICK_S = 0.01
"""A kernel's clock of files advances at least so often."""


def _time_of_write(written: float, last_look: float, now: float) -> float:
    """Return the Unix time of a write between two looks; that of the second look if the files have another clock."""
    return max(written, last_look) if last_look - _TICK_S <= written <= now else now


def allowed_cpus() -> Collection[int] | None:
    """Return the CPUs that this process and its children may use; None if they may use all."""
    allowed = os.sched_getaffinity(0)
    return None if len(allowed) == os.cpu_count() else allowed


def to_line(value: Header | Sample) -> bytes:
    """Return a header or a sample as one line of JSON."""
    fields = asdict(value) if isinstance(value, Header) else _fields(value)
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _fields(sample: Sample) -> dict[str, Any]:
    """Return a sample's fields; ten times a second, ``asdict`` would cost as much as reading the counters."""
    plain = {name: getattr(sample, name) for name in _PLAIN}
    parts = {name: _shallow(getattr(sample, name)) for name in ("cpu", "memory", "counters")}
    lists = {"gpus": [_shallow(gpu) for gpu in sample.gpus]}
    foreign = {} if sample.foreign is None else {"foreign": [_shallow(one) for one in sample.foreign]}
    energy = {} if sample.cpu_energy_j is None else {"cpu_energy_j": round(sample.cpu_energy_j, 3)}
    return plain | parts | lists | foreign | energy


_PLAIN = ("monotonic_s", "wall_s", "interval_s", "processes", "busy_cpus")


def _shallow(part: Any) -> dict[str, Any] | None:
    return None if part is None else {name: getattr(part, name) for name in part.__slots__}


def _shares(before: _Counters | None, now: _Counters) -> CpuSample:
    capacity_s = 0.0 if before is None else now.node.total_s - before.node.total_s
    if before is None or capacity_s <= 0:
        return CpuSample(None, None, None, None)

    def share(seconds: float) -> float:
        return round(min(max(seconds / capacity_s, 0.0), 1.0), 4)

    busy_s = now.node.busy_s - before.node.busy_s
    tree_s = max(now.tree_cpu_s - before.tree_cpu_s, 0.0)
    own_s = now.own_cpu_s - before.own_cpu_s
    return CpuSample(share(busy_s), share(tree_s), share(own_s), share(busy_s - tree_s - own_s))


POWERCAP = Path("/sys/class/powercap")
_MICROJOULES = 1e6


class PackageEnergy:
    """The counters of all packages; reading gives None where there are none or they are not readable.

    Since Linux 5.10 only root may read them (CVE-2020-8694).
    """

    def __init__(self, folder: Path = POWERCAP) -> None:
        # Sub-domains such as intel-rapl:0:0 (cores) are parts of their package; AMD's packages have the same name.
        self._files = [
            zone / "energy_uj"
            for zone in sorted(folder.glob("intel-rapl:*"))
            if zone.name.count(":") == 1 and _is_package(zone)
        ]

    def read_j(self) -> float | None:
        """Return the sum of the counters in joules; it grows until a counter starts again."""
        if not self._files:
            return None
        try:
            return sum(int(file.read_text()) for file in self._files) / _MICROJOULES
        except (OSError, ValueError):
            # A counter that cannot be read once, for the lack of rights, cannot be read later either.
            self._files = []
            return None


def _is_package(zone: Path) -> bool:
    try:
        return (zone / "name").read_text().startswith("package")
    except OSError:
        return False


CLOCK_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: POWER_LIMIT,
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""The bits of ``nvmlClocksEventReasons`` and their names in nvml.h."""

SLOWDOWNS = frozenset(
    {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
)
"""The reasons why a GPU runs below the specification of its board.

``sw_power_cap`` is not one: at full load a GPU runs at its power limit, which is in the manifest.
"""


def decode_clock_reasons(bits: int) -> tuple[str, ...]:
    """Return the names of the reasons set in ``bits``; an unknown bit is written as ``0x…``."""
    return tuple(
        CLOCK_REASONS.get(1 << bit, f"{1 << bit:#x}") for bit in range(bits.bit_length()) if bits >> bit & 1
    )


def name_gpus(nvml: Nvml, handles: list[Any]) -> tuple[GpuName, ...]:
    """Return the UUID and name of the GPU at each index."""
    return tuple(
        GpuName(index, nvml.text("nvmlDeviceGetUUID", handle), nvml.text("nvmlDeviceGetName", handle))
        for index, handle in enumerate(handles)
    )


POWER_INSTANT = 186
"""``NVML_FI_DEV_POWER_INSTANT`` of nvml.h."""

VIOLATIONS = {"power": 0, "thermal": 1, "board_limit": 3, "reliability": 5}
"""The policies whose violation time is read, and their numbers in nvml.h (``nvmlPerfPolicyType_t``)."""


def sample_gpu(
    nvml: Nvml, index: int, handle: Any, run_pids: Collection[int], proc: Path, *, slow: bool = True
) -> GpuSample:
    """Return the current state of a GPU; ``run_pids`` are the processes of the run.

    Without ``slow``, the counters of energy and violations are not read: on an H200 they take 7 ms of CPU time, all the
    rest 0.03 ms.
    """
    power_mw = _power_mw(nvml, handle)
    rates = nvml.query("nvmlDeviceGetUtilizationRates", handle)
    memory = nvml.query("nvmlDeviceGetMemoryInfo", handle)
    energy_mj = nvml.query("nvmlDeviceGetTotalEnergyConsumption", handle) if slow else None
    pids = _compute_pids(nvml, handle)
    # NVML may report pids from another PID namespace: one that is not in /proc cannot be attributed.
    visible = None if pids is None else [pid for pid in pids if (proc / str(pid)).exists()]
    return GpuSample(
        index=index,
        sm_clock_mhz=nvml.query("nvmlDeviceGetClockInfo", handle, nvml.constant("NVML_CLOCK_SM")),
        memory_clock_mhz=nvml.query("nvmlDeviceGetClockInfo", handle, nvml.constant("NVML_CLOCK_MEM")),
        power_w=None if power_mw is None else power_mw / 1000,
        temperature_c=nvml.query("nvmlDeviceGetTemperature", handle, nvml.constant("NVML_TEMPERATURE_GPU")),
        utilisation=None if rates is None else rates.gpu / 100,
        memory_used_bytes=None if memory is None else int(memory.used),
        clock_reasons=_clock_reasons(nvml, handle),
        foreign_pids=None if visible is None else tuple(sorted(set(visible) - {*run_pids, os.getpid()})),
        unseen_processes=None if pids is None or visible is None else len(pids) - len(visible),
        energy_j=None if energy_mj is None else energy_mj / 1000,
        violations_s=_violations(nvml, handle) if slow else None,
        run_processes=None if pids is None else len(set(pids) & set(run_pids)),
        memory_utilisation=None if rates is None else rates.memory / 100,
    )


def _power_mw(nvml: Nvml, handle: Any) -> int | None:
    """Return the power at this moment; a driver that lacks it gives its own mean, over the last second on an H100."""
    for field in nvml.query("nvmlDeviceGetFieldValues", handle, [POWER_INSTANT]) or ():
        if field.nvmlReturn == 0 and field.value.uiVal > 0:
            return int(field.value.uiVal)
    mean_mw = nvml.query("nvmlDeviceGetPowerUsage", handle)
    return None if mean_mw is None else int(mean_mw)


def _violations(nvml: Nvml, handle: Any) -> dict[str, float] | None:
    """Return for how long each policy lowered the clocks since the driver was loaded, in seconds.

    NVML counts nanoseconds.
    """
    found = {}
    for name, policy in VIOLATIONS.items():
        status = nvml.query("nvmlDeviceGetViolationStatus", handle, policy)
        if status is None:
            return None
        found[name] = int(status.violationTime) / 1e9
    return found


def _clock_reasons(nvml: Nvml, handle: Any) -> tuple[str, ...] | None:
    bits = nvml.query("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:
        # The function's name before driver 535.
        bits = nvml.query("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return None if bits is None else decode_clock_reasons(int(bits))


def _compute_pids(nvml: Nvml, handle: Any) -> list[int] | None:
    processes = nvml.query("nvmlDeviceGetComputeRunningProcesses", handle)
    return None if processes is None else [int(process.pid) for process in processes]
