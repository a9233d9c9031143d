"""This machine: its GPUs through NVML, its facts for the manifest, and its resources for placement.

The facts are read from /proc, /sys and /etc, and those of git from its working trees. GPU values that a driver does
not support are None, never an error. Resources are cores, GPUs, free ports, OpenMPI and Slurm's allocation.
"""

import atexit
import os
import platform
import random
import re
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from trainmark.node.jobs import NOT_FOUND, CommandRunner, Host, HostError, display_name, probe_runner
from trainmark.schema.manifest import (
    AcceleratorFacts,
    ContainerFacts,
    CpuFacts,
    FrameworkVersions,
    GitFacts,
    GpuFacts,
    HostFacts,
    Manifest,
    MemoryFacts,
    Node,
    OsFacts,
    VirtualisationFacts,
)
from trainmark.schema.plan import Command, NodeResources
from trainmark.version import __version__


class Nvml:
    """An initialised NVML; ``module`` is ``pynvml`` (package nvidia-ml-py), or a stand-in with its functions."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def query(self, function: str, *arguments: Any) -> Any:
        """Return an NVML function's result; None if the GPU, the driver or the binding does not support it."""
        try:
            return getattr(self._module, function)(*arguments)
        except (AttributeError, self._module.NVMLError):
            return None

    def text(self, function: str, *arguments: Any) -> str | None:
        """Return a string result; older bindings return bytes, which are decoded."""
        value = self.query(function, *arguments)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def constant(self, name: str) -> int:
        """Return a constant of the binding by its name."""
        return int(getattr(self._module, name))

    def handles(self) -> list[Any]:
        """Return the handles of the GPUs, in NVML's order, without lost GPUs."""
        found = [
            self.query("nvmlDeviceGetHandleByIndex", index)
            for index in range(self.query("nvmlDeviceGetCount") or 0)
        ]
        return [handle for handle in found if handle is not None]


@contextmanager
def open_nvml() -> Iterator[Nvml | None]:
    """Initialise NVML and shut it down at the end; yields None without a driver or binding."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield Nvml(pynvml)
    finally:
        pynvml.nvmlShutdown()


_COMMON_POINTS = (
    ("NVML_TOPOLOGY_INTERNAL", "PIX"),
    ("NVML_TOPOLOGY_SINGLE", "PIX"),
    ("NVML_TOPOLOGY_MULTIPLE", "PXB"),
    ("NVML_TOPOLOGY_HOSTBRIDGE", "PHB"),
    ("NVML_TOPOLOGY_NODE", "NODE"),
    ("NVML_TOPOLOGY_SYSTEM", "SYS"),
)
"""NVML's ``nvmlGpuTopologyLevel_t`` and the abbreviations of ``nvidia-smi topo -m``."""


def read_accelerators(nvml: Nvml | None) -> AcceleratorFacts:
    """Return the GPUs as NVML reports them; none without NVML."""
    if nvml is None:
        return AcceleratorFacts()
    handles = nvml.handles()
    return AcceleratorFacts(
        driver=nvml.text("nvmlSystemGetDriverVersion"),
        cuda_driver=cuda_version(nvml.query("nvmlSystemGetCudaDriverVersion")),
        gpus=tuple(_gpu(nvml, handle) for handle in handles),
        topology=_topology(nvml, handles),
    )


def cuda_version(number: int | None) -> str | None:
    """Return ``"12.4"`` for NVML's 12040 (1000 times the major version plus 10 times the minor one)."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _gpu(nvml: Nvml, handle: Any) -> GpuFacts:
    memory = nvml.query("nvmlDeviceGetMemoryInfo", handle)
    pci = nvml.query("nvmlDeviceGetPciInfo", handle)
    limit_mw = nvml.query("nvmlDeviceGetEnforcedPowerLimit", handle)
    return GpuFacts(
        name=nvml.text("nvmlDeviceGetName", handle),
        uuid=nvml.text("nvmlDeviceGetUUID", handle),
        pci=None if pci is None else _bus_id(pci),
        vbios=nvml.text("nvmlDeviceGetVbiosVersion", handle),
        memory_bytes=None if memory is None else int(memory.total),
        power_limit_w=None if limit_mw is None else limit_mw / 1000,
        max_sm_clock_mhz=nvml.query("nvmlDeviceGetMaxClockInfo", handle, nvml.constant("NVML_CLOCK_SM")),
        max_memory_clock_mhz=nvml.query("nvmlDeviceGetMaxClockInfo", handle, nvml.constant("NVML_CLOCK_MEM")),
        mig=_current(nvml.query("nvmlDeviceGetMigMode", handle)),
        ecc=_current(nvml.query("nvmlDeviceGetEccMode", handle)),
        persistence=_mode(nvml.query("nvmlDeviceGetPersistenceMode", handle)),
    )


def _bus_id(pci: Any) -> str:
    return pci.busId.decode() if isinstance(pci.busId, bytes) else str(pci.busId)


def _mode(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _current(modes: Any) -> bool | None:
    """Return the current mode of NVML's ``[current, pending]``."""
    return None if modes is None else bool(modes[0])


