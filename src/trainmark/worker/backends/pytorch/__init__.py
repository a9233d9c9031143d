"""The backend of PyTorch, 2.4 or later; its failures."""

import re

import torch

from ...core.outcomes import (
    LOST_PEER,
    OOM,
    OUT_OF_MEMORY,
    Known,
    RunError,
    first_known,
    loader_ended,
    lost_peer,
    out_of_memory,
)
from .collectives import GRADIENTS

__all__ = ["GRADIENTS", "stopped_by"]

WANTED = re.compile(r"Tried to allocate [^.]*?(?:bytes|[KMGT]iB)", re.IGNORECASE)
LOADER_ENDED = re.compile(r"^DataLoader worker")


def stopped_by(error: BaseException) -> RunError | None:
    """Return the outcome of a failure that is known by its type or its text, or None."""
    return first_known(error, RULES)


def _wanted_too_much(error: BaseException, found: "re.Match[str]") -> RunError:
    where = "GPU" if isinstance(error, torch.OutOfMemoryError) else "host"
    return RunError(OOM, f"the {where} is out of memory: {found.group(0).lower().replace('ib', 'iB')}")


RULES = (
    Known((RuntimeError,), WANTED, _wanted_too_much),
    Known((RuntimeError,), OUT_OF_MEMORY, out_of_memory),
    Known((RuntimeError, ConnectionError), LOST_PEER, lost_peer),
    Known((RuntimeError,), LOADER_ENDED, loader_ended),
)
