"""Sees what a training step really computed with: the request is not the proof."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Tuple

from mindspore import nn
from mindspore.train.anf_ir_pb2 import DataType, ModelProto

from .observing import cells


class Output(NamedTuple):
    """The output of the network's second convolution: its type, like ``float16``, and its shape."""

    dtype: str
    shape: Tuple[int, ...]


class HookWitness:
    """Watches the second convolution while operators are run one by one.

    The second, because its input has been through the stem: its type is that of the network's inside.
    """

    def __init__(self, model: nn.Cell) -> None:
        """Hook into the model."""
        self._seen: List[Output] = []
        self._hook = cells(model, nn.Conv2d)[1].register_forward_hook(self._see)

    def _see(self, _cell: nn.Cell, _inputs: Any, output: Any) -> None:
        self._seen.append(Output(str(output.dtype).lower(), tuple(output.shape)))

    def look(self) -> Output:
        """Take the hook away and return what the first step showed."""
        self._hook.remove()
        return self._seen[0]


def in_graph(step: nn.Cell) -> Output:
    """Return the same from a compiled step: the type of the second convolution in MindSpore's own graph of it.

    A hook would be compiled with the network and could not tell anything.
    """
    model = ModelProto()
    model.ParseFromString(step.get_func_graph_proto())
    second = [node for node in model.graph.node if node.op_type == "Conv2D"][1]
    tensor = second.output_type.tensor_type
    name = DataType.Name(tensor.elem_type).replace("DT_", "").lower()
    return Output(name, tuple(int(side.size) for side in tensor.shape.dim))
