"""The manifest: the hardware and software of every node when a run was measured; None for unknown facts."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime, Field, NonNegativeInt, PositiveFloat

from trainmark.schema.frozen import Frozen


@dataclass(frozen=True, slots=True)
class OsFacts:
    """The operating system; ``name`` is from ``/etc/os-release``."""

    name: str | None = None
    kernel: str | None = None
    machine: str | None = None


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """The processors of a node, and the CPUs that this process may use.

    ``cores`` are physical ones, ``threads`` logical ones. ``flags`` are the vector extensions that matter for training.
    ``quota_cpus`` is the smallest CPU quota of this process's control group and its parents, in CPUs. ``allowed`` is
    the list of logical CPUs that may be used (``0-3,8``): the intersection of affinity and cpuset. ``pinned`` is that
    list if the affinity (``--cpus``, ``taskset``) leaves out CPUs that the machine, container or job has; else None.
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
    pinned: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """The node's memory, and the smallest limit of this process's control group and its parents, in bytes."""

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
    """The GPUs of a node, their driver, and their interconnect.

    ``topology[i][j]`` is ``X`` for i = j, ``NV<links>``, or the nearest common point on PCIe (``PIX``, ``PXB``,
    ``PHB``, ``NODE``, ``SYS``, as ``nvidia-smi topo -m`` prints them); None if NVML does not report it.
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
    """The facts of a node that can be read without a GPU or a framework."""

    hostname: str | None
    os: OsFacts
    cpu: CpuFacts
    memory: MemoryFacts
    container: ContainerFacts | None
    virtualisation: VirtualisationFacts
    variables: Mapping[str, str]


class FrameworkVersions(Frozen):
    """The versions that a framework reports; null for what it does not have.

    ``cudnn`` and ``nccl`` have the framework's notation (PyTorch: ``"91002"``, ``"2.27.3"``).
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
    """The peak of one rank's device: ``rate`` in ``unit``, with values of ``type`` (``bfloat16``).

    ``of`` names the timed operation, as the run reports it.
    """

    rank: NonNegativeInt
    quantity: PeakQuantity
    rate: PositiveFloat
    unit: PeakUnit
    type: str | None
    of: str | None


class MeasuredPeaks(Frozen):
    """The measured peaks of a node's devices, taken after the window of the manifest's own run.

    ``case_id`` and ``repeat`` name that run; ``precision`` is the one that the run reports: with TF32, a product of
    ``float32`` uses TensorFloat-32.
    """

    measured_by: Literal["this run"] = "this run"
    case_id: str
    repeat: int
    precision: str | None
    peaks: tuple[MeasuredPeak, ...]


class Node(Frozen):
    """One node. Unknown facts are null; ``variables`` are only those of the allow-list.

    ``peaks`` are added after a run that measured them. They are null in results and databases, where many runs share
    one environment.
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
    """The nodes of a run; the first one has rank 0. Written as ``manifest.json``."""

    schema_version: Literal[1] = 1
    nodes: tuple[Node, ...] = Field(min_length=1)
