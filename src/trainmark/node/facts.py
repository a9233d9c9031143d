"""Facts of this node for the manifest, read from /proc, /sys and /etc, and of its git working trees."""

import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from trainmark import __version__
from trainmark.node.accelerators import Nvml, open_nvml, read_accelerators
from trainmark.node.host import Host
from trainmark.node.jobs import CommandRunner, probe_runner
from trainmark.schema.manifest import (
    ContainerFacts,
    CpuFacts,
    FrameworkVersions,
    GitFacts,
    HostFacts,
    Manifest,
    MemoryFacts,
    Node,
    OsFacts,
    VirtualisationFacts,
)
from trainmark.schema.plan import Command

_FLAGS = (
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "asimd", "asimddp",
    "asimdhp", "fphp", "i8mm", "bf16", "sve", "sve2", "svebf16",
)  # fmt: skip
"""Vector extensions by which the frameworks select CPU kernels (x86-64, then Arm)."""

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
    return allowed if _cpu_numbers(allowed) < _cpu_numbers(there) else None


def _cpus_of_group(proc: Path, sys: Path) -> str | None:
    """Return the list of CPUs of this process' control group, or else of the machine."""
    for folder, version in _control_groups(proc, sys, "cpuset"):
        if text := _text(folder / ("cpuset.cpus.effective" if version == 2 else "cpuset.effective_cpus")):
            return text
    return _text(sys / "devices/system/cpu/online")


def _cpu_numbers(cpus: str) -> set[int]:
    """Return the CPUs of a kernel CPU list (``0-3,8``)."""
    ends = [part.split("-") for part in cpus.split(",")]
    return {cpu for end in ends for cpu in range(int(end[0]), int(end[-1]) + 1)}


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
