"""Which of the run's outcomes an exception of JAX is."""

from __future__ import annotations

import re
from typing import Optional

import jax

from ..outcomes import FAILED, OOM, RunError, any_cause, first_sentence

OUT_OF_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|out of memory|std::bad_alloc|Cannot allocate memory|_ALLOC_FAILED", re.IGNORECASE
)
WANTED = re.compile(r"(?:allocate|allocating) (\d[\d.]* ?(?:bytes|[KMGT]?i?B))")
LOST_PEER = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|Connection refused|Gloo [\w-]+ failed|"
    r"Timed out waiting|NCCL[^.]{0,80}(remote|peer|abort)|DEADLINE_EXCEEDED|heartbeat timeout|"
    r"another task died|UNAVAILABLE",
    re.IGNORECASE | re.DOTALL,
)


def stopped_by(error: BaseException) -> Optional[RunError]:
    """Return the outcome of a failure that is known by its type or its text, or None."""
    for cause in any_cause(error):
        if isinstance(cause, RunError):
            return cause
        text = str(cause)
        if isinstance(cause, MemoryError):
            return RunError(OOM, "the host could not allocate memory")
        if not isinstance(cause, (RuntimeError, ConnectionError)):
            continue
        if OUT_OF_MEMORY.search(text):
            wanted = WANTED.search(text)
            if wanted is None:
                return RunError(OOM, f"out of memory: {first_sentence(cause)}")
            where = "host" if jax.default_backend() == "cpu" else "GPU"
            return RunError(OOM, f"the {where} is out of memory: tried to allocate {wanted.group(1)}")
        if text.startswith("Worker process was terminated"):
            return RunError(FAILED, f"a loader process ended: {first_sentence(cause)}")
        lost = LOST_PEER.search(text)
        if lost is not None:
            words = " ".join(lost.group(0).split())
            return RunError(FAILED, f"lost contact with another rank: {words}", peer_lost=True)
    return None
