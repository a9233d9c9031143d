"""The types in which convolutions and products compute, seen at MindSpore's own operators."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, List, Tuple

from mindspore import ops
from mindspore.ops import primitive

CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")


@contextmanager
def computed_in() -> Iterator[Tuple[List[str], List[str]]]:
    """Yield two lists that get the types of convolutions and of matrix products, in the order of the forward pass.

    An operator takes and gives one type, whatever its cell turns to and fro; mixed precision turns its inputs
    inside of it, so that the result is what tells. In a graph nothing is seen here.
    """
    convolutions: List[str] = []
    products: List[str] = []
    run, multiply = primitive._run_op, ops.MatMul.__call__

    def noting(operator: Any, name: str, given: Any) -> Any:
        result = run(operator, name, given)
        if name in CONVOLUTIONS:
            convolutions.append(str(result.dtype).lower())
        return result

    def multiplied(operator: Any, *given: Any) -> Any:
        result = multiply(operator, *given)
        products.append(str(result.dtype).lower())
        return result

    primitive._run_op, ops.MatMul.__call__ = noting, multiplied
    try:
        yield convolutions, products
    finally:
        primitive._run_op, ops.MatMul.__call__ = run, multiply
