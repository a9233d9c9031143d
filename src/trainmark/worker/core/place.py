"""The rank of this process, read from the variables that torchrun and others set, and the ranks of a run.

The base class of ranks is for a single one; frameworks subclass it for several.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

NODES = "TRAINMARK_NODES"  # the variable with all nodes' addresses, separated by commas
RESERVED_PORTS = 4  # from the rendezvous on, those that are no rank's


class Place(NamedTuple):
    """One process among all that train together."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    address: str | None  # of the rendezvous; None for a process on its own
    port: int | None
    nodes: tuple[str, ...] = ()  # the address of each node, by node rank; empty when all ranks are on one

    def address_of(self, rank: int) -> str:
        """Return the address at which a rank can be reached; ranks are numbered node by node."""
        assert self.address is not None
        return self.nodes[rank // self.local_world_size] if self.nodes else self.address

    def numeric_address_of(self, rank: int) -> str:
        """Return a rank's IPv4 address in numbers, for the frameworks that look no name up.

        A host's own name leads to its loopback on many; then it is the address from which another node is reached.
        Raises OSError for an unknown name.
        """
        name = self.address_of(rank)
        address, others = socket.gethostbyname(name), [node for node in self.nodes if node != name]
        if not address.startswith("127.") or not others:
            return address
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Nothing is sent: this asks the routing table alone.
            probe.connect((others[0], 9))
            return str(probe.getsockname()[0])

    def endpoints(self) -> list[str]:
        """Return each rank's own address and port, behind those that schedulers and servers use, by rank."""
        assert self.port is not None
        first = self.port + RESERVED_PORTS
        return [f"{self.address_of(rank)}:{first + rank}" for rank in range(self.world_size)]

    @property
    def distributed(self) -> bool:
        """Return whether a launcher started this process, even as the only rank."""
        return self.address is not None


def place_from(environment: Mapping[str, str] = os.environ) -> Place:
    """Return the place that ``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``, ``MASTER_ADDR``, … describe.

    Without ``WORLD_SIZE`` its place is what OpenMPI's ``OMPI_COMM_WORLD_RANK``, … say, and without these it is alone.
    Raises ValueError, naming the variable, when a launcher set only some of them or a value is no number.
    """
    if "WORLD_SIZE" not in environment:
        if int(environment.get("OMPI_COMM_WORLD_SIZE", "1")) < 2:
            return Place(0, 1, 0, 1, address=None, port=None)
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        own = {name: environment["OMPI_COMM_WORLD_" + name.replace("WORLD_SIZE", "SIZE")] for name in names}
        environment = {**environment, **own}
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in environment]
    if missing:
        raise ValueError(f"WORLD_SIZE is set, but {', '.join(missing)} is not; set all of them or none")
    rank, world_size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    if not 0 <= rank < world_size:
        raise ValueError(f"RANK is {rank}, but WORLD_SIZE is {world_size}")
    of_node = _number(environment, "LOCAL_WORLD_SIZE", world_size)
    nodes = tuple(name for name in environment.get(NODES, "").split(",") if name)
    if nodes and len(nodes) * of_node != world_size:
        named = f"{NODES} names {len(nodes)} nodes of {of_node} ranks"
        raise ValueError(f"{named}, but WORLD_SIZE is {world_size}")
    local_rank, port = _number(environment, "LOCAL_RANK", rank), _number(environment, "MASTER_PORT")
    return Place(rank, world_size, local_rank, of_node, environment["MASTER_ADDR"], port, nodes)


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    if name not in environment and default is not None:
        return default
    try:
        return int(environment[name])
    except ValueError:
        raise ValueError(f"{name} is {environment[name]!r}, not a number") from None


class Ranks:
    """A single rank; for several ranks, subclasses use a framework's collectives for the same methods."""

    backend: str | None = None  # the name of the ranks' collectives; None for a single rank

    def __init__(self, place: Place) -> None:
        self.place = place

    def counted(self) -> int:
        """Return the framework's own number of ranks."""
        return 1

    def barrier(self) -> None:
        """Wait for every rank."""
        self.gather([0])

    def gather(self, values: Sequence[int]) -> list[list[int]]:
        """Return every rank's 64-bit values, by rank. All ranks must call it."""
        return [list(values)] if self.backend is None else self.all_gather(values)

    def all_gather(self, values: Sequence[int]) -> list[list[int]]:
        """Return what ``gather`` does, by the framework's collectives."""
        raise NotImplementedError

    def leave(self) -> None:
        """Leave at the same time, because a rank that leaves early would look lost to the others."""
