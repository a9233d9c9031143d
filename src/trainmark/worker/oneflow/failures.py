"""Which of the run's outcomes an exception of OneFlow is."""

from __future__ import annotations

import re
from typing import Optional

from ..outcomes import FAILED, OOM, RunError, any_cause, first_sentence

OUT_OF_MEMORY = re.compile(
    r"out of memory|out-of-memory|OutOfMemory|std::bad_alloc|Cannot allocate memory|CUDNN_STATUS_ALLOC_FAILED|"
    r"can't allocate memory",
    re.IGNORECASE,
)
LOST_PEER = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|Connection refused|Socket closed|failed to connect|"
    r"NCCL[^.]{0,80}(remote|peer)",
    re.IGNORECASE | re.DOTALL,
)


def stopped_by(error: BaseException) -> Optional[RunError]:
    """Return the outcome of a failure that is known by its type or its text, or None.

    OneFlow's errors are RuntimeErrors whose text holds the C++ call stack.
    """
    for cause in any_cause(error):
        text = str(cause)
        if isinstance(cause, MemoryError) or OUT_OF_MEMORY.search(text):
            return RunError(OOM, f"out of memory: {first_sentence(cause)}")
        lost = LOST_PEER.search(text) if isinstance(cause, (RuntimeError, ConnectionError)) else None
        if lost is not None:
            words = " ".join(lost.group(0).split())
            return RunError(FAILED, f"lost contact with another rank: {words}", peer_lost=True)
    return None
