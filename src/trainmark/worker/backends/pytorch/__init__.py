"""The backend of PyTorch, 2.4 or later; its failures."""

import re

import torch

from ...core.outcomes import (
    LOST_PEER,
    OOM,
    OUT_OF_MEMORY,
    Known,
    RunError,
    loader_ended,
    lost_peer,
    out_of_memory,
)
from .collectives import GRADIENTS

__all__ = ["FAILURES", "GRADIENTS"]

WANTED = re.compile(r"Tried to allocate [^.]*?(?:bytes|[KMGT]iB)", re.IGNORECASE)
LOADER_ENDED = re.compile(r"^DataLoader worker")


def _wanted_too_much(error: BaseException, found: "re.Match[str]") -> RunError:
    where = "GPU" if isinstance(error, torch.OutOfMemoryError) else "host"
    return RunError(OOM, f"the {where} is out of memory: {found.group(0).lower().replace('ib', 'iB')}")


FAILURES = (
    Known((RuntimeError,), WANTED, _wanted_too_much),
    Known((RuntimeError,), OUT_OF_MEMORY, out_of_memory),
    Known((RuntimeError, ConnectionError), LOST_PEER, lost_peer),
    Known((RuntimeError,), LOADER_ENDED, loader_ended),
)
