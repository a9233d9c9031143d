"""Which of the run's outcomes an exception of PyTorch is."""

from __future__ import annotations

import re
from typing import Optional

import torch

from ..outcomes import FAILED, OOM, RunError, any_cause, first_sentence

OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|not enough memory|out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|"
    r"std::bad_alloc|Cannot allocate memory",
    re.IGNORECASE,
)
LOST_PEER = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|remote process exited|Connection refused|"
    r"NCCL[^.]{0,80}(remote|peer)|Socket Timeout|Timed out (waiting|after)",
    re.IGNORECASE | re.DOTALL,
)


def stopped_by(error: BaseException) -> Optional[RunError]:
    """Return the outcome of a failure that is known by its type or its text, or None."""
    for cause in any_cause(error):
        text = str(cause)
        if isinstance(cause, (torch.OutOfMemoryError, MemoryError)) or (
            isinstance(cause, RuntimeError) and OUT_OF_MEMORY.search(text)
        ):
            return RunError(OOM, _memory_sentence(cause))
        lost = LOST_PEER.search(text) if isinstance(cause, (RuntimeError, ConnectionError)) else None
        if lost is not None:
            words = " ".join(lost.group(0).split())
            return RunError(FAILED, f"lost contact with another rank: {words}", peer_lost=True)
        if isinstance(cause, RuntimeError) and text.startswith("DataLoader worker"):
            return RunError(FAILED, f"a loader process ended: {first_sentence(cause)}")
    return None


def _memory_sentence(error: BaseException) -> str:
    """Return the part of torch's message that says how much could not be had."""
    wanted = re.search(r"[Tt]ried to allocate [^.]*?(bytes|[KMGT]iB)", str(error))
    if isinstance(error, MemoryError):
        return "the host could not allocate memory"
    if wanted is None:
        return f"out of memory: {first_sentence(error)}"
    where = "GPU" if isinstance(error, torch.OutOfMemoryError) else "host"
    return f"the {where} is out of memory: {wanted.group(0).lower().replace('ib', 'iB')}"
