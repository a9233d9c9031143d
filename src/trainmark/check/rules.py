"""What was seen of hosts, held against each other and against what a suite needs; nothing is asked here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainmark.check.formatting import GIB, shared, size
from trainmark.check.snapshot import GpuLook, HostLook
from trainmark.schema.check import CheckFinding, Level
from trainmark.schema.manifest import Node

LEAST_DISK, ENOUGH_DISK = GIB // 4, 5 * GIB
"""Free bytes below which runs cannot keep what they measure, and below which it is worth a word."""

ENOUGH_MEMORY = 2 * GIB
"""Available bytes a rank below which it is worth a word, where the suite has no limit."""

ENOUGH_SHM = GIB
"""Containers have 64 MiB by default, and the processes of data loaders and of one host's ranks meet there."""

ENOUGH_FILES = 4096


@dataclass(frozen=True, slots=True)
class Need:
    """What a suite asks of each host: the ranks, the bytes of memory that it allows a run, and if ranks read data."""

    ranks: int = 1
    memory: int | None = None
    reads_data: bool = False


def judge(
    looks: Mapping[str, HostLook], nodes: Mapping[str, Node], interfaces: Mapping[str, str | None], need: Need
) -> Iterator[CheckFinding]:
    """Give the findings on what hosts are; all go by the hosts' names.

    ``interfaces`` are the names of those by which the hosts reach each other, where that is known.
    """
    yield from _same_software(looks, nodes)
    yield from _same_hardware(nodes)
    for host, look in looks.items():
        yield from _cores(host, look, nodes.get(host))
    yield from _clocks(looks)
    for host, look in looks.items():
        yield from _room(host, look, need)
        yield from _limits(host, look)
        for gpu in look.gpus:
            yield from _gpu(host, gpu)
    if len(looks) > 1:
        yield from _interfaces(looks, interfaces)
    yield from _infiniband(looks)


def _same_software(looks: Mapping[str, HostLook], nodes: Mapping[str, Node]) -> Iterator[CheckFinding]:
    yield from shared(
        "trainmark",
        {host: look.trainmark for host, look in looks.items()},
        "install the same version of trainmark on all hosts",
    )
    kernels = {host: f"{node.os.name}, Linux {node.os.kernel}" for host, node in nodes.items()}
    yield from shared("system", kernels, "hosts of one table should run one system", Level.NOTE)
    drivers = {host: node.accelerators.driver or "none" for host, node in nodes.items()}
    if set(drivers.values()) != {"none"}:
        yield from shared(
            "driver", drivers, "install the same driver on all hosts", Level.FAILURE, "NVIDIA driver"
        )


def _same_hardware(nodes: Mapping[str, Node]) -> Iterator[CheckFinding]:
    apart = "hosts of different hardware belong into cases of their own"
    cpus = {
        host: f"{node.cpu.model or 'unknown CPU'}, {node.cpu.threads} CPUs" for host, node in nodes.items()
    }
    yield from shared("cpu", cpus, apart, Level.WARNING)
    gpus = {host: _named_gpus(node) for host, node in nodes.items()}
    if set(gpus.values()) != {"none"}:
        yield from shared("gpus", gpus, apart, Level.WARNING)


def _named_gpus(node: Node) -> str:
    names = [gpu.name or "unknown GPU" for gpu in node.accelerators.gpus]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "none"


