"""The backend of JAX, with Flax's Linen for the layers and Optax for the optimizer; its failures."""

import re

import jax

from ...core.outcomes import (
    LOST_PEER,
    OOM,
    OUT_OF_MEMORY,
    Known,
    RunError,
    loader_ended,
    lost_peer,
    out_of_memory,
)

__all__ = ["FAILURES"]

WANTED = re.compile(r"(?:allocate|allocating) (\d[\d.]* ?(?:bytes|[KMGT]?i?B))")
NO_PEER = re.compile(
    LOST_PEER.pattern
    + r"|Gloo [\w-]+ failed|DEADLINE_EXCEEDED|heartbeat timeout|another task died|UNAVAILABLE",
    LOST_PEER.flags,
)
LOADER_ENDED = re.compile(r"^Worker process was terminated")


def _no_memory(error: BaseException, found: "re.Match[str]") -> RunError:
    wanted = WANTED.search(str(error))
    if wanted is None:
        return out_of_memory(error, found)
    where = "host" if jax.default_backend() == "cpu" else "GPU"
    return RunError(OOM, f"the {where} is out of memory: tried to allocate {wanted.group(1)}")


OWN = (RuntimeError, ConnectionError)

FAILURES = (
    Known(OWN, OUT_OF_MEMORY, _no_memory),
    Known(OWN, LOADER_ENDED, loader_ended),
    Known(OWN, NO_PEER, lost_peer),
)
