"""The backend of MXNet 1.9, with Gluon; its failures."""

import re

import mxnet as mx
from mxnet.base import MXNetError

from ...core.outcomes import FAILED, LOST_PEER, OOM, OUT_OF_MEMORY, Known, RunError, lost_peer
from .collectives import COLLECTIVES

__all__ = ["COLLECTIVES", "FAILURES"]

# The engine starts its threads for the first operator, and a thread that gets no memory for its stack ends the
# process silently: they must exist before ``--memory-limit`` is in force.
mx.nd.zeros(1).wait_to_read()

NO_MEMORY = re.compile(
    r"Failed to allocate CPU Memory|AlignedMallocPitch failed|could not (create|initialize) a memory object"
)
LOST_RING = re.compile(r"Horovod has been shut down|Read timeout")
ANY = re.compile("")
_WHERE_IN_CPP = re.compile(r"^OpenCV\([^)]*\) \S+: error: ")


def last_line(error: BaseException) -> str:
    """Return the line of MXNet's message with the cause: the last, after the C++ stack; 300 characters at most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return _WHERE_IN_CPP.sub("", lines[-1].replace("MXNetError: ", ""))[:300]


def _out_of_memory(error: BaseException, _found: "re.Match[str]") -> RunError:
    return RunError(OOM, f"MXNet could not allocate memory: {last_line(error)}")


FAILURES = (
    Known((MXNetError,), NO_MEMORY, _out_of_memory),
    Known((MXNetError,), OUT_OF_MEMORY, _out_of_memory),
    Known((MXNetError,), LOST_RING, lost_peer),
    Known((MXNetError,), LOST_PEER, lost_peer),
    Known((MXNetError,), ANY, lambda error, _found: RunError(FAILED, f"MXNet: {last_line(error)}")),
)
