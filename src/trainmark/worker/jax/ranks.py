"""The ranks as one mesh of devices: gloo between CPUs, NCCL between GPUs, both called by XLA's programs."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import threading
import time
from typing import Any, List, Sequence

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from ..core.outcomes import FAILED, RunError
from ..core.place import Place
from ..core.ranks import Ranks
from .device import CPU

RANKS = "ranks"
"""The mesh axis over which the batch is split."""

LOST_AFTER_S = 20
"""After how long without a sign of life JAX's own service gives a rank up, where no collective noticed it before."""

_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)
_KEPT: List[Any] = []
"""The handler that C may call as long as the process lives."""


def meet(place: Place, platform: str) -> None:
    """Meet the other ranks at the place's address, if a launcher gave one; JAX must not have started."""
    if not place.distributed:
        return
    if platform == CPU:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    assert place.address is not None
    assert place.port is not None
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
    if place.rank != 0:
        _tell_of_a_lost_service(place.address, place.port)


def _tell_of_a_lost_service(address: str, port: int) -> None:
    """From now on an abort of this process is told as a lost rank 0 where nobody answers at its address any more.

    JAX's client aborts the process as soon as the service's connection ends, often before gloo has noticed anything,
    and takes no other callback from Python (jaxlib 0.10.2 cannot pass it the status). Any other abort is left to
    whoever would have had it, such as Python's handler that shows where the process is.
    """
    set_handler = ctypes.CDLL(None).signal
    set_handler.restype, set_handler.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)

    def told(number: int) -> None:
        try:
            socket.create_connection((address, port), timeout=1).close()
        except OSError:
            threading.Thread(target=_lost, name="lost-service").start()
            time.sleep(LOST_AFTER_S)
        else:
            set_handler(number, before)
            # It arrives when this has returned, so that nothing of it stands in what is shown.
            signal.pthread_kill(threading.get_ident(), number)

    handler = _HANDLER(told)
    _KEPT.append(handler)
    before = set_handler(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))


def _lost() -> None:
    # What a thread raises ends the run; in the handler it would be lost.
    raise RunError(FAILED, "lost contact with another rank: JAX's service has ended", peer_lost=True)


class Group(Ranks):
    """One device of each rank, in the order of the ranks; every method does the obvious thing for a single one."""

    def __init__(self, place: Place, platform: str) -> None:
        """Make the mesh, and pass the barrier once, so that it is compiled before anything is timed."""
        super().__init__(place)
        if place.distributed:
            self.backend = "gloo" if platform == CPU else "nccl"
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

    def whole(self, tree: Any) -> Any:
        """Return global arrays that are alike on every rank, of a tree of this rank's."""
        if self.alone:
            return jax.device_put(tree)
        return jax.tree.map(lambda own: jax.make_array_from_process_local_data(self.shared, own), tree)

    def parts(self, tree: Any) -> Any:
        """Return global arrays with a first axis for the ranks, of a tree of this rank's; alone, without the axis."""
        return jax.device_put(tree) if self.alone else jax.tree.map(lambda own: self.part(own[None]), tree)

    def own_whole(self, tree: Any) -> Any:
        """Return this rank's copies of what is alike on every rank."""
        return jax.tree.map(lambda array: np.array(array.addressable_data(0)), tree)

    def own_part(self, tree: Any) -> Any:
        """Return this rank's of arrays with a first axis for the ranks; alone, there is no such axis."""
        own = self.own_whole(tree)
        return own if self.alone else jax.tree.map(lambda array: array[0], own)

    def counted(self) -> int:
        """Return the processes that JAX has met."""
        return int(jax.process_count())

    def barrier(self) -> None:
        """Wait for every rank."""
        self.gather([0])

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return the 64-bit values of every rank, by rank; as halves, because JAX has no 64 bits by default."""
        if self.alone:
            return super().gather(values)
        halves = np.array([values], np.int64).view(np.uint32)
        return np.ascontiguousarray(self._show(self.part(halves))).view(np.int64).tolist()

    def leave(self) -> None:
        """End together: the service must outlive the last rank that talks to it."""
        if self.place.distributed:
            self.barrier()
            jax.distributed.shutdown()
