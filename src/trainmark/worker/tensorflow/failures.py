"""Which of the run's outcomes an exception of TensorFlow is."""

from __future__ import annotations

import re
from typing import Optional

import tensorflow as tf

from ..outcomes import FAILED, OOM, UNSUPPORTED, RunError, any_cause, first_sentence

# "Status: 1" is oneDNN's dnnl_out_of_memory.
OUT_OF_MEMORY = re.compile(
    r"OOM when allocating|RESOURCE_EXHAUSTED|out of memory|CUDA_ERROR_OUT_OF_MEMORY|std::bad_alloc|"
    r"received an exception: ?Status: 1\b",
    re.IGNORECASE,
)
WANTED = re.compile(
    r"OOM when allocating tensor with shape ?\[[^]]*\] and type \w+|allocate \d+ ?(bytes|[KMG]iB)"
)
COLLECTIVE = re.compile(r"Collective|RecvBuf|coordination", re.IGNORECASE)
PEER = re.compile(
    r"Connection (?:reset by peer|refused)|Socket closed|[Ff]ailed to connect|Broken pipe|"
    r"Deadline [Ee]xceeded|health check failed",
)
LAYOUT = re.compile(r"only supports? (?:the )?NHWC|NHWC tensor format", re.IGNORECASE)


def stopped_by(error: BaseException) -> Optional[RunError]:
    """Return the outcome of a failure that is known by its type or its text, or None."""
    for cause in any_cause(error):
        text = str(cause)
        if isinstance(cause, MemoryError):
            return RunError(OOM, "the host could not allocate memory")
        if not isinstance(cause, (tf.errors.OpError, RuntimeError)):
            continue
        if isinstance(cause, tf.errors.ResourceExhaustedError) or OUT_OF_MEMORY.search(text):
            return RunError(OOM, _memory_sentence(text))
        if LAYOUT.search(text):
            return RunError(
                UNSUPPORTED,
                "without XLA, TensorFlow computes nchw on a CPU through oneDNN, which is off here "
                "(TF_ENABLE_ONEDNN_OPTS=0, or a CPU without the instructions that it wants)",
            )
        if _is_lost_peer(cause, text):
            seen = PEER.search(text)
            words = seen.group(0) if seen else type(cause).__name__
            return RunError(FAILED, f"lost contact with another rank: {words}", peer_lost=True)
    return None


def plain_sentence(error: BaseException) -> str:
    """Return the first sentence of TensorFlow's message without the graph's names around it."""
    text = re.sub(r"\{\{[^}]*\}\}|\[Op:\w+\]( name:.*)?", "", str(error)).strip()
    return first_sentence(type(error)(None, None, text) if isinstance(error, tf.errors.OpError) else error)


def _is_lost_peer(error: BaseException, text: str) -> bool:
    """Tell whether a collective, and not this rank's own work, came to an end."""
    if isinstance(error, (tf.errors.UnavailableError, tf.errors.DeadlineExceededError)):
        return True
    return bool(COLLECTIVE.search(text)) and (
        isinstance(error, (tf.errors.AbortedError, tf.errors.CancelledError)) or bool(PEER.search(text))
    )


def _memory_sentence(text: str) -> str:
    """Return the part of TensorFlow's message that says what could not be had."""
    wanted = WANTED.search(text)
    where = "GPU" if re.search(r"GPU_|CUDA", text) else "host"
    if wanted is None:
        return f"the {where} is out of memory"
    return f"the {where} is out of memory: {wanted.group(0)}"
