"""The hosts of a campaign: where each is reached, what it is given, and by which engine."""

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from trainmark.schema.frozen import Frozen

LOCALHOST = "localhost"
"""The machine on which trainmark itself runs, without an agent."""

Word = Annotated[str, StringConstraints(pattern=r"^[^\s-]\S*$")]
"""What is one word of a command line and no option of it: a host's name is never read as a flag."""


Value = Annotated[str, Field(coerce_numbers_to_str=True, pattern=r"^[^\n]+$")]

VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


OF_THE_HOST = ("PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "TRAINMARK_HOME")
"""Variables that name the host's own folders: none of a container's."""


class EngineName(StrEnum):
    """What starts the agent on a host; how the ranks are started there is the launcher's matter."""

    SSH = "ssh"
    """The system's ``ssh`` with its configuration."""
    SLURM = "slurm"
    """``srun``, inside an allocation."""
    MPI = "mpi"
    """OpenMPI's ``mpirun``, by the way that it reaches hosts itself."""


_FILLS_A_HOST = (
    r"^(slot|hwthread|core|l[123]cache|numa|socket|package|board|ppr:[0-9]+:[a-z0-9]+)(:(PE|pe)=[0-9]+)?$"
)


def _node_by_node(words: str) -> str:
    if not re.match(_FILLS_A_HOST, words):
        raise ValueError("ranks must fill one host after the other (slot, core, socket, numa, ppr:N:…)")
    return words


NodeByNode = Annotated[Word, AfterValidator(_node_by_node)]
"""A way of mapping ranks that fills one host after the other: a rank's host is known by its number everywhere."""


class MpirunOptions(Frozen):
    """What ``mpirun`` is told when it starts ranks: OpenMPI's MCA parameters, what ranks are bound to and mapped by.

    Unbound by default: OpenMPI would give each rank, its loader's threads with it, one core or socket.
    """

    mca: Mapping[Word, Value] = Field(default_factory=dict)
    bind_to: Word = "none"
    map_by: NodeByNode = "slot"


class Traffic(Frozen):
    """How the ranks of several hosts reach each other: over RDMA too, and as ``mpirun`` is told.

    ``user`` and ``port`` are those of ``ssh``, by which ``mpirun`` itself goes from host to host. ``variables`` are
    what ranks find in their environment wherever they are started, in a container too.
    """

    rdma: bool = False
    mpirun: MpirunOptions = MpirunOptions()
    user: Word | None = None
    port: int | None = None
    variables: Mapping[VariableName, str] = Field(default_factory=dict)


PLAIN = Traffic()


class HostEntry(Frozen):
    """One host.

    ``slots`` are how many devices it gives at most; all that it has where nothing is said. ``interface`` is the
    network interface of the ranks' own traffic; without it that which has ``address``. ``python`` is the interpreter
    that trainmark is installed in there. Runs lie in ``folder``, or without it under the path that they have here;
    ``paths`` are folders that have another path there (here: there), ``variables`` what its processes are to find in
    their environment. With ``rdma`` the containers of runs on several hosts are given the host's RDMA devices;
    ``mpirun`` is what that is told besides.
    """

    name: Word
    address: Word | None = None
    slots: Annotated[int, Field(ge=1)] | None = None
    user: Word | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    interface: Word | None = None
    python: Path | None = None
    folder: Path | None = None
    paths: Mapping[Path, Path] = Field(default_factory=dict)
    variables: Mapping[VariableName, str] = Field(default_factory=dict)
    labels: Mapping[str, str] = Field(default_factory=dict)
    rdma: bool = False
    mpirun: MpirunOptions = MpirunOptions()

    @property
    def reached_at(self) -> str:
        """Its address, or its name."""
        return self.address or self.name

    @property
    def traffic(self) -> Traffic:
        """How its ranks reach those of others."""
        variables = {name: value for name, value in self.variables.items() if name not in OF_THE_HOST}
        return Traffic(
            rdma=self.rdma, mpirun=self.mpirun, user=self.user, port=self.port, variables=variables
        )


class SshSettings(Frozen):
    """What ``ssh`` is told besides: a configuration file, and options as on its command line."""

    config: Path | None = None
    options: tuple[str, ...] = ()


class HostSet(Frozen):
    """The hosts that a campaign may use, in the order in which nodes take them."""

    hosts: Annotated[tuple[HostEntry, ...], Field(min_length=1)]
    engine: EngineName = EngineName.SSH
    ssh: SshSettings = SshSettings()
