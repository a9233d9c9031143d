"""The ranks and the scheduler through which MindSpore's processes find each other."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, List, Optional, Sequence

import mindspore as ms
import numpy as np
from mindspore import communication, nn, ops

from ..outcomes import FAILED, RunError
from ..place import Place

BUILD_SECONDS = 300
"""How long the ranks wait for each other at the start."""

SURVIVAL_SECONDS = 60
"""How long the scheduler may outlive rank 0: the ranks tell it good-bye when their processes end, in any order."""

SCHEDULER = "import mindspore; mindspore.set_device('CPU'); mindspore.communication.init()"
"""A process in this role stays in ``init`` until all ranks have left."""

KEEPER = f"""
import os, subprocess, sys
scheduler = subprocess.Popen([sys.executable, "-c", {SCHEDULER!r}], stdin=subprocess.DEVNULL)
os.read(0, 1)
try:
    scheduler.wait({SURVIVAL_SECONDS})
except subprocess.TimeoutExpired:
    scheduler.kill()
"""
"""Starts the scheduler and ends it after rank 0, with which its input ends. A process of its own, because no thread of
Python runs while the scheduler waits in ``init``.
"""


class Ranks:
    """All ranks of the run; every method does the obvious thing when there is no other rank.

    Started as ``msrun`` does it, by the variables of a dynamic cluster: one scheduler at the rendezvous address, and
    every rank with its number (``MS_NODE_ID``). When one is lost, the scheduler notices it after 30 seconds. MindSpore
    then aborts the collectives of the others, which raise, and sends their processes a SIGTERM: what comes first
    decides whether they can still say why. (With ``MS_DISABLE_HEARTBEAT`` ranks crash while they meet.)
    """

    def __init__(self, place: Place) -> None:
        """Meet the other ranks; raise ``RunError`` when MindSpore gives this process another number."""
        self.place = place
        self.backend: Optional[str] = None
        if not place.distributed:
            return
        self.backend = "mccl"
        os.environ.update(
            MS_WORKER_NUM=str(place.world_size),
            MS_SCHED_HOST=place.address_of(0),
            MS_SCHED_PORT=str(place.port),
            MS_TOPO_TIMEOUT=str(BUILD_SECONDS),
            MS_NODE_ID=str(place.rank),
            MS_WORKER_IP=place.address_of(place.rank),
        )
        if place.rank == 0:
            # Kept, because its input is closed with the last reference.
            self._keeper = _start_scheduler()
        os.environ["MS_ROLE"] = "MS_WORKER"
        communication.init()
        given = communication.get_rank()
        if given != place.rank:
            raise RunError(FAILED, f"MindSpore made rank {place.rank} its rank {given}")
        ms.set_auto_parallel_context(
            parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True, device_num=place.world_size
        )

    def reducer(self, parameters: Sequence[ms.Parameter]) -> nn.Cell:
        """Return the cell that maps this rank's gradients to their means over the ranks."""
        if self.backend is None:
            return nn.Identity()
        return nn.DistributedGradReducer(parameters)

    def barrier(self) -> None:
        """Wait for every rank. (MindSpore's own barrier does not exist for CPUs.)"""
        if self.backend is not None:
            self.mean(np.zeros(1, np.float32))

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return the 64-bit values of every rank, by rank."""
        if self.backend is None:
            return [list(values)]
        # In halves: for CPUs MindSpore takes int64 here, and cuts it to 32 bits.
        halves = np.array(values, np.int64).view(np.int32)
        parts = ops.AllGather()(ms.Tensor(halves)).asnumpy().view(np.int64)
        return [[int(value) for value in part] for part in parts.reshape(self.place.world_size, -1)]

    def mean(self, values: Any) -> Any:
        """Return the mean over the ranks of a float32 array, element by element."""
        if self.backend is None:
            return values
        return ops.AllReduce()(ms.Tensor(values)).asnumpy() / self.place.world_size

    def leave(self) -> None:
        """Leave together; the scheduler ends by itself when the processes of all ranks have ended."""
        if self.backend is not None:
            self.barrier()
            communication.release()


def _start_scheduler() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", KEEPER],
        env={**os.environ, "MS_ROLE": "MS_SCHED"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
