"""Which of the run's outcomes an exception of MindSpore is."""

from __future__ import annotations

import re
from typing import Optional

from ..core.failures import OUT_OF_MEMORY, Known, first_known, lost_peer, out_of_memory
from ..core.outcomes import RunError

NO_MEMORY = re.compile(
    OUT_OF_MEMORY.pattern + r"|Memory isn't enough|Memory not enough|(allocate|malloc) .{0,60}fail",
    re.IGNORECASE,
)
LOST_COLLECTIVE = re.compile(r"Launch kernel failed[^\n]{0,200}(AllReduce|AllGather)")

RULES = (
    Known((RuntimeError,), NO_MEMORY, out_of_memory),
    Known((RuntimeError,), LOST_COLLECTIVE, lost_peer),
)


def stopped_by(error: BaseException) -> Optional[RunError]:
    """Return the outcome of a failure that is known by its type or its text, or None."""
    return first_known(error, RULES)
