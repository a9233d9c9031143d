"""The ``compiler`` axis in OneFlow: eager, or the whole training step as one ``nn.Graph`` (``graph.py``)."""

from __future__ import annotations

from ..core.choices import one_of
from ..core.outcomes import UNSUPPORTED, RunError

NONE, GRAPH = "none", "graph"


def check_compiler(name: str, world_size: int) -> None:
    """Raise ``RunError`` (unsupported) for a compiler that is not there, or not for so many ranks."""
    one_of("OneFlow", "compiler", name, (NONE, GRAPH))
    if name == GRAPH and world_size > 1:
        raise RunError(
            UNSUPPORTED,
            "nn.Graph trains on several ranks by global tensors, which this worker does not use; take compiler none",
        )