def _cores(host: str, look: HostLook, node: Node | None) -> Iterator[CheckFinding]:
    taken = sum(busy.cores for busy in look.busy)
    found = f"{look.allowed_cores} cores may be used, load {look.load_1min:.2f}"
    if taken >= max(0.3, 0.05 * look.allowed_cores):
        who = ", ".join(f"{busy.name} ({busy.pid}) {busy.cores:g}" for busy in look.busy[:3])
        more = f" and {len(look.busy) - 3} more" if len(look.busy) > 3 else ""
        yield _one(
            "cores",
            Level.WARNING,
            host,
            f"other processes take {taken:.1f} of {look.allowed_cores} cores: {who}{more}",
            "end them, or measure when they have ended",
        )
    elif look.load_1min > look.allowed_cores + 1:
        remedy = "see what runs outside of this container, or measure when it has ended"
        yield _one("cores", Level.WARNING, host, f"{found}: more than what is seen here explains", remedy)
    else:
        yield _one("cores", Level.OK, host, found)
    quota = node.cpu.quota_cpus if node is not None else None
    if quota is not None and quota < look.allowed_cores:
        yield _one(
            "quota",
            Level.NOTE,
            host,
            f"a control group allows {quota:g} CPUs of {look.allowed_cores}: ranks get {max(1, int(quota))} threads",
            "lift the quota (cpu.max) to use all",
        )


def _clocks(looks: Mapping[str, HostLook]) -> Iterator[CheckFinding]:
    readable = {host: ", ".join(look.governors) for host, look in looks.items() if look.governors}
    slow = {host: said for host, said in readable.items() if said != "performance"}
    if hidden := tuple(host for host in looks if host not in readable):
        found = "the CPU's governor cannot be read (as in most virtual machines)"
        yield CheckFinding(check="governor", level=Level.NOTE, hosts=hidden, found=found)
    for host, said in slow.items():
        yield _one(
            "governor",
            Level.WARNING,
            host,
            f"the CPU's governor is {said}",
            "an administrator can set 'performance' (cpupower frequency-set -g performance)",
        )
    if fast := tuple(host for host in readable if host not in slow):
        yield CheckFinding(
            check="governor", level=Level.OK, hosts=fast, found="the CPU's governor is performance"
        )
    turbo = {host: "on" if look.turbo else "off" for host, look in looks.items() if look.turbo is not None}
    yield from shared("turbo", turbo, "set turbo alike on all hosts", Level.WARNING, "turbo is")
    peaks = {host: f"{look.max_mhz:.0f} MHz" for host, look in looks.items() if look.max_mhz}
    yield from shared("frequency", peaks, "see to the limits of the CPUs' clocks", Level.WARNING, "at most")


def _room(host: str, look: HostLook, need: Need) -> Iterator[CheckFinding]:
    wanted = need.memory or need.ranks * ENOUGH_MEMORY
    why = "limits.memory" if need.memory else f"{size(ENOUGH_MEMORY)} for each of {need.ranks} ranks"
    if look.memory_available < wanted:
        found = f"{size(look.memory_available)} of memory are available, less than {size(wanted)} ({why})"
        yield _one("memory", Level.WARNING, host, found, "end what holds memory, or take smaller batches")
    else:
        found = f"{size(look.memory_available)} of {size(look.memory_total)} of memory are available"
        yield _one("memory", Level.OK, host, found)
    for folder, free in look.disks.items():
        if free is None:
            yield _one("disk", Level.WARNING, host, f"the disk of {folder} cannot be looked at", "look at it")
            continue
        level = Level.FAILURE if free < LEAST_DISK else Level.WARNING if free < ENOUGH_DISK else Level.OK
        remedy = None if level is Level.OK else "make room, or name another folder (--out, TRAINMARK_HOME)"
        yield _one("disk", level, host, f"{size(free)} are free at {folder}", remedy)
    if look.shm_total is not None:
        small = look.shm_total < ENOUGH_SHM
        weight = Level.WARNING if need.reads_data or need.ranks > 1 else Level.NOTE
        remedy = "a container needs --shm-size or --ipc=host" if small else None
        found = f"shared memory (/dev/shm) has {size(look.shm_total)}, {size(look.shm_free or 0)} free"
        yield _one("shared-memory", weight if small else Level.OK, host, found, remedy)


def _limits(host: str, look: HostLook) -> Iterator[CheckFinding]:
    few = 0 <= look.open_files < ENOUGH_FILES
    remedy = f"ulimit -n {ENOUGH_FILES} or more: ranks and data loaders hold many" if few else None
    files = "no limit of open files" if look.open_files < 0 else f"{look.open_files} open files are allowed"
    yield _one("limits", Level.WARNING if few else Level.OK, host, files, remedy)
    if look.infiniband and look.locked_memory >= 0:
        yield _one(
            "limits",
            Level.WARNING,
            host,
            f"{size(look.locked_memory)} may be locked, and InfiniBand locks what it sends",
            "ulimit -l unlimited",
        )


