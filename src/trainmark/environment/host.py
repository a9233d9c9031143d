"""Reading what a node is from /proc, /sys and /etc: pure functions of these roots, standard library only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainmark.environment.variables import allowed_variables
from trainmark.words.manifest import (
    ContainerFacts,
    CpuFacts,
    HostFacts,
    MemoryFacts,
    OsFacts,
    VirtualisationFacts,
)

_FLAGS = (
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "asimd", "asimddp",
    "asimdhp", "fphp", "i8mm", "bf16", "sve", "sve2", "svebf16",
)  # fmt: skip
"""Vector extensions that CPU kernels of the frameworks choose their code by (x86-64, then Arm)."""

_UNLIMITED_V1 = 1 << 60
"""Control groups of version 1 write "no memory limit" as the largest multiple of the page size."""


@dataclass(frozen=True, slots=True)
class Roots:
    """Where a node's trees are: the live ones by default, recorded ones in tests."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    etc: Path = Path("/etc")
    top: Path = Path("/")


def read_host(roots: Roots, environ: Mapping[str, str], machine: str | None = None) -> HostFacts:
    """Return all that the trees and the environment variables say about the node."""
    return HostFacts(
        hostname=_text(roots.proc / "sys/kernel/hostname"),
        os=OsFacts(_os_name(roots.etc), _text(roots.proc / "sys/kernel/osrelease"), machine),
        cpu=read_cpu(roots.proc, roots.sys),
        memory=read_memory(roots.proc, roots.sys),
        container=read_container(roots, environ),
        virtualisation=read_virtualisation(roots.proc, roots.sys),
        variables=allowed_variables(environ),
    )


def read_cpu(proc: Path, sys: Path) -> CpuFacts:
    """Return the processors: ``/proc/cpuinfo`` for what they are, ``/sys/devices/system`` for how many."""
    info = _cpuinfo(proc)
    flags = set((info.get("flags") or info.get("Features") or "").split())
    cpus = [path for path in (sys / "devices/system/cpu").glob("cpu[0-9]*") if (path / "topology").is_dir()]
    packages = {_text(cpu / "topology/physical_package_id") for cpu in cpus}
    cores = {(_text(cpu / "topology/physical_package_id"), _text(cpu / "topology/core_id")) for cpu in cpus}
    governors = sorted({text for cpu in cpus if (text := _text(cpu / "cpufreq/scaling_governor"))})
    speeds = [int(text) for cpu in cpus if (text := _text(cpu / "cpufreq/cpuinfo_max_freq"))]
    nodes = list((sys / "devices/system/node").glob("node[0-9]*"))
    return CpuFacts(
        model=info.get("model name"),
        sockets=len(packages) or None,
        cores=len(cores) or None,
        threads=len(cpus) or None,
        flags=tuple(flag for flag in _FLAGS if flag in flags),
        numa_nodes=len(nodes) or None,
        max_mhz=max(speeds) // 1000 if speeds else None,
        governor=",".join(governors) or None,
        quota_cpus=_cpu_quota(proc, sys),
        allowed=_keyed(proc / "self/status").get("Cpus_allowed_list"),
    )


def read_memory(proc: Path, sys: Path) -> MemoryFacts:
    """Return the memory of the node and the limit put on this process, in bytes."""
    total = _keyed(proc / "meminfo").get("MemTotal", "").split()
    limits = [
        int(text)
        for folder, version in _control_groups(proc, sys, "memory")
        if (text := _text(folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")))
        and text.isdigit()
    ]
    limit = min(limits, default=_UNLIMITED_V1)
    return MemoryFacts(int(total[0]) * 1024 if total else None, limit if limit < _UNLIMITED_V1 else None)


def read_container(roots: Roots, environ: Mapping[str, str]) -> ContainerFacts | None:
    """Return the container around this process, by the marks that the engines leave; None without one."""
    for name in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        if image := environ.get(name):
            return ContainerFacts("singularity", Path(image).name)
    if (roots.top / ".singularity.d").is_dir():
        return ContainerFacts("singularity")
    podman = roots.top / "run/.containerenv"
    if podman.exists():
        return ContainerFacts("podman", _keyed(podman, separator="=").get("image", "").strip('"') or None)
    groups = _text(roots.proc / "1/cgroup") or ""
    secrets = roots.top / "var/run/secrets/kubernetes.io"
    if "KUBERNETES_SERVICE_HOST" in environ or "kubepods" in groups or secrets.is_dir():
        return ContainerFacts("kubernetes")
    if (roots.top / ".dockerenv").exists() or "docker" in groups:
        return ContainerFacts("docker")
    return ContainerFacts("lxc") if "/lxc/" in groups else None


def read_virtualisation(proc: Path, sys: Path) -> VirtualisationFacts:
    """Return whether a hypervisor shows itself in the CPU's flags (x86-64 only), and the DMI names of the machine."""
    flags = _cpuinfo(proc).get("flags")
    dmi = sys / "class/dmi/id"
    return VirtualisationFacts(
        hypervisor=None if flags is None else "hypervisor" in flags.split(),
        vendor=_text(dmi / "sys_vendor"),
        product=_text(dmi / "product_name"),
    )


def _os_name(etc: Path) -> str | None:
    return _keyed(etc / "os-release", separator="=").get("PRETTY_NAME", "").strip('"') or None


def _cpu_quota(proc: Path, sys: Path) -> float | None:
    quotas = []
    for folder, version in _control_groups(proc, sys, "cpu"):
        if version == 2:
            words = (_text(folder / "cpu.max") or "").split()
        else:
            words = [_text(folder / "cpu.cfs_quota_us") or "", _text(folder / "cpu.cfs_period_us") or ""]
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def _control_groups(proc: Path, sys: Path, controller: str) -> Iterable[tuple[Path, int]]:
    """Yield the folders of this process' control group and of all above it, with the version (1 or 2).

    Inside a container the path in ``/proc/self/cgroup`` may not exist below the mount: what is there counts.
    """
    for line in (_text(proc / "self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, version = sys / "fs/cgroup", 2
        elif controller in controllers.split(","):
            mount, version = sys / "fs/cgroup" / controller, 1
        else:
            continue
        folder = mount / path.lstrip("/")
        while True:
            if folder.is_dir():
                yield folder, version
            if folder == mount:
                break
            folder = folder.parent


def _cpuinfo(proc: Path) -> dict[str, str]:
    first = (_text(proc / "cpuinfo") or "").split("\n\n")[0]
    return {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())
    }


def _keyed(path: Path, separator: str = ":") -> dict[str, str]:
    lines = (_text(path) or "").splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition(separator) for line in lines)}


def _text(path: Path) -> str | None:
    """Return a small file's text without blanks around it; None when it cannot be read or is empty."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \t\n") or None
    except OSError:
        return None
