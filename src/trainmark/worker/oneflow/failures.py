"""Which of the run's outcomes an exception of OneFlow is."""

from __future__ import annotations

from typing import Optional

from ..core.failures import LOST_PEER, OUT_OF_MEMORY, Known, first_known, lost_peer, out_of_memory
from ..core.outcomes import RunError

# OneFlow's errors are RuntimeErrors whose text holds the C++ call stack.
RULES = (
    Known((Exception,), OUT_OF_MEMORY, out_of_memory),
    Known((RuntimeError, ConnectionError), LOST_PEER, lost_peer),
)


def stopped_by(error: BaseException) -> Optional[RunError]:
    """Return the outcome of a failure that is known by its type or its text, or None."""
    return first_known(error, RULES)