def _gpu(host: str, gpu: GpuLook) -> Iterator[CheckFinding]:
    name = f"GPU {gpu.index}"
    if gpu.processes:
        pids = ", ".join(map(str, gpu.processes))
        yield _one(
            "gpu-free", Level.WARNING, host, f"{name}: processes compute on it: {pids}", "wait, or end them"
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
        yield _one("gpu-clocks", Level.WARNING, host, found, "see to cooling and power")
    asked, highest = gpu.application_clock_mhz, gpu.max_clock_mhz
    if asked and highest and asked < highest:
        found = f"{name}: application clocks of {asked} MHz, {highest} MHz are possible"
        yield _one("gpu-clocks", Level.NOTE, host, found, "nvidia-smi -rac, by an administrator")
    if gpu.persistence is False:
        found = f"{name}: persistence mode is off, so that the driver is loaded anew for each run"
        yield _one("gpu-persistence", Level.NOTE, host, found, "nvidia-smi -pm 1, by an administrator")
    if not (gpu.processes or gpu.remap_failed or gpu.remap_pending or gpu.ecc_errors or gpu.slowdowns):
        yield _one(
            "gpu", Level.OK, host, f"{name} ({gpu.name}) is free, not throttled, without memory errors"
        )


def _interfaces(looks: Mapping[str, HostLook], named: Mapping[str, str | None]) -> Iterator[CheckFinding]:
    found = {host: look.interface(named.get(host)) for host, look in looks.items()}
    for host, interface in found.items():
        if interface is None:
            yield _one(
                "interface",
                Level.NOTE,
                host,
                "no interface has its address, so frameworks choose one themselves",
                "name the interface, or an address that one has, in the hosts file",
            )
        elif not interface.up:
            yield _one(
                "interface",
                Level.FAILURE,
                host,
                f"{interface.name} is down",
                "an administrator can set it up",
            )
        else:
            yield _one("interface", Level.OK, host, f"{interface.name} is up")
    there = {host: interface for host, interface in found.items() if interface is not None}
    mtus = {host: f"{interface.mtu}" for host, interface in there.items()}
    yield from shared("mtu", mtus, "set the same MTU on all hosts and switches", Level.WARNING, "MTU")
    speeds = {
        host: f"{interface.speed_mbit} Mbit/s" for host, interface in there.items() if interface.speed_mbit
    }
    yield from shared("link-speed", speeds, "see to cable, port and switch of the slower one", Level.WARNING)


def _infiniband(looks: Mapping[str, HostLook]) -> Iterator[CheckFinding]:
    with_ports = {host: look.infiniband for host, look in looks.items() if look.infiniband}
    if not with_ports:
        return
    for host in looks:
        if host not in with_ports:
            found = "it has no InfiniBand port, and others have"
            yield _one("infiniband", Level.WARNING, host, found, "see to driver and card")
    for host, ports in with_ports.items():
        for port in ports:
            active = "ACTIVE" in (port.state or "")
            yield _one(
                "infiniband",
                Level.OK if active else Level.WARNING,
                host,
                f"{port.device} port {port.port}: {port.state or 'state unknown'}, {port.rate or 'rate unknown'}",
                None if active else "see to cable and subnet manager",
            )
    rates = {
        host: ", ".join(sorted(port.rate or "?" for port in ports)) for host, ports in with_ports.items()
    }
    if len(set(rates.values())) > 1:
        yield from shared("infiniband", rates, "see to cable and port of the slower one", Level.WARNING)


def _one(check: str, level: Level, host: str, found: str, remedy: str | None = None) -> CheckFinding:
    return CheckFinding(check=check, level=level, hosts=(host,), found=found, remedy=remedy)
