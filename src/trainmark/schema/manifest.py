"""The manifest: what was really there when a run was measured, on every node; None is a fact that could not be had."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime, NonNegativeInt, PositiveFloat

from trainmark.schema.frozen import Frozen


@dataclass(frozen=True, slots=True)
class OsFacts:
    """The operating system; ``name`` as ``/etc/os-release`` gives it."""

    name: str | None = None
    kernel: str | None = None
    machine: str | None = None


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """The processors of a node, and how many of them this process may use.

    ``cores`` are physical ones, ``threads`` logical ones. ``flags`` are the vector extensions that matter for
    training. ``quota_cpus`` is the smallest CPU quota of the control groups above, in CPUs. ``allowed`` is the list
    of logical CPUs that may be used (``0-3,8``): the intersection of affinity and cpuset.
    """

    model: str | None = None
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    flags: tuple[str, ...] = ()
    numa_nodes: int | None = None
    max_mhz: int | None = None
    governor: str | None = None
    quota_cpus: float | None = None
    allowed: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """The node's memory, and the smallest limit of the control groups above, in bytes."""

    total_bytes: int | None = None
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU as NVML reports it. ``pci`` is the bus id; ``mig`` and ``ecc`` are the current modes."""

    name: str | None = None
    uuid: str | None = None
    pci: str | None = None
    vbios: str | None = None
    memory_bytes: int | None = None
    power_limit_w: float | None = None
    max_sm_clock_mhz: int | None = None
    max_memory_clock_mhz: int | None = None
    mig: bool | None = None
    ecc: bool | None = None
    persistence: bool | None = None


@dataclass(frozen=True, slots=True)
class AcceleratorFacts:
    """The GPUs of a node, their driver, and how they are joined.

    ``topology[i][j]`` is ``X`` for i = j, ``NV<links>``, or the nearest common point on PCIe (``PIX``, ``PXB``,
    ``PHB``, ``NODE``, ``SYS``, as ``nvidia-smi topo -m`` prints them); None where NVML does not say.
    """

    driver: str | None = None
    cuda_driver: str | None = None
    gpus: tuple[GpuFacts, ...] = ()
    topology: tuple[tuple[str | None, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """The container that this process runs in: ``docker``, ``podman``, ``kubernetes``, ``singularity`` or ``lxc``."""

    engine: str
    image: str | None = None


@dataclass(frozen=True, slots=True)
class VirtualisationFacts:
    """The hypervisor flag of the CPU, and the vendor and product of the (virtual) machine from its DMI table."""

    hypervisor: bool | None = None
    vendor: str | None = None
    product: str | None = None


@dataclass(frozen=True, slots=True)
class GitFacts:
    """The state of a working tree. ``dirty``: tracked files differ from the commit. ``remote`` has no credentials."""

    commit: str | None
    dirty: bool | None
    remote: str | None


@dataclass(frozen=True, slots=True)
class HostFacts:
    """All of a node that can be read without asking a GPU or a framework."""

    hostname: str | None
    os: OsFacts
    cpu: CpuFacts
    memory: MemoryFacts
    container: ContainerFacts | None
    virtualisation: VirtualisationFacts
    variables: Mapping[str, str]


class FrameworkVersions(Frozen):
    """The versions that a framework reports; null for what it does not have.

    ``cudnn`` and ``nccl`` are as the framework gives them (PyTorch: ``"91002"``, ``"2.27.3"``).
    """

    framework: str
    version: str | None
    python: str
    cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None


class PeakQuantity(StrEnum):
    """The quantity of a measured peak."""

    MATRIX_PRODUCT = "matrix-product"
    MEMORY = "memory"


class PeakUnit(StrEnum):
    """The unit of a peak: operations, or bytes that are read and written."""

    OPERATIONS = "FLOP/s"
    BYTES = "bytes/s"


class MeasuredPeak(Frozen):
    """The most that one rank's device did a second: ``rate`` in ``unit``, with values of ``type`` (``bfloat16``).

    ``of`` says what was timed, as the run says it.
    """

    rank: NonNegativeInt
    quantity: PeakQuantity
    rate: PositiveFloat
    unit: PeakUnit
    type: str | None
    of: str | None


class MeasuredPeaks(Frozen):
    """The measured peaks of a node's devices, taken after the window of the manifest's own run.

    ``case_id`` and ``repeat`` name that run; ``precision`` is the one in which it says that it trained: in TF32 a
    product of ``float32`` is TensorFloat-32's.
    """

    measured_by: Literal["this run"] = "this run"
    case_id: str
    repeat: int
    precision: str | None
    peaks: tuple[MeasuredPeak, ...]


class Node(Frozen):
    """One node. A fact that could not be had is null; ``variables`` are those of the allow-list only.

    ``peaks`` are added when a run has ended that measured them. They are null in what results and databases keep of an
    environment, which is the same for many runs.
    """

    hostname: str | None
    collected: AwareDatetime
    os: OsFacts
    cpu: CpuFacts
    memory: MemoryFacts
    accelerators: AcceleratorFacts
    virtualisation: VirtualisationFacts
    container: ContainerFacts | None
    framework: FrameworkVersions | None
    environment_lock: str | None
    git: GitFacts | None
    variables: Mapping[str, str]
    trainmark: str
    peaks: MeasuredPeaks | None = None


class Manifest(Frozen):
    """The nodes of a run, that of rank 0 first. Written as ``manifest.json``."""

    schema_version: Literal[1] = 1
    nodes: tuple[Node, ...]