def _topology(nvml: Nvml, handles: list[Any]) -> tuple[tuple[str | None, ...], ...]:
    links = [_links(nvml, handle) for handle in handles]
    buses = [
        None if (pci := nvml.query("nvmlDeviceGetPciInfo", handle)) is None else _bus_id(pci)
        for handle in handles
    ]
    words = {nvml.constant(name): word for name, word in _COMMON_POINTS}

    def joined(one: int, other: int) -> str | None:
        if one == other:
            return "X"
        direct = sum(1 for remote in links[one] if remote is not None and remote == buses[other])
        # Through switches every GPU reaches every other with all its links.
        switched = min(links[one].count(_SWITCH), links[other].count(_SWITCH))
        if direct + switched:
            return f"NV{direct + switched}"
        level = nvml.query("nvmlDeviceGetTopologyCommonAncestor", handles[one], handles[other])
        return None if level is None else words.get(int(level))

    return tuple(tuple(joined(one, other) for other in range(len(handles))) for one in range(len(handles)))


_SWITCH = "switch"


def _links(nvml: Nvml, handle: Any) -> list[str | None]:
    """Return the remote end of each active NVLink of a GPU: a bus id, ``switch``, or None if unknown."""
    ends: list[str | None] = []
    for link in range(nvml.constant("NVML_NVLINK_MAX_LINKS")):
        if not nvml.query("nvmlDeviceGetNvLinkState", handle, link):
            continue
        if nvml.query("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) == nvml.constant(
            "NVML_NVLINK_DEVICE_TYPE_SWITCH"
        ):
            ends.append(_SWITCH)
            continue
        remote = nvml.query("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
        ends.append(None if remote is None else _bus_id(remote))
    return ends


_FLAGS = (
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "asimd", "asimddp",
    "asimdhp", "fphp", "i8mm", "bf16", "sve", "sve2", "svebf16",
)  # fmt: skip
"""Vector extensions by which the frameworks select CPU kernels (x86-64, then Arm)."""

MOST_CPUS = 1 << 16
"""Numbers of CPUs are below this: a list may come from another machine's results, and a set of it must fit."""

_UNLIMITED_V1 = 1 << 60
"""Above this limit there is none: cgroup v1 writes "no limit" as the largest multiple of the page size."""
_NAMES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MODULE_LOADING", "CUDA_CACHE_DISABLE", "CUDA_VERSION", "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE", "NVIDIA_PYTORCH_VERSION", "NVIDIA_TENSORFLOW_VERSION", "NVIDIA_MXNET_VERSION",
    "NVIDIA_BUILD_ID", "NCCL_VERSION", "TF32_OVERRIDE", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_AUTOTUNE_THRESHOLD",
    "LD_PRELOAD", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "NUMEXPR_NUM_THREADS", "PYTHONHASHSEED", "WORLD_SIZE",
    "LOCAL_WORLD_SIZE", "MKLDNN_VERBOSE", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT", "GLOG_v",
    "GLOG_minloglevel", "TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND", "PJRT_NPROC", "TRAINMARK_FUSED_WITHOUT",
)  # fmt: skip
_PREFIXES = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "NCCL_", "GLOO_", "UCX_", "TORCH_", "TORCHINDUCTOR_",
    "TORCHDYNAMO_", "MALLOC_", "MXNET_", "FLAGS_", "HOROVOD_", "DALI_", "OMPI_MCA_", "ATEN_", "OPENBLAS_",
    "BLIS_", "PYTORCH_", "TRITON_", "CUBLAS_", "CUDNN_", "JAX_", "XLA_", "TF_ENABLE_", "TF_DISABLE_", "TF_NUM_",
    "TF_USE_", "TF_XLA_", "TF_CUDNN_", "TF_GPU_",
)  # fmt: skip
_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/@\s]*@")
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Roots:
    """Root folders of a node's file trees: the live ones by default, recorded ones in tests."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    etc: Path = Path("/etc")
    top: Path = Path("/")


def read_host(roots: Roots, environ: Mapping[str, str], machine: str | None = None) -> HostFacts:
    """Return the node's facts from its file trees and environment variables."""
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
    """Return the processors: their kind from ``/proc/cpuinfo``, their number from ``/sys/devices/system``."""
    info = _cpuinfo(proc)
    flags = set((info.get("flags") or info.get("Features") or "").split())
    cpus = [path for path in (sys / "devices/system/cpu").glob("cpu[0-9]*") if (path / "topology").is_dir()]
    packages = {_text(cpu / "topology/physical_package_id") for cpu in cpus}
    cores = {(_text(cpu / "topology/physical_package_id"), _text(cpu / "topology/core_id")) for cpu in cpus}
    governors = sorted({text for cpu in cpus if (text := _text(cpu / "cpufreq/scaling_governor"))})
    speeds = [int(text) for cpu in cpus if (text := _text(cpu / "cpufreq/cpuinfo_max_freq"))]
    nodes = list((sys / "devices/system/node").glob("node[0-9]*"))
    allowed = _keyed(proc / "self/status").get("Cpus_allowed_list")
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
        allowed=allowed,
        pinned=_pinned(allowed, _cpus_of_group(proc, sys)),
    )


