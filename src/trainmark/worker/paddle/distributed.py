"""The process group: gloo between CPUs, NCCL between GPUs."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any, List, Sequence

import paddle
import paddle.distributed as dist
from paddle import nn
from paddle.distributed.fleet.utils.hybrid_parallel_util import fused_allreduce_gradients
from paddle.distributed.parallel import sync_params_buffers

from ..core.place import Place
from ..core.ranks import Ranks
from .device import device_index


class Group(Ranks):
    """All ranks of the run; Paddle makes no group for a rank that is the only one."""

    def __init__(self, place: Place, device: str) -> None:
        """Meet the other ranks."""
        super().__init__(place)
        if place.world_size > 1:
            self.backend = "nccl" if device == "cuda" else "gloo"
            os.environ.update(variables(place, self.backend, device_index(device)))
            dist.init_parallel_env()

    def wrap(self, learner: nn.Layer) -> nn.Layer:
        """Return the layer to train, with the first rank's weights on every rank.

        With NCCL, DataParallel averages the gradients while others are still computed. Over gloo it could not, since
        each transfer blocks there, and a gloo error inside of Paddle's backward pass ends the process by
        ``std::terminate``: ``average`` does it after the pass. Batch-norm statistics stay each rank's own from
        here on, as in the usual recipes without SyncBatchNorm.
        """
        if self.backend == "nccl":
            return paddle.DataParallel(learner)
        if self.backend == "gloo":
            sync_params_buffers(learner)
        return learner

    def average(self, parameters: List[Any]) -> None:
        """Average the gradients of the parameters over the ranks, unless that was done while they were computed."""
        if self.backend == "gloo":
            fused_allreduce_gradients(parameters, None)

    def withheld(self, learner: nn.Layer) -> "AbstractContextManager[Any]":
        """Return the context of a backward pass whose gradients are not averaged yet: more are added to them."""
        context: AbstractContextManager[Any] = learner.no_sync() if self.backend == "nccl" else nullcontext()
        return context

    def counted(self) -> int:
        """Return the ranks of Paddle's group."""
        return 1 if self.backend is None else int(dist.get_world_size())

    def barrier(self) -> None:
        """Wait for every rank."""
        if self.backend is not None:
            dist.barrier()

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return the values of every rank, by rank."""
        if self.backend is None:
            return super().gather(values)
        own = paddle.to_tensor(list(values), dtype="int64")
        parts: List[Any] = []
        dist.all_gather(parts, own)
        return [part.tolist() for part in parts]

    def mean(self, value: Any) -> Any:
        """Return the mean of a tensor over the ranks."""
        if self.backend is not None:
            dist.all_reduce(value)
            value = value / self.place.world_size
        return value

    def leave(self) -> None:
        """End the group together: a rank that leaves first, with the store in it, can abort the others."""
        if self.backend is not None:
            self.barrier()
            dist.destroy_process_group()


def variables(place: Place, backend: str, gpu: int) -> "dict[str, str]":
    """Return what Paddle's launcher would set for this rank; each rank has an address and port of its own."""
    endpoints = [f"{place.address_of(rank)}:{place.port_of(rank)}" for rank in range(place.world_size)]
    return {
        "PADDLE_TRAINER_ID": str(place.rank),
        "PADDLE_TRAINERS_NUM": str(place.world_size),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_CURRENT_ENDPOINT": endpoints[place.rank],
        "PADDLE_MASTER": f"{place.address}:{place.port}",
        "PADDLE_DISTRI_BACKEND": backend,
        "FLAGS_selected_gpus": str(gpu),
    }
