"""The types in which convolutions and products compute, seen at TensorFlow's own operations."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Sequence

from tensorflow.python.framework import op_callbacks

PRODUCTS = ("Conv2D", "DepthwiseConv2dNative", "MatMul", "_FusedConv2D", "_FusedMatMul")
"""The operations to which convolutions and dense layers come down, going forward."""


@contextmanager
def operand_types(layers: Sequence[Any]) -> Iterator[Dict[str, str]]:
    """Yield a dictionary that gets, by the names of Keras layers, the type of what goes into their products.

    A layer that turns its inputs to another type and its output back shows it here alone. ``layers`` are called
    operator by operator meanwhile; what runs as a graph is told by the graph.
    """
    types: Dict[str, str] = {}
    inside: List[str] = []

    def entering(layer: Any, call: Any) -> Any:
        def called(*given: Any, **named: Any) -> Any:
            inside.append(layer.name)
            try:
                return call(*given, **named)
            finally:
                inside.pop()

        return called

    def note(kind: Any, given: Any, _attributes: Any, _outputs: Any, *_names: Any, **_more: Any) -> None:
        # Operations that Keras calls by TensorFlow's fast path are named by bytes.
        word = kind.decode() if isinstance(kind, bytes) else kind
        if inside and word in PRODUCTS:
            types[inside[-1]] = given[0].dtype.name

    calls = [layer.call for layer in layers]
    for layer, call in zip(layers, calls):
        layer.call = entering(layer, call)
    op_callbacks.add_op_callback(note)
    try:
        yield types
    finally:
        op_callbacks.remove_op_callback(note)
        for layer, call in zip(layers, calls):
            layer.call = call
