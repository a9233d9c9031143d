"""Which of the run's outcomes an exception of MXNet is."""

from __future__ import annotations

import re
from typing import Optional

from mxnet.base import MXNetError

from ..outcomes import FAILED, OOM, RunError, any_cause

OUT_OF_MEMORY = re.compile(
    r"Failed to allocate CPU Memory|AlignedMallocPitch failed|std::bad_alloc|Cannot allocate memory|out of memory|"
    r"could not (create|initialize) a memory object|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)
_WHERE_IN_CPP = re.compile(r"^OpenCV\([^)]*\) \S+: error: ")
LOST_PEER = re.compile(
    r"Horovod has been shut down|Connection (closed|reset) by peer|Broken pipe|Read timeout"
)


def stopped_by(error: BaseException) -> Optional[RunError]:
    """Return the outcome of a failure that is known by its type or its text, or None."""
    for cause in any_cause(error):
        if isinstance(cause, MemoryError) or (
            isinstance(cause, MXNetError) and OUT_OF_MEMORY.search(str(cause))
        ):
            return RunError(OOM, f"MXNet could not allocate memory: {last_line(cause)}")
        lost = LOST_PEER.search(str(cause)) if isinstance(cause, MXNetError) else None
        if lost is not None:
            return RunError(FAILED, f"lost contact with another rank: {lost.group(0)}", peer_lost=True)
        if isinstance(cause, MXNetError):
            return RunError(FAILED, f"MXNet: {last_line(cause)}")
    return None


def last_line(error: BaseException, limit: int = 300) -> str:
    """Return the line of MXNet's message that says what happened: the last, after the C++ stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return _WHERE_IN_CPP.sub("", lines[-1].replace("MXNetError: ", ""))[:limit]
