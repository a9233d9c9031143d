"""Which of the run's outcomes an exception of PaddlePaddle is."""

from __future__ import annotations

import re
from typing import Optional

from ..core.failures import (
    LOST_PEER,
    OUT_OF_MEMORY,
    Known,
    first_known,
    loader_ended,
    lost_peer,
    out_of_memory,
)
from ..core.outcomes import OOM, RunError

WANTED_ON_HOST = re.compile(r"Fail to alloc memory of (\d+)")
WANTED_ON_GPU = re.compile(r"Cannot allocate ([\d.]+[KMG]?B) memory on GPU")
GLOO_TIMEOUT = re.compile(r"TIMEOUT self_rank = \w+ pair_rank = -?\w+")
LOADER_ENDED = re.compile("DataLoader process")


def stopped_by(error: BaseException) -> Optional[RunError]:
    """Return the outcome of a failure that is known by its type or its text, or None.

    Paddle turns its C++ error classes into Python's (ResourceExhausted is a MemoryError), and what other libraries
    throw, gloo among them, into RuntimeError, ValueError or OSError.
    """
    return first_known(error, RULES)


def _on_gpu(_error: BaseException, found: "re.Match[str]") -> RunError:
    return RunError(OOM, f"the GPU is out of memory: it could not allocate {found.group(1)}")


def _on_host(_error: BaseException, found: "re.Match[str]") -> RunError:
    return RunError(OOM, f"the host is out of memory: it could not allocate {found.group(1)} bytes")


_MEMORY = (MemoryError, RuntimeError)
_CONTACT = (RuntimeError, ValueError, OSError)
RULES = (
    Known(_MEMORY, WANTED_ON_GPU, _on_gpu),
    Known(_MEMORY, WANTED_ON_HOST, _on_host),
    Known(_MEMORY, OUT_OF_MEMORY, out_of_memory),
    Known(_CONTACT, GLOO_TIMEOUT, lost_peer),
    Known(_CONTACT, LOST_PEER, lost_peer),
    Known((SystemError,), LOADER_ENDED, loader_ended),
)
