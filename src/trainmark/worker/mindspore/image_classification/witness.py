"""Observe the types and layouts of a training step, because a request proves nothing."""

from __future__ import annotations

from typing import Any, List

from mindspore import nn

from .observing import Output, cells, convolutions_in_graph


class HookWitness:
    """Observes the second convolution while operators run one by one.

    The input of the second one has passed the stem, so its type is the type of the network's computation.
    """

    def __init__(self, model: nn.Cell) -> None:
        """Register the hook in the model."""
        self._seen: List[Output] = []
        self._hook = cells(model, nn.Conv2d)[1].register_forward_hook(self._see)

    def _see(self, _cell: nn.Cell, _inputs: Any, output: Any) -> None:
        self._seen.append(Output(str(output.dtype).lower(), tuple(output.shape)))

    def look(self) -> Output:
        """Remove the hook and return the observation of the first step."""
        self._hook.remove()
        return self._seen[0]


def in_graph(step: nn.Cell) -> Output:
    """Return the same observation from a compiled step."""
    return convolutions_in_graph(step)[1]
