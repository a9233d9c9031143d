"""The ``compiler`` axis in PyTorch."""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict, Mapping, Optional

import torch
from torch import nn

from ..core.choices import one_of
from ..core.outcomes import UNSUPPORTED, RunError

NONE = "none"
MODES: Dict[str, Optional[str]] = {
    NONE: None,
    "torch.compile": "default",
    # Without CUDA graphs: they want every batch at the same address, and copying it there is not free.
    "torch.compile-max": "max-autotune-no-cudagraphs",
}


def check_compiler(name: str, device: Any) -> None:
    """Raise ``RunError`` if this PyTorch has no such compiler, or the compiler would lack its own tools here."""
    one_of("PyTorch", "compiler", name, MODES)
    if name == NONE:
        return
    if device.type == "cuda":
        from torch.utils._triton import has_triton

        if not has_triton():
            raise RunError(UNSUPPORTED, f"{name} on a GPU needs Triton, which is not installed here")
    elif shutil.which(os.environ.get("CXX", "g++")) is None:
        raise RunError(UNSUPPORTED, f"{name} on a CPU needs a C++ compiler, and there is no g++ here")


def compile_model(model: nn.Module, name: str, inductor: Mapping[str, Any]) -> Any:
    """Return the whole model compiled, with static shapes; nothing is compiled before the first call.

    ``inductor`` are settings of the compiler (``torch._inductor.config``) that the task needs, by name.
    """
    if name == NONE:
        return model
    from torch._inductor import config

    for setting, value in inductor.items():
        setattr(config, setting, value)
    return torch.compile(model, mode=MODES[name], dynamic=False)


def compile_s(name: str) -> Optional[float]:
    """Return the seconds that torch.compile says it has spent so far, forward and backward."""
    if name == NONE:
        return None
    from torch._dynamo.utils import calculate_time_spent

    return float(calculate_time_spent().get("total_wall_time", 0.0))


def compilations(name: str) -> int:
    """Return how many graphs torch.compile has made so far: a change of shape, say, makes another one."""
    if name == NONE:
        return 0
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def cache_hits(name: str) -> Optional[int]:
    """Return how many graphs torch.compile took from its cache on disk: those make ``compile_s`` small."""
    if name == NONE:
        return None
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["fxgraph_cache_hit"])
