"""The ``compiler`` axis in PyTorch."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from typing import Any, Dict, Mapping, Optional

import torch
from torch import nn

from ..core.choices import one_of
from ..core.outcomes import UNSUPPORTED, RunError

NONE, CUDA_GRAPH, FUSED_CUDNN = "none", "cuda-graph", "fused-cudnn"
COMPILED_GRAPH, COMPILED_FUSED = "torch.compile-graph", "torch.compile-fused"
FUSED = ("fused", FUSED_CUDNN)
MODES: Dict[str, Optional[str]] = {
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
            raise RunError(
                UNSUPPORTED, f"{name} needs the package nvidia-cudnn-frontend, which is not installed here"
            )
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


def compile_s(name: str) -> Optional[float]:
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


def cache_hits(name: str) -> Optional[int]:
    """Return how many graphs torch.compile took from its cache on disk: those make ``compile_s`` small."""
    if MODES[name] is None:
        return None
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["fxgraph_cache_hit"])
