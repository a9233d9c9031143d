"""The hosts of a campaign: addresses, settings, and the engine that reaches them."""

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
"""One word of a command line that is not an option, so that a host's name is never read as a flag."""


Value = Annotated[str, Field(coerce_numbers_to_str=True, pattern=r"^[^\n]+$")]

VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


OF_THE_HOST = ("PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "TRAINMARK_HOME")
"""Variables that name folders of the host; containers do not get them."""


class EngineName(StrEnum):
    """The program that starts the agent on a host; the launcher starts the ranks."""

    SSH = "ssh"
    """The system's ``ssh`` with its configuration."""
    SLURM = "slurm"
    """``srun``, inside an allocation."""
    MPI = "mpi"
    """OpenMPI's ``mpirun``, with its own remote shell."""


_FILLS_A_HOST = (
    r"^(slot|hwthread|core|l[123]cache|numa|socket|package|board|ppr:[0-9]+:[a-z0-9]+)(:(PE|pe)=[0-9]+)?$"
)


def _node_by_node(words: str) -> str:
    if not re.match(_FILLS_A_HOST, words):
        raise ValueError("ranks must fill one host after the other (slot, core, socket, numa, ppr:N:…)")
    return words


NodeByNode = Annotated[Word, AfterValidator(_node_by_node)]
"""A mapping of ranks that fills one host after the other, so that a rank's number determines its host."""


class MpirunOptions(Frozen):
    """The options of ``mpirun`` for starting ranks: MCA parameters, binding and mapping.

    Unbound by default, because OpenMPI would bind each rank, including its loader's threads, to one core or socket.
    """

    mca: Mapping[Word, Value] = Field(default_factory=dict)
    bind_to: Word = "none"
    map_by: NodeByNode = "slot"


class Traffic(Frozen):
    """The network settings for ranks on several hosts.

    ``mpirun`` uses ``ssh`` with ``user`` and ``port`` between hosts. ``variables`` are set for all ranks, also in
    containers.
    """

    rdma: bool = False
    mpirun: MpirunOptions = MpirunOptions()
    user: Word | None = None
    port: int | None = None
    variables: Mapping[VariableName, str] = Field(default_factory=dict)


PLAIN = Traffic()


class HostEntry(Frozen):
    """One host.

    ``slots`` is the maximum number of devices to use (default: all). ``interface`` is the network interface for the
    ranks' traffic (default: the one with ``address``). ``python`` is the interpreter on the host that has trainmark.
    Runs are in ``folder`` (default: the same path as here); ``paths`` maps local folders to their paths on the host,
    ``variables`` are set for its processes. With ``rdma``, containers of runs on several hosts get the host's RDMA
    devices; ``mpirun`` has further options.
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
        """The network settings of its ranks."""
        variables = {name: value for name, value in self.variables.items() if name not in OF_THE_HOST}
        return Traffic(
            rdma=self.rdma, mpirun=self.mpirun, user=self.user, port=self.port, variables=variables
        )


class SshSettings(Frozen):
    """Further settings of ``ssh``: a configuration file, and options as on its command line."""

    config: Path | None = None
    options: tuple[str, ...] = ()


class HostSet(Frozen):
    """The hosts that a campaign may use, in the order in which nodes take them."""

    hosts: Annotated[tuple[HostEntry, ...], Field(min_length=1)]
    engine: EngineName = EngineName.SSH
    ssh: SshSettings = SshSettings()
