"""Batch jobs that measure a whole suite: settings, and the job as submitted to a cluster's queue."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Self

from pydantic import Field, PositiveInt, StringConstraints, model_validator

from trainmark.schema.frozen import Frozen

JobName = Annotated[str, StringConstraints(pattern=r"^[a-z](?:[-a-z0-9]*[a-z0-9])?$", max_length=50)]
"""A name that is also a valid host name after Kubeflow has added its suffix (RFC 1035: 63 characters)."""

Quantity = Annotated[str, StringConstraints(pattern=r"^\d+(?:\.\d+)?(?:m|[kMGTPE]|[KMGTPE]i)?$")]
"""A Kubernetes quantity: ``500m``, ``8``, ``16Gi``."""

ResourceName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?$", max_length=120)
]
"""A device plugin's resource: ``nvidia.com/gpu``, ``rdma/hca``."""

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

    ``image`` has trainmark, the frameworks' environments, OpenMPI, and an sshd that accepts the operator's key.
    ``claims`` maps mount folders, the same in every pod, to PersistentVolumeClaims. ``shared_memory`` is the size limit
    of ``/dev/shm`` (64 MiB without it). ``host_network`` uses the host's network instead of a pod network.
    ``rdma`` are the RDMA devices of each pod, which may then lock memory. ``gpu`` is the resource name of a GPU in the
    cluster; every pod that trains gets ``cpus`` and ``memory``. ``node_labels`` select the cluster's nodes;
    ``tolerations`` are the keys of taints to tolerate. ``user`` is the user id in the pods (default: root), whose SSH
    keys are in ``ssh_folder``. With ``ssh_port``, nothing starts before sshd listens on that port.
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


_OPTIONS_OF_SBATCH = ("partition", "account", "qos", "constraint", "reservation", "gres", "mail-user")


class JobSettings(Frozen):
    """The section ``job`` of a hosts file.

    ``name`` defaults to the suite's name. ``out`` (the results) and ``python`` (the interpreter that has trainmark) are
    paths on the job's hosts. The queue ends the job after ``time_limit_s`` seconds; it is restarted at most
    ``restarts`` times and resumes its work. ``gpus`` are requested for each host, by default one for each device of a
    case that may use them; 0 for a program that computes on the CPU without saying so.
    """

    name: JobName | None = None
    out: PurePosixPath
    python: PurePosixPath | None = None
    time_limit_s: Annotated[int, Field(ge=600)] | None = None
    restarts: Annotated[int, Field(ge=0, le=100)] = 3
    gpus: Annotated[int, Field(ge=0, le=64)] | None = None
    slurm: SlurmJob = SlurmJob()
    kubernetes: KubernetesJob | None = None

    @model_validator(mode="before")
    @classmethod
    def _options_of_sbatch(cls, values: Any) -> Any:
        """Refuse an option of sbatch as a key, with its place."""
        for name in _OPTIONS_OF_SBATCH:
            if isinstance(values, Mapping) and name in values:
                raise ValueError(
                    f"'{name}' is an option of sbatch: write slurm: {{options: [--{name}={values[name]}]}}"
                )
        return values

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
    """One job: the cases of a suite that it measures, and its number of hosts and of devices per host.

    ``suite`` is the content of the suite's file, whose path on this machine is ``suite_path``. ``files`` has its cards
    by the path that the suite uses for them. ``only`` selects cases like ``--only``. ``gpus`` is the number of GPUs per
    host. ``hosts`` are the names of the hosts that may be used (empty: any), ``hosts_file`` is the file that lists
    them.
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
