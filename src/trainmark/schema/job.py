"""Batch jobs that measure a whole suite: settings, and the job as submitted to a cluster's queue."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Self

from pydantic import Field, PositiveInt, StringConstraints, model_validator

from trainmark.schema.frozen import Frozen

JobName = Annotated[str, StringConstraints(pattern=r"^[a-z](?:[-a-z0-9]*[a-z0-9])?$", max_length=50)]
"""A name that is a host's name too, with what Kubeflow puts behind it (RFC 1035: 63 signs)."""

Quantity = Annotated[str, StringConstraints(pattern=r"^\d+(?:\.\d+)?(?:m|[kMGTPE]|[KMGTPE]i)?$")]
"""An amount as Kubernetes writes it: ``500m``, ``8``, ``16Gi``."""

ResourceName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?$", max_length=120)
]
"""What a device plugin offers: ``nvidia.com/gpu``, ``rdma/hca``."""

LabelKey = Annotated[
    str, StringConstraints(pattern=r"^(?:[a-z0-9.-]+/)?[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?$", max_length=120)
]
Label = Annotated[str, StringConstraints(pattern=r"^(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?$", max_length=63)]
ClaimName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?$", max_length=120)]
ImageReference = Annotated[str, StringConstraints(pattern=r"^[^\s-]\S*$", max_length=300)]
SlurmOption = Annotated[str, StringConstraints(pattern=r"^--?[A-Za-z][-\w]*(?:[= ][^\n]*)?$")]


class JobKind(StrEnum):
    """The kind of job: a Slurm script, or a manifest of Kubeflow's Trainer (v2) or MPI Operator (v2beta1)."""

    SBATCH = "sbatch"
    TRAINJOB = "trainjob"
    MPIJOB = "mpijob"


class SlurmJob(Frozen):
    """Further options for ``sbatch``, as on its command line: ``--partition=gpu``."""

    options: tuple[SlurmOption, ...] = ()


class KubernetesJob(Frozen):
    """The pods of a job.

    ``image`` has trainmark, the frameworks' environments, OpenMPI and an sshd that lets in whom the operator's key lets
    in. ``claims`` are PersistentVolumeClaims by the folder at which every pod has them. ``shared_memory`` bounds
    ``/dev/shm``, which otherwise has 64 MiB. ``host_network`` takes the host's network in place of a pod's own.
    ``rdma`` are devices for each pod, and with them the right to lock memory. ``gpu`` is how the cluster calls a GPU;
    ``cpus`` and ``memory`` are given to each pod that trains. ``node_labels`` choose the cluster's nodes;
    ``tolerations`` are the keys of taints that do not matter. ``user`` is the user id in the pods, root by default,
    whose keys lie in ``ssh_folder``. Where ``ssh_port`` is given nothing is started before sshd listens on it.
    """

    image: ImageReference
    namespace: ClaimName | None = None
    claims: Mapping[ClaimName, PurePosixPath] = Field(default_factory=dict)
    shared_memory: Quantity | None = None
    host_network: bool = False
    rdma: Mapping[ResourceName, PositiveInt] = Field(default_factory=dict)
    gpu: ResourceName = "nvidia.com/gpu"
    cpus: Quantity | None = None
    memory: Quantity | None = None
    node_labels: Mapping[LabelKey, Label] = Field(default_factory=dict)
    tolerations: tuple[LabelKey, ...] = ()
    user: Annotated[int, Field(ge=0)] = 0
    sshd: Annotated[tuple[str, ...], Field(min_length=1)] = ("/usr/sbin/sshd", "-De")
    ssh_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    ssh_folder: PurePosixPath = PurePosixPath("/root/.ssh")


class JobSettings(Frozen):
    """The section ``job`` of a hosts file.

    ``name`` is the suite's by default. ``out`` is the directory of the results and ``python`` the interpreter that
    trainmark is installed in, both as the hosts of the job have them. After ``time_limit_s`` seconds the queue ends the
    job. It is started again at most ``restarts`` times, and goes on where it was.
    """

    name: JobName | None = None
    out: PurePosixPath
    python: PurePosixPath | None = None
    time_limit_s: Annotated[int, Field(ge=600)] | None = None
    restarts: Annotated[int, Field(ge=0, le=100)] = 3
    slurm: SlurmJob = SlurmJob()
    kubernetes: KubernetesJob | None = None

    @model_validator(mode="after")
    def _results_stay(self) -> Self:
        if any(sign.isspace() or not sign.isprintable() for sign in str(self.out)):
            raise ValueError(
                "out contains whitespace or a control character, which a job's options cannot have"
            )
        if not self.out.is_absolute():
            raise ValueError(
                f"out ({self.out}) must be an absolute path: the job's hosts have no folder of yours"
            )
        pods = self.kubernetes
        if pods is not None and not any(self.out.is_relative_to(path) for path in pods.claims.values()):
            raise ValueError(
                f"out ({self.out}) is in none of kubernetes.claims, so the results would be lost with the pod"
            )
        for path in () if pods is None else pods.claims.values():
            if not path.is_absolute() or ":" in str(path):
                raise ValueError(f"kubernetes.claims: {path} must be an absolute path without ':'")
        return self


class Job(Frozen):
    """One job: the suite's cases that it measures, on so many hosts with so many devices each.

    ``suite`` is what the suite's file says and ``files`` the cards beside it, by the path that the suite gives them;
    ``suite_path`` is where that file lies here. ``only`` selects cases as ``--only`` does. ``gpus`` are those of each
    host, ``hosts`` the names of those that may be taken, none for any; ``hosts_file`` is where they are listed.
    """

    name: JobName
    suite: str
    suite_path: str
    files: Mapping[str, str]
    only: str | None
    nodes: PositiveInt
    devices_per_node: PositiveInt
    gpus: Annotated[int, Field(ge=0)]
    hosts: tuple[str, ...]
    hosts_file: str
    settings: JobSettings
