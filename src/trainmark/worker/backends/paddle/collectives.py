"""The device of a rank in PaddlePaddle, and the process group: gloo between CPUs, NCCL between GPUs."""

import ctypes
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import paddle
import paddle.distributed as dist
from paddle import nn
from paddle.distributed.fleet.utils.hybrid_parallel_util import fused_allreduce_gradients
from paddle.distributed.parallel import sync_params_buffers

from ...core.choices import own_gpu
from ...core.outcomes import UNSUPPORTED, RunError
from ...core.place import Place, Ranks

SEARCH = "FLAGS_cudnn_exhaustive_search"


def choose_device(requested: str, place: Place) -> str:
    """Return ``cpu`` or ``cuda`` and make this rank's one the current one; raise ``RunError`` if it is not there."""
    built = paddle.device.is_compiled_with_cuda()
    if requested == "cuda" and not built:
        raise RunError(UNSUPPORTED, "cuda was requested, but this PaddlePaddle is built for CPUs only")
    index = own_gpu("PaddlePaddle", requested, paddle.device.cuda.device_count() if built else 0, place)
    if index is None:
        paddle.device.set_device("cpu")
        return "cpu"
    paddle.device.set_device(f"gpu:{index}")
    # Its default is a heuristic; the search happens in the first steps, and shapes never change.
    paddle.set_flags({SEARCH: True})
    return "cuda"


def algorithm_search(device: str) -> str | None:
    """Return how cuDNN's algorithms are chosen, in Paddle's words; None on a CPU."""
    if device == "cpu":
        return None
    return "cudnn, exhaustive" if paddle.get_flags([SEARCH])[SEARCH] else "cudnn, heuristic"


def limit_threads(threads: int, device: str) -> None:
    """Compute with this many threads: those of OpenMP and MKL, and on a CPU one operator at a time.

    Paddle itself uses one unless OMP_NUM_THREADS was set before its import. The interpreter of compiled programs
    has more threads, which run independent operators at the same time; on a CPU they would share the
    cores, so its serial mode is set there.
    """
    paddle.base.core.set_num_threads(threads)
    if device == "cpu":
        paddle.set_flags({"FLAGS_enable_pir_in_executor_trace_run": True})


def math_threads() -> int | None:
    """Return the threads that Paddle's OpenMP uses for a loop now, or None if unknown."""
    library = Path(paddle.__file__).parent / "libs" / "libiomp5.so"
    try:
        # Already loaded by Paddle: this is the copy that computes.
        return int(ctypes.CDLL(str(library), mode=os.RTLD_NOLOAD).omp_get_max_threads())
    except (OSError, AttributeError):
        return None


class Group(Ranks):
    """All ranks of the run; Paddle makes no group for a rank that is the only one."""

    def __init__(self, place: Place, device: str) -> None:
        super().__init__(place)
        if place.world_size > 1:
            self.backend = "nccl" if device == "cuda" else "gloo"
            endpoints = place.endpoints()
            # The variables of Paddle's launcher.
            os.environ.update(
                PADDLE_TRAINER_ID=str(place.rank),
                PADDLE_TRAINERS_NUM=str(place.world_size),
                PADDLE_TRAINER_ENDPOINTS=",".join(endpoints),
                PADDLE_CURRENT_ENDPOINT=endpoints[place.rank],
                PADDLE_MASTER=f"{place.address}:{place.port}",
                PADDLE_DISTRI_BACKEND=self.backend,
                FLAGS_selected_gpus=paddle.device.get_device().partition(":")[2] or "0",
            )
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

    def average(self, parameters: list[Any]) -> None:
        """Average the gradients of the parameters over the ranks, unless that was done while they were computed."""
        if self.backend == "gloo":
            fused_allreduce_gradients(parameters, None)

    def withheld(self, learner: nn.Layer) -> AbstractContextManager[Any]:
        """Return the context of a backward pass whose gradients are not averaged yet: more are added to them."""
        context: AbstractContextManager[Any] = learner.no_sync() if self.backend == "nccl" else nullcontext()
        return context

    def counted(self) -> int:
        return 1 if self.backend is None else int(dist.get_world_size())

    def barrier(self) -> None:
        if self.backend is not None:
            dist.barrier()

    def all_gather(self, values: Sequence[int]) -> list[list[int]]:
        own = paddle.to_tensor(list(values), dtype="int64")
        parts: list[Any] = []
        dist.all_gather(parts, own)
        return [part.tolist() for part in parts]

    def mean(self, value: Any) -> Any:
        """Return the mean of a tensor over the ranks."""
        if self.backend is not None:
            dist.all_reduce(value)
            value = value / self.place.world_size
        return value

    def leave(self) -> None:
        """End the group at the same time: a rank that leaves first, with the store in it, can abort the others."""
        if self.backend is not None:
            self.barrier()
            dist.destroy_process_group()
