"""The ranks of MindSpore: a dynamic cluster, and the scheduler through which its processes find each other."""

import os
import subprocess
import sys
from collections.abc import Sequence

import mindspore as ms
from mindspore import communication, nn

from ...core.outcomes import FAILED, RunError
from ...core.peers import Peers
from ...core.place import Place

MEET_S = 300  # the time that the ranks wait for each other at the start, in seconds
SURVIVAL_S = 60  # the time that the scheduler may outlive rank 0: the processes of the ranks end in any order
# A process in this role stays in ``init`` until all ranks have left.
SCHEDULER = "import mindspore; mindspore.set_device('CPU'); mindspore.communication.init()"

# Start the scheduler, and end it after rank 0, with which the input ends. It is a separate process, because no thread
# of Python runs while the scheduler waits in ``init``.
SUPERVISOR = f"""
import os, subprocess, sys
scheduler = subprocess.Popen([sys.executable, "-c", {SCHEDULER!r}], stdin=subprocess.DEVNULL)
os.read(0, 1)
try:
    scheduler.wait({SURVIVAL_S})
except subprocess.TimeoutExpired:
    scheduler.kill()
"""


class Cluster(Peers):
    """All ranks of the run, if a launcher started this one.

    They start as with ``msrun``, by the variables of a dynamic cluster: one scheduler at the rendezvous address, and a
    number for each rank (``MS_NODE_ID``). MindSpore resolves no host names. It notices a lost rank only after
    30 seconds, and may then end the others by SIGTERM without a reason; the connections of ``Peers`` report it at once.
    ``Peers`` exchanges the numbers too: MindSpore's AllGather for CPUs cuts them to 32 bits, and it has no Barrier.
    """

    def __init__(self, place: Place) -> None:
        """Meet the other ranks; raise ``RunError`` if MindSpore gives this process another number."""
        if place.distributed:
            self._meet(place)
        super().__init__(place, _end)
        self.backend = "mccl" if place.distributed else None

    def _meet(self, place: Place) -> None:
        os.environ.update(
            MS_WORKER_NUM=str(place.world_size),
            MS_SCHED_HOST=place.numeric_address_of(0),
            MS_SCHED_PORT=str(place.port),
            MS_TOPO_TIMEOUT=str(MEET_S),
            MS_NODE_ID=str(place.rank),
            MS_WORKER_IP=place.numeric_address_of(place.rank),
        )
        if place.rank == 0:
            environment = {**os.environ, "MS_ROLE": "MS_SCHED"}
            command, quiet = [sys.executable, "-c", SUPERVISOR], subprocess.DEVNULL
            # The last reference closes its input.
            self._supervisor = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet
            )
        os.environ["MS_ROLE"] = "MS_WORKER"
        communication.init()
        given = communication.get_rank()
        if given != place.rank:
            raise RunError(FAILED, f"MindSpore made rank {place.rank} its rank {given}")
        ms.set_auto_parallel_context(
            parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True, device_num=place.world_size
        )

    def counted(self) -> int:
        return 1 if self.backend is None else int(communication.get_group_size())

    def reducer(self, parameters: Sequence[ms.Parameter]) -> nn.Cell:
        """Return the cell that maps this rank's gradients to their means over the ranks."""
        if self.backend is None:
            return nn.Identity()
        return nn.DistributedGradReducer(parameters)

    def leave(self) -> None:
        """Leave at the same time; the scheduler ends when the processes of all ranks have ended."""
        super().leave()
        if self.backend is not None:
            communication.release()


def _end(lost: RunError) -> None:
    """End the run from the thread that noticed the loss: the main one may be waiting in MindSpore's collective."""
    raise lost