def _pinned(allowed: str | None, there: str | None) -> str | None:
    """Return the list of CPUs that may be used if it is only a part of those that are ``there``."""
    if allowed is None or there is None:
        return None
    return allowed if parse_cpus(allowed) < parse_cpus(there) else None


def _cpus_of_group(proc: Path, sys: Path) -> str | None:
    """Return the list of CPUs of this process' control group, or else of the machine."""
    for folder, version in _control_groups(proc, sys, "cpuset"):
        if text := _text(folder / ("cpuset.cpus.effective" if version == 2 else "cpuset.effective_cpus")):
            return text
    return _text(sys / "devices/system/cpu/online")


def count_cpus(text: str) -> int | None:
    """Return the number of CPUs in a list as users and the kernel write it (``0-3,8``); None for another text."""
    try:
        return len(parse_cpus(text))
    except ValueError:
        return None


def parse_cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as ``0-3,6``; raise ``ValueError`` for another text."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not _is_cpu_number(first) or (dash and not _is_cpu_number(last)):
            raise ValueError(f"'{part}' is neither a number nor a range such as 0-3")
        low, high = int(first), int(last) if dash else int(first)
        if low > high:
            raise ValueError(f"'{part}' ends before it begins")
        if high >= MOST_CPUS:
            raise ValueError(f"'{part}' has a CPU beyond {MOST_CPUS - 1}")
        found |= set(range(low, high + 1))
    return frozenset(found)


def _is_cpu_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


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
    """Return the container that this process runs in, detected by the engines' marker files; None without one."""
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
    """Return whether the CPU's flags show a hypervisor (x86-64 only), and the machine's DMI names."""
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

    In a container the path in ``/proc/self/cgroup`` may not exist below the mount; then the mount itself counts.
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
    """Return a small file's stripped text; None if it cannot be read or is empty."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \t\n") or None
    except OSError:
        return None


def allowed_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that affect how a framework runs.

    Names that suggest a secret (a key, a token) are excluded, and credentials in URLs are removed from values.
    """
    return {
        name: _USERINFO.sub("", value)
        for name, value in sorted(environ.items())
        if (name in _NAMES or name.startswith(_PREFIXES)) and not _SECRET.search(name)
    }


def collect(
    framework: FrameworkVersions | None,
    *,
    environ: Mapping[str, str] | None = None,
    environment_lock: str | None = None,
    git: GitFacts | None = None,
) -> Manifest:
    """Return the current manifest of this node alone.

    ``framework`` comes from ``describe`` (None without a framework); ``environ`` is the environment of the run's
    processes (that of this process by default); ``git`` is the state of trainmark's own tree.
    """
    with open_nvml() as nvml:
        node = collect_node(
            framework,
            roots=Roots(),
            environ=os.environ if environ is None else environ,
            nvml=nvml,
            now=datetime.now(UTC),
            environment_lock=environment_lock,
            git=git,
        )
    return Manifest(nodes=(node,))


