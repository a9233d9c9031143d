"""Rules that compare host snapshots with each other and with a suite's requirements; no host is contacted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainmark.check.formatting import GIB, compare_values, size
from trainmark.check.snapshot import GpuSnapshot, HostSnapshot
from trainmark.schema.check import CheckFinding, Level
from trainmark.schema.manifest import Node

LEAST_DISK, ENOUGH_DISK = GIB // 4, 5 * GIB
"""Free bytes below which runs cannot store their results, and below which a warning is due."""

ENOUGH_MEMORY = 2 * GIB
"""Available bytes a rank below which a warning is due, if the suite sets no limit."""

ENOUGH_SHM = GIB
"""Bytes of shared memory, used by data loaders and by the ranks of one host; containers have 64 MiB by default."""

ENOUGH_FILES = 4096


@dataclass(frozen=True, slots=True)
class Requirements:
    """A suite's requirements for each host: ranks, memory limit of a run in bytes, and whether ranks read data."""

    ranks: int = 1
    memory: int | None = None
    reads_data: bool = False


def check_rules(
    snapshots: Mapping[str, HostSnapshot],
    nodes: Mapping[str, Node],
    interfaces: Mapping[str, str | None],
    requirements: Requirements,
) -> Iterator[CheckFinding]:
    """Yield the findings on the hosts' state; all mappings are keyed by host name.

    ``interfaces`` are the names of the network interfaces that connect the hosts, None where unknown.
    """
    yield from _same_software(snapshots, nodes)
    yield from _same_hardware(nodes)
    for host, snapshot in snapshots.items():
        yield from _cores(host, snapshot, nodes.get(host))
    yield from _clocks(snapshots)
    for host, snapshot in snapshots.items():
        yield from _room(host, snapshot, requirements)
        yield from _limits(host, snapshot)
        for gpu in snapshot.gpus:
            yield from _gpu(host, gpu)
    if len(snapshots) > 1:
        yield from _interfaces(snapshots, interfaces)
    yield from _infiniband(snapshots)


def _same_software(
    snapshots: Mapping[str, HostSnapshot], nodes: Mapping[str, Node]
) -> Iterator[CheckFinding]:
    yield from compare_values(
        "trainmark",
        {host: snapshot.trainmark for host, snapshot in snapshots.items()},
        "install the same version of trainmark on all hosts",
    )
    kernels = {host: f"{node.os.name}, Linux {node.os.kernel}" for host, node in nodes.items()}
    yield from compare_values(
        "system", kernels, "compare results only between hosts with the same system", Level.NOTE
    )
    drivers = {host: node.accelerators.driver or "none" for host, node in nodes.items()}
    if set(drivers.values()) != {"none"}:
        yield from compare_values(
            "driver", drivers, "install the same driver on all hosts", Level.FAILURE, "NVIDIA driver"
        )


def _same_hardware(nodes: Mapping[str, Node]) -> Iterator[CheckFinding]:
    separate = "use hosts of different hardware in separate cases"
    cpus = {
        host: f"{node.cpu.model or 'unknown CPU'}, {node.cpu.threads} CPUs" for host, node in nodes.items()
    }
    yield from compare_values("cpu", cpus, separate, Level.WARNING)
    gpus = {host: _named_gpus(node) for host, node in nodes.items()}
    if set(gpus.values()) != {"none"}:
        yield from compare_values("gpus", gpus, separate, Level.WARNING)


def _named_gpus(node: Node) -> str:
    names = [gpu.name or "unknown GPU" for gpu in node.accelerators.gpus]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "none"


def _cores(host: str, snapshot: HostSnapshot, node: Node | None) -> Iterator[CheckFinding]:
    taken = sum(busy.cores for busy in snapshot.busy)
    found = f"{snapshot.allowed_cores} cores may be used, load {snapshot.load_1min:.2f}"
    if taken >= max(0.3, 0.05 * snapshot.allowed_cores):
        who = ", ".join(f"{busy.name} ({busy.pid}) {busy.cores:g}" for busy in snapshot.busy[:3])
        more = f" and {len(snapshot.busy) - 3} more" if len(snapshot.busy) > 3 else ""
        yield _one(
            "cores",
            Level.WARNING,
            host,
            f"other processes take {taken:.1f} of {snapshot.allowed_cores} cores: {who}{more}",
            "end them, or wait for them before you measure",
        )
    elif snapshot.load_1min > snapshot.allowed_cores + 1:
        remedy = "check what runs outside this container, or wait for it before you measure"
        yield _one("cores", Level.WARNING, host, f"{found}: more than the visible processes explain", remedy)
    else:
        yield _one("cores", Level.OK, host, found)
    quota = node.cpu.quota_cpus if node is not None else None
    if quota is not None and quota < snapshot.allowed_cores:
        yield _one(
            "quota",
            Level.NOTE,
            host,
            f"a cgroup allows {quota:g} of {snapshot.allowed_cores} CPUs: ranks get {max(1, int(quota))} threads",
            "raise the quota (cpu.max) to use all CPUs",
        )


