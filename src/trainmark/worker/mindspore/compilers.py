"""The ``compiler`` axis in MindSpore: its own two ways to run a network."""

from __future__ import annotations

import mindspore as ms

from ..core.choices import one_of

NONE = "none"
GRAPH = "graph"


def choose_mode(name: str) -> None:
    """Let cells be run operator by operator (``none``) or compiled as a whole (``graph``).

    Raises ``RunError`` if MindSpore has no such compiler.
    """
    one_of("MindSpore", "compiler", name, (NONE, GRAPH))
    if name == GRAPH:
        ms.set_context(mode=ms.GRAPH_MODE)
        return
    ms.set_context(mode=ms.PYNATIVE_MODE)
    # Operators are handed from queue to queue by threads that spin while they wait. That hides the latency of an
    # accelerator; on a CPU the threads take the cores from the kernels.
    ms.runtime.launch_blocking()
