"""All ranks of the run: MultiWorkerMirroredStrategy, one replica a process."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Callable, List, Sequence

import tensorflow as tf

from ..core.place import Place
from ..core.ranks import Ranks
from .device import Device

ROLE = "worker"


class Group(Ranks):
    """The ranks; every method does the obvious thing when there is no other one.

    Ring all-reduce over gRPC between CPUs, NCCL between GPUs.
    """

    def __init__(self, place: Place, device: Device) -> None:
        """Meet the other ranks, if there are any: nothing may have been computed in this process before."""
        super().__init__(place)
        self._strategy: Any = None
        if place.world_size == 1:
            return
        self.backend = "ring" if device.gpu is None else "nccl"
        kinds = tf.distribute.experimental.CommunicationImplementation
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=_cluster(place),
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=kinds.RING if device.gpu is None else kinds.NCCL
            ),
        )

    def scope(self) -> "AbstractContextManager[Any]":
        """Return the context in which variables are made: they start as rank 0's."""
        return nullcontext() if self._strategy is None else self._strategy.scope()

    def run(self, replica: Callable[..., Any], *arguments: Any) -> Any:
        """Call ``replica`` as this rank's part of what all ranks do."""
        return replica(*arguments) if self._strategy is None else self._strategy.run(replica, arguments)

    def total(self, values: List[Any], pack_bytes: int) -> List[Any]:
        """Return the sums over the ranks, in packs of ``pack_bytes`` (0: in one); only within ``run``."""
        if self._strategy is None:
            return values
        # Said here: the strategy's own options do not reach this call.
        packs = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=pack_bytes)
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values, packs)

    def counted(self) -> int:
        """Return the replicas that the strategy keeps in step."""
        return 1 if self._strategy is None else int(self._strategy.num_replicas_in_sync)

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return the 64-bit values of every rank, by rank."""
        if self._strategy is None:
            return super().gather(values)
        own = tf.constant([list(values)], tf.int64)
        together = self._strategy

        def gathered() -> Any:
            return together.run(lambda: tf.distribute.get_replica_context().all_gather(own, axis=0))

        # As a graph: a collective by itself would be slow, and TensorFlow would say so.
        return tf.function(gathered)().numpy().tolist()

    def barrier(self) -> None:
        """Wait for every rank."""
        self.gather([0])

    def leave(self) -> None:
        """Leave with the others."""
        self.barrier()


def _cluster(place: Place) -> Any:
    """Return what ``TF_CONFIG`` would say: where each rank listens, and which one this is."""
    addresses = [f"{place.address_of(rank)}:{place.port_of(rank)}" for rank in range(place.world_size)]
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({ROLE: addresses}), task_type=ROLE, task_id=place.rank, rpc_layer="grpc"
    )