def _clocks(snapshots: Mapping[str, HostSnapshot]) -> Iterator[CheckFinding]:
    readable = {
        host: ", ".join(snapshot.governors) for host, snapshot in snapshots.items() if snapshot.governors
    }
    slow = {host: governors for host, governors in readable.items() if governors != "performance"}
    if hidden := tuple(host for host in snapshots if host not in readable):
        found = "the CPU's governor cannot be read (as in most virtual machines)"
        yield CheckFinding(check="governor", level=Level.NOTE, hosts=hidden, found=found)
    for host, governors in slow.items():
        yield _one(
            "governor",
            Level.WARNING,
            host,
            f"the CPU's governor is {governors}",
            "an administrator can set 'performance' (cpupower frequency-set -g performance)",
        )
    if fast := tuple(host for host in readable if host not in slow):
        yield CheckFinding(
            check="governor", level=Level.OK, hosts=fast, found="the CPU's governor is performance"
        )
    turbo = {
        host: "on" if snapshot.turbo else "off"
        for host, snapshot in snapshots.items()
        if snapshot.turbo is not None
    }
    yield from compare_values(
        "turbo", turbo, "use the same turbo setting on all hosts", Level.WARNING, "turbo is"
    )
    peaks = {host: f"{snapshot.max_mhz:.0f} MHz" for host, snapshot in snapshots.items() if snapshot.max_mhz}
    yield from compare_values(
        "frequency", peaks, "check the frequency limits of the CPUs", Level.WARNING, "at most"
    )


def _room(host: str, snapshot: HostSnapshot, requirements: Requirements) -> Iterator[CheckFinding]:
    required = requirements.memory or requirements.ranks * ENOUGH_MEMORY
    why = (
        "limits.memory"
        if requirements.memory
        else f"{size(ENOUGH_MEMORY)} for each of {requirements.ranks} ranks"
    )
    if snapshot.memory_available < required:
        found = (
            f"{size(snapshot.memory_available)} of memory are available, less than {size(required)} ({why})"
        )
        yield _one(
            "memory", Level.WARNING, host, found, "end processes that use memory, or use smaller batches"
        )
    else:
        found = f"{size(snapshot.memory_available)} of {size(snapshot.memory_total)} of memory are available"
        yield _one("memory", Level.OK, host, found)
    for folder, free in snapshot.disks.items():
        if free is None:
            yield _one(
                "disk",
                Level.WARNING,
                host,
                f"the free space of {folder} cannot be read",
                "check that its disk is mounted",
            )
            continue
        level = Level.FAILURE if free < LEAST_DISK else Level.WARNING if free < ENOUGH_DISK else Level.OK
        remedy = (
            None if level is Level.OK else "free some space, or choose another folder (--out, TRAINMARK_HOME)"
        )
        yield _one("disk", level, host, f"{size(free)} are free at {folder}", remedy)
    if snapshot.shm_total is not None:
        small = snapshot.shm_total < ENOUGH_SHM
        weight = Level.WARNING if requirements.reads_data or requirements.ranks > 1 else Level.NOTE
        remedy = "a container needs --shm-size or --ipc=host" if small else None
        found = (
            f"shared memory (/dev/shm) has {size(snapshot.shm_total)}, {size(snapshot.shm_free or 0)} free"
        )
        yield _one("shared-memory", weight if small else Level.OK, host, found, remedy)


def _limits(host: str, snapshot: HostSnapshot) -> Iterator[CheckFinding]:
    few = 0 <= snapshot.open_files < ENOUGH_FILES
    remedy = f"ulimit -n {ENOUGH_FILES} or more: ranks and data loaders open many files" if few else None
    files = (
        "no limit of open files"
        if snapshot.open_files < 0
        else f"{snapshot.open_files} open files are allowed"
    )
    yield _one("limits", Level.WARNING if few else Level.OK, host, files, remedy)
    if snapshot.infiniband and snapshot.locked_memory >= 0:
        yield _one(
            "limits",
            Level.WARNING,
            host,
            f"only {size(snapshot.locked_memory)} of memory may be locked, and InfiniBand locks its buffers",
            "ulimit -l unlimited",
        )


