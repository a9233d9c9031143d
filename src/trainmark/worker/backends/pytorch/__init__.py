"""The backend of PyTorch, 2.4 or later; its failures."""

import re

import torch

from ...core import outcomes
from ...core.settings import Settings
from .collectives import GRADIENTS

__all__ = ["FAILURES", "GRADIENTS", "imported_later"]

WANTED = re.compile(r"Tried to allocate [^.]*?(?:bytes|[KMGT]iB)", re.IGNORECASE)
LOADER_ENDED = re.compile(r"^DataLoader worker")


def _wanted_too_much(error: BaseException, found: "re.Match[str]") -> outcomes.RunError:
    where, wanted = "GPU" if isinstance(error, torch.OutOfMemoryError) else "host", found.group(0).lower()
    return outcomes.RunError(outcomes.OOM, f"the {where} is out of memory: {wanted.replace('ib', 'iB')}")


FAILURES = (
    outcomes.Known((RuntimeError,), WANTED, _wanted_too_much),
    outcomes.Known((RuntimeError,), outcomes.OUT_OF_MEMORY, outcomes.out_of_memory),
    outcomes.Known((RuntimeError, ConnectionError), outcomes.LOST_PEER, outcomes.lost_peer),
    outcomes.Known((RuntimeError,), LOADER_ENDED, outcomes.loader_ended),
)


def imported_later(settings: Settings) -> tuple[str, ...]:
    """Return the modules that PyTorch imports at a first use, which takes as long as importing PyTorch.

    The first optimizer of a process imports torch._dynamo; the first compilation, or a kernel of ours, the others.
    """
    compiler = settings.compiler
    inductor = ("torch._inductor.compile_fx",) if compiler.startswith("torch.compile") else ()
    return ("torch._dynamo", *inductor, *(("triton",) if "fused" in compiler else ()))
