"""The device of a rank in TensorFlow, and all ranks: MultiWorkerMirroredStrategy, one replica a process."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple

import tensorflow as tf

from ...core.choices import own_gpu
from ...core.place import Place, Ranks


class Device(NamedTuple):
    """The device of this rank; ``gpu`` is TensorFlow's physical device, None for the CPU."""

    type: str
    gpu: Any | None

    @property
    def path(self) -> str:
        """Return the name by which TensorFlow places work on it: each rank sees its own GPU alone."""
        return "/CPU:0" if self.gpu is None else "/GPU:0"


def choose_device(requested: str, place: Place) -> Device:
    """Return the device of this rank and hide all others from TensorFlow; raise ``RunError`` if it is not there."""
    gpus = tf.config.list_physical_devices("GPU")
    index = own_gpu("TensorFlow", requested, len(gpus), place)
    if index is None:
        tf.config.set_visible_devices([], "GPU")
        return Device("cpu", None)
    tf.config.set_visible_devices(gpus[index], "GPU")
    # Otherwise TensorFlow takes all of the GPU's memory at once, and nobody could say what the training needs.
    tf.config.experimental.set_memory_growth(gpus[index], True)
    return Device("cuda", gpus[index])


def limit_threads(threads: int, device: Device) -> None:
    """Set the number of this process's computing threads to ``threads`` (0: leave TensorFlow's choice, one a core).

    On a CPU one operation at a time, shared out among the threads: with more at a time each of them would bring its
    own. A GPU's operations are only handed over, and those of the input go beside them.
    """
    if not threads:
        return
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    if device.gpu is None:
        tf.config.threading.set_inter_op_parallelism_threads(1)


ROLE = "worker"


class Group(Ranks):
    """The ranks: ring all-reduce over gRPC between CPUs, NCCL between GPUs; a single rank needs no strategy."""

    def __init__(self, place: Place, device: Device) -> None:
        """Meet the other ranks, if there are any: nothing may have been computed in this process before."""
        super().__init__(place)
        self._strategy: Any = None
        if place.world_size == 1:
            return
        self.backend = "ring" if device.gpu is None else "nccl"
        # What ``TF_CONFIG`` would say: where each rank listens, and which one this is.
        spec = tf.train.ClusterSpec({ROLE: place.endpoints()})
        cluster = tf.distribute.cluster_resolver.SimpleClusterResolver(
            spec, task_type=ROLE, task_id=place.rank, rpc_layer="grpc"
        )
        kinds = tf.distribute.experimental.CommunicationImplementation
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=kinds.RING if device.gpu is None else kinds.NCCL
        )
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster, options)

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which variables are made: they start as rank 0's."""
        return nullcontext() if self._strategy is None else self._strategy.scope()

    def run(self, replica: Callable[..., Any], *arguments: Any) -> Any:
        """Call ``replica`` as this rank's part of a step of all ranks."""
        return replica(*arguments) if self._strategy is None else self._strategy.run(replica, arguments)

    def total(self, values: list[Any], pack_bytes: int) -> list[Any]:
        """Return the sums over the ranks, in packs of ``pack_bytes`` (0: in one); only within ``run``."""
        if self._strategy is None:
            return values
        # Here, because the strategy's own options do not reach this call.
        packs = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=pack_bytes)
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values, packs)

    def counted(self) -> int:
        return 1 if self._strategy is None else int(self._strategy.num_replicas_in_sync)

    def all_gather(self, values: Sequence[int]) -> list[list[int]]:
        own = tf.constant([list(values)], tf.int64)
        strategy = self._strategy

        def gathered() -> Any:
            return strategy.run(lambda: tf.distribute.get_replica_context().all_gather(own, axis=0))

        # As a graph: an eager collective is slow, and TensorFlow warns of it.
        return tf.function(gathered)().numpy().tolist()

    def leave(self) -> None:
        """Leave when all ranks have come here; a rank that has gone already had heard from all of them."""
        # Values are fetched from the rank that has them, which may end as soon as it has those of the others.
        with suppress(tf.errors.UnavailableError):
            self.barrier()