def collect_node(
    framework: FrameworkVersions | None,
    *,
    roots: Roots,
    environ: Mapping[str, str],
    nvml: Nvml | None,
    now: datetime,
    environment_lock: str | None = None,
    git: GitFacts | None = None,
) -> Node:
    """Return the facts of a node from its file trees (``roots``), its variables and its NVML."""
    host = read_host(roots, environ, platform.machine())
    return Node(
        hostname=host.hostname,
        collected=now,
        os=host.os,
        cpu=host.cpu,
        memory=host.memory,
        accelerators=read_accelerators(nvml),
        virtualisation=host.virtualisation,
        container=host.container,
        framework=framework,
        environment_lock=environment_lock,
        git=git,
        variables=host.variables,
        trainmark=__version__,
    )


def read_git(directory: Path, host: Host) -> GitFacts | None:
    """Return commit, dirtiness and remote of the git tree around a host's ``directory``; None without git or tree."""
    runner = probe_runner(host, _TIMEOUT_S)
    if _git(runner, directory, "rev-parse", "--is-inside-work-tree") != "true":
        return None
    changes = _git(runner, directory, "status", "--porcelain", "--untracked-files=no")
    remote = _git(runner, directory, "config", "--get", "remote.origin.url")
    return GitFacts(
        commit=_git(runner, directory, "rev-parse", "--verify", "HEAD"),
        dirty=None if changes is None else changes != "",
        remote=without_credentials(remote) if remote else None,
    )


def without_credentials(url: str) -> str:
    """Return a URL without user, password, query and fragment; of a path or ``host:path`` only the user is removed."""
    parts = urlsplit(url)
    if "://" in url:
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    host, colon, path = url.partition(":")
    return f"{host.rpartition('@')[2]}{colon}{path}" if colon else url


def _git(runner: CommandRunner, directory: Path, *arguments: str) -> str | None:
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    result = runner.run(Command(0, ("git", "-C", str(directory), *arguments), quiet))
    return result.out.decode(errors="replace").strip() if result.code == 0 else None


_FIRST, _LAST = 20_000, 32_000
_HERE = "this machine"
_MAX_ATTEMPTS = 100
"""Attempts to find ports that are free on all hosts."""
_GRAIN = 8
"""Ports per reservation unit."""
_MOST_RESERVED = 8
"""Reserved grains in addition to the latest ones, because ranks bind their ports later; each is an open file."""
_reserved: deque[tuple[int, ExitStack]] = deque()
_known_openmpi: set[tuple[str, int]] = set()
"""mpirun programs known to be OpenMPI's; each is probed once although a campaign checks it for every case."""
ALLOCATION = "TRAINMARK_SLURM_JOB_ID"
"""The variable in which an agent keeps the number of its allocation, so that only srun finds it."""
_LONGEST_PREFIX = 8
"""The words of a command in which srun is searched: ``env NAME=VALUE … srun``."""


def this_machine(host: Host) -> NodeResources:
    """Return the cores that this process may use, the GPUs that NVML reports, and whether OpenMPI is installed.

    ``host`` is this machine, on which mpirun is probed.
    """
    quota = read_cpu(Path("/proc"), Path("/sys")).quota_cpus
    cores = usable_cores(len(os.sched_getaffinity(0)), quota)
    visible = _visible()
    there = _gpus()
    gpus = there if visible is None else min(there, len(visible))
    return NodeResources(cores=cores, gpus=gpus, visible=visible or (), no_openmpi=_why_no_openmpi(host))