def _gpu(host: str, gpu: GpuSnapshot) -> Iterator[CheckFinding]:
    name = f"GPU {gpu.index}"
    if gpu.processes:
        pids = ", ".join(map(str, gpu.processes))
        yield _one(
            "gpu-free",
            Level.WARNING,
            host,
            f"{name}: other processes use it: {pids}",
            "wait for them, or end them",
        )
    if gpu.remap_failed:
        yield _one(
            "gpu-memory", Level.FAILURE, host, f"{name}: a row could not be remapped", "replace the board"
        )
    elif gpu.remap_pending or gpu.ecc_errors:
        found = f"{name}: {gpu.ecc_errors or 0} uncorrected ECC errors, {gpu.remapped or 0} rows remapped"
        pending = ", one more after a reset" if gpu.remap_pending else ""
        yield _one(
            "gpu-memory", Level.WARNING, host, f"{found}{pending}", "an administrator can reset the GPU"
        )
    if gpu.slowdowns:
        heat = f" at {gpu.temperature_c} °C" if gpu.temperature_c is not None else ""
        found = f"{name}: throttled{heat} ({', '.join(gpu.slowdowns)})"
        yield _one("gpu-clocks", Level.WARNING, host, found, "check cooling and power")
    application, highest = gpu.application_clock_mhz, gpu.max_clock_mhz
    if application and highest and application < highest:
        found = f"{name}: application clocks are {application} MHz, the maximum is {highest} MHz"
        yield _one("gpu-clocks", Level.NOTE, host, found, "nvidia-smi -rac, by an administrator")
    if gpu.persistence is False:
        found = f"{name}: persistence mode is off, so the driver is loaded again for each run"
        yield _one("gpu-persistence", Level.NOTE, host, found, "nvidia-smi -pm 1, by an administrator")
    if not (gpu.processes or gpu.remap_failed or gpu.remap_pending or gpu.ecc_errors or gpu.slowdowns):
        yield _one(
            "gpu", Level.OK, host, f"{name} ({gpu.name}) is free, not throttled, without memory errors"
        )


def _interfaces(
    snapshots: Mapping[str, HostSnapshot], named: Mapping[str, str | None]
) -> Iterator[CheckFinding]:
    found = {host: snapshot.interface(named.get(host)) for host, snapshot in snapshots.items()}
    for host, interface in found.items():
        if interface is None:
            yield _one(
                "interface",
                Level.NOTE,
                host,
                "no interface has its address, so frameworks choose an interface themselves",
                "set the interface, or the address of one, in the hosts file",
            )
        elif not interface.up:
            yield _one(
                "interface",
                Level.FAILURE,
                host,
                f"{interface.name} is down",
                "an administrator can bring it up",
            )
        else:
            yield _one("interface", Level.OK, host, f"{interface.name} is up")
    there = {host: interface for host, interface in found.items() if interface is not None}
    mtus = {host: f"{interface.mtu}" for host, interface in there.items()}
    yield from compare_values("mtu", mtus, "set the same MTU on all hosts and switches", Level.WARNING, "MTU")
    speeds = {
        host: f"{interface.speed_mbit} Mbit/s" for host, interface in there.items() if interface.speed_mbit
    }
    yield from compare_values(
        "link-speed", speeds, "check cable, port and switch of the slower host", Level.WARNING
    )


def _infiniband(snapshots: Mapping[str, HostSnapshot]) -> Iterator[CheckFinding]:
    with_ports = {host: snapshot.infiniband for host, snapshot in snapshots.items() if snapshot.infiniband}
    if not with_ports:
        return
    for host in snapshots:
        if host not in with_ports:
            found = "no InfiniBand port, but other hosts have one"
            yield _one("infiniband", Level.WARNING, host, found, "check the driver and the card")
    for host, ports in with_ports.items():
        for port in ports:
            active = "ACTIVE" in (port.state or "")
            yield _one(
                "infiniband",
                Level.OK if active else Level.WARNING,
                host,
                f"{port.device} port {port.port}: {port.state or 'state unknown'}, {port.rate or 'rate unknown'}",
                None if active else "check the cable and the subnet manager",
            )
    rates = {
        host: ", ".join(sorted(port.rate or "?" for port in ports)) for host, ports in with_ports.items()
    }
    if len(set(rates.values())) > 1:
        yield from compare_values(
            "infiniband", rates, "check cable and port of the slower host", Level.WARNING
        )


def _one(check: str, level: Level, host: str, found: str, remedy: str | None = None) -> CheckFinding:
    return CheckFinding(check=check, level=level, hosts=(host,), found=found, remedy=remedy)
