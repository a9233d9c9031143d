"""Which of the run's outcomes an exception of PaddlePaddle is."""

from __future__ import annotations

import re
from typing import Optional

from ..outcomes import FAILED, OOM, RunError, any_cause, first_sentence

OUT_OF_MEMORY = re.compile(
    r"ResourceExhausted|out of memory|std::bad_alloc|Cannot allocate memory|ALLOC_FAILED", re.IGNORECASE
)
WANTED_ON_HOST = re.compile(r"Fail to alloc memory of (\d+)")
WANTED_ON_GPU = re.compile(r"Cannot allocate ([\d.]+[KMG]?B) memory on GPU")
LOST_PEER = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|Connection refused|Timed out waiting|Socket Timeout|"
    r"TIMEOUT self_rank = \w+ pair_rank = -?\w+|NCCL[^.]{0,80}(remote|peer)",
    re.IGNORECASE,
)


def stopped_by(error: BaseException) -> Optional[RunError]:
    """Return the outcome of a failure that is known by its type or its text, or None.

    Paddle turns its C++ error classes into Python's (ResourceExhausted is a MemoryError), and what other libraries
    throw, gloo among them, into RuntimeError or OSError.
    """
    for cause in any_cause(error):
        text = str(cause)
        if isinstance(cause, MemoryError) or (isinstance(cause, RuntimeError) and OUT_OF_MEMORY.search(text)):
            return RunError(OOM, _memory_sentence(text))
        lost = LOST_PEER.search(text) if isinstance(cause, (RuntimeError, ValueError, OSError)) else None
        if lost is not None:
            return RunError(FAILED, f"lost contact with another rank: {lost.group(0)}", peer_lost=True)
        if isinstance(cause, SystemError) and "DataLoader process" in text:
            return RunError(FAILED, f"a loader process ended: {first_sentence(cause)}")
    return None


def _memory_sentence(text: str) -> str:
    """Return what Paddle's message says of how much could not be had, and where."""
    on_gpu, on_host = WANTED_ON_GPU.search(text), WANTED_ON_HOST.search(text)
    if on_gpu is not None:
        return f"the GPU is out of memory: it could not allocate {on_gpu.group(1)}"
    if on_host is not None:
        return f"the host is out of memory: it could not allocate {on_host.group(1)} bytes"
    return "out of memory, and PaddlePaddle does not say where"
