"""The ranks and the scheduler through which MindSpore's processes find each other."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Sequence

import mindspore as ms
from mindspore import communication, nn

from ..core.outcomes import FAILED, RunError
from ..core.peers import Peers
from ..core.place import Place

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


class Cluster(Peers):
    """All ranks of the run, if a launcher started this one.

    Started as ``msrun`` does it, by the variables of a dynamic cluster: one scheduler at the rendezvous address, and
    every rank with its number (``MS_NODE_ID``). It looks no name up, and waits in vain where one stands for an address.
    A lost rank it notices after 30 seconds only, and may then end the others by SIGTERM before they can say why; a
    connection of our own tells it at once. Whole numbers go through it as well: for CPUs MindSpore's AllGather cuts
    them to 32 bits, and its Barrier does not exist.
    """

    def __init__(self, place: Place) -> None:
        """Meet the other ranks; raise ``RunError`` when MindSpore gives this process another number."""
        if place.distributed:
            self._meet(place)
        super().__init__(place, _end)
        self.backend = "mccl" if place.distributed else None

    def _meet(self, place: Place) -> None:
        os.environ.update(
            MS_WORKER_NUM=str(place.world_size),
            MS_SCHED_HOST=place.numeric_address_of(0),
            MS_SCHED_PORT=str(place.port),
            MS_TOPO_TIMEOUT=str(BUILD_SECONDS),
            MS_NODE_ID=str(place.rank),
            MS_WORKER_IP=place.numeric_address_of(place.rank),
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

    def counted(self) -> int:
        """Return the ranks of MindSpore's own group."""
        return 1 if self.backend is None else int(communication.get_group_size())

    def reducer(self, parameters: Sequence[ms.Parameter]) -> nn.Cell:
        """Return the cell that maps this rank's gradients to their means over the ranks."""
        if self.backend is None:
            return nn.Identity()
        return nn.DistributedGradReducer(parameters)

    def leave(self) -> None:
        """Leave together; the scheduler ends by itself when the processes of all ranks have ended."""
        super().leave()
        if self.backend is not None:
            communication.release()


def _end(lost: RunError) -> None:
    """End the run from the thread that noticed the loss: the main one may be waiting in MindSpore's collective."""
    raise lost


def _start_scheduler() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", KEEPER],
        env={**os.environ, "MS_ROLE": "MS_SCHED"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
