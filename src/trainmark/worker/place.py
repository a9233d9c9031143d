"""Which rank this process is: read from the environment variables that torchrun and its like set."""

from __future__ import annotations

import os
from typing import Mapping, NamedTuple, Optional


class Place(NamedTuple):
    """One process among all that train together; ``address`` is None for a process on its own."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    address: Optional[str]
    port: Optional[int]

    @property
    def distributed(self) -> bool:
        """Whether a launcher started this process, even as the only rank."""
        return self.address is not None


def place_from(environment: Mapping[str, str] = os.environ) -> Place:
    """Return the place that ``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``, ``MASTER_ADDR``, … describe.

    Without ``WORLD_SIZE`` the process is alone. Raises ValueError, naming the variable, when a launcher set
    only some of them or a value is no number.
    """
    if "WORLD_SIZE" not in environment:
        return Place(rank=0, world_size=1, local_rank=0, local_world_size=1, address=None, port=None)
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in environment]
    if missing:
        raise ValueError(f"WORLD_SIZE is set, but {', '.join(missing)} is not; set all of them or none")
    rank, world_size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    if not 0 <= rank < world_size:
        raise ValueError(f"RANK is {rank}, but WORLD_SIZE is {world_size}")
    return Place(
        rank=rank,
        world_size=world_size,
        local_rank=_number(environment, "LOCAL_RANK", rank),
        local_world_size=_number(environment, "LOCAL_WORLD_SIZE", world_size),
        address=environment["MASTER_ADDR"],
        port=_number(environment, "MASTER_PORT"),
    )


def _number(environment: Mapping[str, str], name: str, default: Optional[int] = None) -> int:
    if name not in environment and default is not None:
        return default
    try:
        return int(environment[name])
    except ValueError:
        raise ValueError(f"{name} is {environment[name]!r}, not a number") from None
