"""All ranks of the run: MultiWorkerMirroredStrategy, one replica a process."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Callable, List, Optional, Sequence

import tensorflow as tf

from ..place import Place
from .device import Device

ROLE = "worker"


class Group:
    """The ranks; every method does the obvious thing when there is no other one.

    Ring all-reduce over gRPC between CPUs, NCCL between GPUs.
    """

    def __init__(self, place: Place, device: Device) -> None:
        """Meet the other ranks, if there are any: nothing may have been computed in this process before."""
        self.place = place
        self.backend: Optional[str] = None
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

    def total(self, values: List[Any]) -> List[Any]:
        """Return the sums over the ranks; only within ``run``."""
        if self._strategy is None:
            return values
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return the 64-bit values of every rank, by rank."""
        own = tf.constant([list(values)], tf.int64)
        if self._strategy is None:
            return own.numpy().tolist()
        return self._together(lambda context: context.all_gather(own, axis=0)).numpy().tolist()

    def mean(self, values: Sequence[float]) -> List[float]:
        """Return the means over the ranks, element by element."""
        own = tf.constant(values, tf.float64)
        if self._strategy is not None:
            own = self._together(lambda context: context.all_reduce(tf.distribute.ReduceOp.MEAN, own))
        return own.numpy().tolist()

    def barrier(self) -> None:
        """Wait for every rank."""
        self.gather([0])

    def _together(self, work: Callable[[Any], Any]) -> Any:
        """Run a collective as a graph: by itself it would be slow, and TensorFlow would say so."""
        return tf.function(lambda: self._strategy.run(lambda: work(tf.distribute.get_replica_context())))()


def _cluster(place: Place) -> Any:
    """Return what ``TF_CONFIG`` would say: where each rank listens, and which one this is."""
    addresses = [f"{place.address_of(rank)}:{place.port_of(rank)}" for rank in range(place.world_size)]
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({ROLE: addresses}), task_type=ROLE, task_id=place.rank, rpc_layer="grpc"
    )
