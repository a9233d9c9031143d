"""The ``compiler`` axis in PyTorch: torch.compile, a step as one CUDA graph, and the stages of a fused step.

A stage can be left out, so that its effect shows: ``TRAINMARK_FUSED_WITHOUT`` has their names, separated by commas; a
run records the stages that it had.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from ..core.choices import one_of
from ..core.outcomes import INVALID, UNSUPPORTED, RunError

WITHOUT = "TRAINMARK_FUSED_WITHOUT"

FOLDED, QUARTER, UPDATE = "folded", "quarter", "update"
STAGES: Mapping[str, str] = {
    FOLDED: "a small norm's moments follow from its convolution's sums in the pass that applies them",
    QUARTER: "the gradient of a shortcut of stride 2 has the positions that the shortcut read, and no others",
    UPDATE: "one kernel checks the 16-bit gradients, one moves the weights and writes their copies in 16 bits",
}


def chosen(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return the stages of this run; raise ``RunError`` (invalid) for a name that is none of them."""
    without = {word.strip() for word in environ.get(WITHOUT, "").split(",")} - {""}
    unknown = sorted(without - set(STAGES))
    if unknown:
        reason = f"{WITHOUT}: there is no stage {', '.join(unknown)}; there are {', '.join(STAGES)}"
        raise RunError(INVALID, reason)
    return frozenset(STAGES) - without


NONE, CUDA_GRAPH, FUSED_CUDNN = "none", "cuda-graph", "fused-cudnn"
COMPILED_GRAPH, COMPILED_FUSED = "torch.compile-graph", "torch.compile-fused"
FUSED = ("fused", FUSED_CUDNN)
MODES: dict[str, str | None] = {
    NONE: None,
    # The same kernels; the whole step is one graph.
    CUDA_GRAPH: None,
    # So is this; what lies between the matrix products are kernels of our own, in Triton.
    "fused": None,
    # And convolutions of cuDNN's that make the sums of the norms behind them.
    FUSED_CUDNN: None,
    "torch.compile": "default",
    # Without CUDA graphs: they want every batch at the same address, and copying it there is not free.
    "torch.compile-max": "max-autotune-no-cudagraphs",
    # Compiled as above, and then the whole step with its optimizer is one graph.
    COMPILED_GRAPH: "default",
    # And the loss of a language model is a kernel of our own, in Triton.
    COMPILED_FUSED: "default",
}


def check_compiler(name: str, device: Any) -> None:
    """Raise ``RunError`` if this PyTorch has no such compiler, or the compiler would lack its own tools here."""
    one_of("PyTorch", "compiler", name, MODES)
    if name in (NONE, CUDA_GRAPH):
        return
    if device.type == "cuda":
        from torch.utils._triton import has_triton

        if not has_triton():
            raise RunError(UNSUPPORTED, f"{name} on a GPU needs Triton, which is not installed here")
        if name == FUSED_CUDNN and find_spec("cudnn") is None:
            reason = f"{name} needs the package nvidia-cudnn-frontend, which is not installed here"
            raise RunError(UNSUPPORTED, reason)
    elif shutil.which(os.environ.get("CXX", "g++")) is None:
        raise RunError(UNSUPPORTED, f"{name} on a CPU needs a C++ compiler, and there is no g++ here")


def captures(name: str) -> bool:
    """Return whether the step is recorded as one CUDA graph."""
    return name in (CUDA_GRAPH, COMPILED_GRAPH, COMPILED_FUSED) or name in FUSED


def compile_model(model: nn.Module, name: str, inductor: Mapping[str, Any]) -> Any:
    """Return the whole model compiled, with static shapes; nothing is compiled before the first call.

    ``inductor`` are settings of the compiler (``torch._inductor.config``) that the task needs, by name.
    """
    if MODES[name] is None:
        return model
    from torch._inductor import config

    for setting, value in inductor.items():
        setattr(config, setting, value)
    return torch.compile(model, mode=MODES[name], dynamic=False)


def compile_s(name: str) -> float | None:
    """Return the seconds that torch.compile says it has spent so far, forward and backward."""
    if MODES[name] is None:
        return None
    from torch._dynamo.utils import calculate_time_spent

    return float(calculate_time_spent().get("total_wall_time", 0.0))


def compilations(name: str) -> int:
    """Return how many graphs torch.compile has made so far: a change of shape, say, makes another one."""
    if MODES[name] is None:
        return 0
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def cache_hits(name: str) -> int | None:
    """Return how many graphs torch.compile took from its cache on disk: those make ``compile_s`` small."""
    if MODES[name] is None:
        return None
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["fxgraph_cache_hit"])


EAGER_STEPS = 2  # steps before the recording: in them cuDNN searches its algorithms, and Triton compiles


class CapturedStep:
    """Calls ``step(batch)``, which returns the loss as a tensor, or replays what it did the last time it was called.

    A graph reads from fixed addresses: every later batch is copied to where the recorded one lies, unless it is that
    one. What the step changes besides, and what changes it, must lie in tensors that stay (learning rate, loss scale).
    From its making on everything runs on a stream of its own, because the default stream cannot be recorded.
    """

    def __init__(
        self,
        step: Callable[[tuple[Any, ...]], Any],
        device: Any,
        keep_batch: bool,
        recorded: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the step; ``keep_batch`` says that batches come and go, so that the recorded one is a copy.

        ``recorded`` is called when the recording is over.
        """
        self._step, self._keep, self._then = step, keep_batch, recorded
        self._graph: Any | None = None
        self._eager = 0
        self.replays = 0  # the number of replayed steps
        self._batch: tuple[Any, ...] = ()
        self._loss: Any | None = None
        torch.cuda.synchronize(device)
        torch.cuda.set_stream(torch.cuda.Stream(device))

    @property
    def recorded(self) -> bool:
        """Return whether steps are replayed by now."""
        return self._graph is not None

    @property
    def recording(self) -> tuple[Any, tuple[Any, ...]]:
        """Return the graph and the batch that it reads; there is one after the third step."""
        assert self._graph is not None, "nothing is recorded yet"
        return self._graph, self._batch

    def release(self) -> None:
        """Release the graph: ranks cannot leave their group while one holds a collective of it."""
        torch.cuda.synchronize()
        self._graph, self._loss, self._batch = None, None, ()

    def __call__(self, batch: tuple[Any, ...]) -> Any:
        """Do the step on this batch."""
        if self._graph is None:
            if self._eager < EAGER_STEPS:
                self._eager += 1
                for tensor in batch:
                    # The first was fetched before this stream was: its memory may be given away after this step alone.
                    tensor.record_stream(torch.cuda.current_stream())
                return self._step(batch)
            self._record(batch)
            assert self._graph is not None
        for retained, given in zip(self._batch, batch):
            if retained is given:
                continue
            if retained.shape != given.shape or retained.dtype != given.dtype:
                shapes = f"{tuple(retained.shape)}, and one of {tuple(given.shape)} came"
                raise RunError(INVALID, f"a recorded step takes batches of {shapes}")
            retained.copy_(given)
        self._graph.replay()
        self.replays += 1
        return self._loss

    def _record(self, batch: tuple[Any, ...]) -> None:
        self._batch = tuple(tensor.clone() for tensor in batch) if self._keep else batch
        torch.cuda.synchronize()
        # What the eager steps left in the allocator; the graph has memory of its own.
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        # Other threads (loaders, NCCL's watchdog) go on using CUDA meanwhile.
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            self._loss = self._step(self._batch)
        self._graph = graph
        self._then()
