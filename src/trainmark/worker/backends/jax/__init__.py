"""The backend of JAX, with Flax's Linen for the layers and Optax for the optimizer; its failures."""

import re

import jax

from ...core import outcomes

__all__ = ["FAILURES"]

WANTED = re.compile(r"(?:allocate|allocating) (\d[\d.]* ?(?:bytes|[KMGT]?i?B))")
NO_PEER = re.compile(
    outcomes.LOST_PEER.pattern
    + r"|Gloo [\w-]+ failed|DEADLINE_EXCEEDED|heartbeat timeout|another task died|UNAVAILABLE",
    outcomes.LOST_PEER.flags,
)
LOADER_ENDED = re.compile(r"^Worker process was terminated")


def _no_memory(error: BaseException, found: "re.Match[str]") -> outcomes.RunError:
    wanted = WANTED.search(str(error))
    if wanted is None:
        return outcomes.out_of_memory(error, found)
    where = "host" if jax.default_backend() == "cpu" else "GPU"
    reason = f"the {where} is out of memory: tried to allocate {wanted.group(1)}"
    return outcomes.RunError(outcomes.OOM, reason)


OWN = (RuntimeError, ConnectionError)

FAILURES = (
    outcomes.Known(OWN, outcomes.OUT_OF_MEMORY, _no_memory),
    outcomes.Known(OWN, LOADER_ENDED, outcomes.loader_ended),
    outcomes.Known(OWN, NO_PEER, outcomes.lost_peer),
)
