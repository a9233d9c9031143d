"""The ranks as one mesh of devices: gloo between CPUs, NCCL between GPUs, both called by XLA's programs."""

from __future__ import annotations

import os
from typing import Any, List, Sequence

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from ..place import Place
from .device import CPU
from .state import RANKS

LOST_AFTER_S = 20
"""After how long without a sign of life JAX's own service gives a rank up, where no collective noticed it before."""


def meet(place: Place, platform: str) -> None:
    """Meet the other ranks at the place's address, if a launcher gave one; JAX must not have started."""
    if not place.distributed:
        return
    if platform == CPU:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    assert place.address is not None
    # The ranks reach each other directly, whatever proxy is set for the world outside.
    os.environ.setdefault("no_grpc_proxy", place.address)
    jax.config.update("jax_check_proxy_envs", False)
    service = f"{place.address}:{place.port}"
    loopback = place.address in ("127.0.0.1", "localhost")
    jax.distributed.initialize(
        service,
        num_processes=place.world_size,
        process_id=place.rank,
        cluster_detection_method="deactivate",
        coordinator_bind_address=service if loopback else None,
        heartbeat_timeout_seconds=LOST_AFTER_S,
    )


class Ranks:
    """One device of each rank, in the order of the ranks; every method does the obvious thing for a single one."""

    def __init__(self, place: Place, platform: str) -> None:
        """Make the mesh, and pass the barrier once, so that it is compiled before anything is timed."""
        self.place = place
        self.backend = None if not place.distributed else "gloo" if platform == CPU else "nccl"
        self.alone = place.world_size == 1
        devices = jax.local_devices()[:1] if self.alone else jax.devices()
        assert len(devices) == place.world_size, f"{len(devices)} devices for {place.world_size} ranks"
        self.mesh = Mesh(np.array(devices), (RANKS,))
        self.shared = NamedSharding(self.mesh, P())
        """Whole on every rank."""
        self.split = NamedSharding(self.mesh, P(RANKS))
        """The first axis is divided among the ranks."""
        self._show = jax.jit(lambda values: values, out_shardings=self.shared)
        self.barrier()

    def part(self, own: Any) -> Any:
        """Return the global array of which this rank has ``own``; the copy to the device may still be under way."""
        return jax.make_array_from_process_local_data(self.split, own)

    def barrier(self) -> None:
        """Wait for every rank."""
        self._all(np.zeros(1, np.uint32))

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return the 64-bit values of every rank, by rank; as halves, because JAX has no 64 bits by default."""
        halves = np.array(values, np.int64).view(np.uint32)
        return [row.tolist() for row in self._all(halves).view(np.int64)]

    def mean(self, values: Any) -> Any:
        """Return the mean over the ranks of an array (n,) in float32, element by element in float64."""
        return self._all(np.asarray(values, np.float32)).astype(np.float64).mean(0)

    def _all(self, own: Any) -> Any:
        """Return (ranks, n): every rank's array (n,)."""
        if self.alone:
            return own[None]
        return np.ascontiguousarray(self._show(self.part(own[None])))

    def leave(self) -> None:
        """End together: the service must outlive the last rank that talks to it."""
        if self.place.distributed:
            self.barrier()
            jax.distributed.shutdown()
