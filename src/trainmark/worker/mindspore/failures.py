"""Which of the run's outcomes an exception of MindSpore is."""

from __future__ import annotations

import re
from typing import Optional

from ..outcomes import FAILED, OOM, RunError, any_cause, first_sentence

OUT_OF_MEMORY = re.compile(
    r"std::bad_alloc|[Oo]ut of memory|[Mm]emory not enough|[Mm]emory isn't enough|[Aa]llocate .{0,60}fail|"
    r"[Mm]alloc .{0,60}fail|Cannot allocate memory|Unable to allocate"
)
LOST_PEER = re.compile(r"Launch kernel failed[^\n]{0,200}(AllReduce|AllGather)")


def stopped_by(error: BaseException) -> Optional[RunError]:
    """Return the outcome of a failure that is known by its type or its text, or None."""
    for cause in any_cause(error):
        if isinstance(cause, MemoryError):
            return RunError(OOM, "the host could not allocate memory")
        if isinstance(cause, RuntimeError) and OUT_OF_MEMORY.search(str(cause)):
            return RunError(OOM, f"out of memory: {first_sentence(cause)}")
        lost = LOST_PEER.search(str(cause)) if isinstance(cause, RuntimeError) else None
        if lost is not None:
            return RunError(FAILED, f"lost contact with another rank: {lost.group(0)}", peer_lost=True)
    return None