def free_ports(count: int, hosts: Sequence[Host] = ()) -> int:
    """Return the first of ``count`` consecutive ports that are free on this machine, or on all of ``hosts``.

    They are below the kernel's ephemeral ports. Other trainmark processes on this machine do not get them, and this
    one does not reuse them soon. If another program takes one before the ranks do, the run fails with that reason.
    Raises ``HostError`` naming the host without free ports.
    """
    where, width, attempts = "", -(-count // _GRAIN), 0
    starts = range((_LAST - _FIRST) // _GRAIN - width + 1)
    for grain in random.sample(starts, len(starts)):
        with ExitStack() as names:
            if not _reserve(range(grain, grain + width), names):
                continue
            first = _FIRST + grain * _GRAIN
            where, attempts = _busy(first, count, hosts), attempts + 1
            if not where:
                _reserved.append((width, names.pop_all()))
                _forget()
                return first
        if attempts == _MAX_ATTEMPTS:
            break
    raise HostError(f"{where or _HERE}: no {count} free ports in a row between {_FIRST} and {_LAST}")


def _busy(first: int, count: int, hosts: Sequence[Host]) -> str:
    """Return the host on which one of these ports is in use, or an empty string."""
    if not hosts:
        return "" if ports_are_free(first, count) else _HERE
    busy = next((host for host in hosts if not host.has_free_ports(first, count)), None)
    return "" if busy is None else display_name(busy)


def _forget() -> None:
    """Release the oldest reservations until at most ``_MOST_RESERVED`` grains remain."""
    while len(_reserved) > 1 and sum(width for width, _ in _reserved) - _reserved[-1][0] > _MOST_RESERVED:
        _reserved.popleft()[1].close()


@atexit.register
def _release() -> None:
    """Release all reservations when this process exits, as it would do with a warning about open sockets."""
    while _reserved:
        _reserved.popleft()[1].close()


def _reserve(grains: range, names: ExitStack) -> bool:
    """Bind the socket names that reserve ports among the trainmark processes of a machine until this one exits.

    Returns False if another process has a name; raises ``OSError`` if this process may open no more files.
    """
    for grain in grains:
        name = names.enter_context(socket.socket(socket.AF_UNIX))
        try:
            # Linux abstract names: no files, and one name space per network namespace, like ports.
            name.bind(f"\0trainmark-ports-{_FIRST + grain * _GRAIN}")
        except OSError:
            return False
    return True


def ports_are_free(first: int, count: int) -> bool:
    """Return whether ``count`` ports from ``first`` on are free; another program may take one afterwards."""
    with ExitStack() as stack:
        try:
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("", port))
        except OSError:
            return False
    return True


def usable_cores(allowed: int, quota_cpus: float | None) -> int:
    """Return how many threads can run in parallel: the allowed CPUs, or fewer under a container's quota.

    With more threads than the quota's CPUs, all are paused in the middle of a step until the next period begins.
    """
    return allowed if quota_cpus is None else max(1, min(allowed, int(quota_cpus)))


def _why_no_openmpi(host: Host) -> str | None:
    """Return why OpenMPI's mpirun cannot be used and how to fix it, or None; MPICH's mpirun has other flags."""
    remedy = "install OpenMPI (Debian: apt install openmpi-bin)"
    if (mpirun := host.which("mpirun")) is None:
        return f"mpirun was not found on {display_name(host)}; {remedy}"
    program = (mpirun, Path(mpirun).stat().st_mtime_ns)
    if program in _known_openmpi:
        return None
    result = probe_runner(host, _TIMEOUT_S).run(Command(0, (mpirun, "--version"), {}))
    if result.stopped is not None or result.code == NOT_FOUND:
        return f"{mpirun} does not run ({result.error_line() or 'no answer'}); {remedy}"
    if b"Open MPI" not in result.out:
        return f"{mpirun} is not OpenMPI's; {remedy} and put it first on PATH"
    _known_openmpi.add(program)
    return None


def _visible() -> tuple[str, ...] | None:
    """Return the names in ``CUDA_VISIBLE_DEVICES``; None if it is not set."""
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return None
    return tuple(word.strip() for word in value.split(",") if word.strip() not in ("", "-1"))


def _gpus() -> int:
    with open_nvml() as nvml:
        return 0 if nvml is None else int(nvml.query("nvmlDeviceGetCount") or 0)


def keep_allocation(number: str | None) -> None:
    """Keep the number of the allocation for later commands; None: there is no allocation."""
    if number is not None:
        os.environ[ALLOCATION] = number


def allocation_variables(words: Sequence[str]) -> dict[str, str]:
    """Return the variables by which an srun becomes a step of the allocation, next to the agent; empty for others."""
    number = os.environ.get(ALLOCATION)
    if number is None or "srun" not in (Path(word).name for word in words[:_LONGEST_PREFIX]):
        return {}
    return {"SLURM_JOB_ID": number, "SLURM_OVERLAP": "1"}
