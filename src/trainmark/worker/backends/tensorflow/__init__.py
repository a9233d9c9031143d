"""The backend of TensorFlow, 2.16 or later, with Keras 3; its failures."""

import os
import re
import sys

# Before the first import: information and warnings of the C++ side (instruction sets, a missing GPU) are
# switched off, errors are not; and Keras must not follow a configuration file to another backend.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"
# Nothing is left on a host: Keras writes a configuration into a home that has none, and Python the bytecode of each
# function that tf.function has rewritten beside the temporary file in /tmp.
os.environ["KERAS_HOME"] = "/dev/null/keras"
sys.dont_write_bytecode = True

import tensorflow as tf  # noqa: E402 - after the variables that it reads

from ...core.outcomes import FAILED, LOST_PEER, OOM, OUT_OF_MEMORY, Known, RunError, first_sentence  # noqa: E402

__all__ = ["FAILURES"]

# "Status: 1" is oneDNN's dnnl_out_of_memory.
NO_MEMORY = re.compile(
    OUT_OF_MEMORY.pattern + r"|OOM when allocating|received an exception: ?Status: 1\b", re.IGNORECASE
)
WANTED = re.compile(
    r"OOM when allocating tensor with shape ?\[[^]]*\] and type \w+|allocate \d+ ?(bytes|[KMG]iB)"
)
ANYTHING = re.compile("")
COLLECTIVE = re.compile(r"Collective|RecvBuf|coordination", re.IGNORECASE)
PEER = re.compile(LOST_PEER.pattern + r"|Deadline exceeded|health check failed", LOST_PEER.flags)
PEER_OF_A_COLLECTIVE = re.compile(f"(?=.*({COLLECTIVE.pattern})).*?({PEER.pattern})", PEER.flags)


def plain_sentence(error: BaseException) -> str:
    """Return the first sentence of TensorFlow's message without the graph's names around it."""
    text = re.sub(r"\{\{[^}]*\}\}|\[Op:\w+\]( name:.*)?", "", str(error)).strip()
    return first_sentence(type(error)(None, None, text) if isinstance(error, tf.errors.OpError) else error)


def _no_memory(error: BaseException, _found: "re.Match[str]") -> RunError:
    """Return the part of TensorFlow's message that says what could not be had."""
    text = str(error)
    wanted = WANTED.search(text)
    where = "GPU" if re.search(r"GPU_|CUDA", text) else "host"
    return RunError(OOM, f"the {where} is out of memory" + (f": {wanted.group(0)}" if wanted else ""))


def _no_peer(error: BaseException, _found: "re.Match[str]") -> RunError:
    found = PEER.search(str(error))
    words = " ".join(found.group(0).split()) if found else type(error).__name__
    return RunError(FAILED, f"lost contact with another rank: {words}", peer_lost=True)


OWN = (tf.errors.OpError, RuntimeError)

FAILURES = (
    Known((tf.errors.ResourceExhaustedError,), ANYTHING, _no_memory),
    Known(OWN, NO_MEMORY, _no_memory),
    # A collective, and not this rank's own work, came to an end.
    Known((tf.errors.UnavailableError, tf.errors.DeadlineExceededError), ANYTHING, _no_peer),
    Known((tf.errors.AbortedError, tf.errors.CancelledError), COLLECTIVE, _no_peer),
    Known(OWN, PEER_OF_A_COLLECTIVE, _no_peer),
)
