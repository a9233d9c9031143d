"""The ``compiler`` axis in OneFlow: eager, or the whole training step as one ``nn.Graph`` (``graph.py``)."""

from __future__ import annotations

from ..core.choices import one_of

NONE, GRAPH = "none", "graph"


def check_compiler(name: str) -> None:
    """Raise ``RunError`` (unsupported) for a compiler that is not there."""
    one_of("OneFlow", "compiler", name, (NONE, GRAPH))
