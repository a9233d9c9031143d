"""The types in which convolutions and products compute, seen at Paddle's own kernels."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import paddle

PRODUCTS = ("conv2d", "depthwise_conv2d", "depthwise_conv2d_bias", "matmul_v2", "matmul", "linear_v2")
"""The kernels to which convolutions and linear layers come down, going forward."""

FLAG = "FLAGS_low_precision_op_list"
COUNTED = ("float16", "bfloat16", "float32", "another type")
"""Paddle counts the calls of each kernel by these types."""


@contextmanager
def operand_types(layers: Sequence[Tuple[str, Any]]) -> Iterator[Dict[str, str]]:
    """Yield a dictionary that gets, by the names of layers, the type that their products' kernels were chosen for.

    Paddle's debugging of mixed precision counts kernels by type: a layer that turns its inputs to another type and its
    output back, and what ``auto_cast`` makes of its inputs, shows there alone. What runs as a program is told by that.
    """
    types: Dict[str, str] = {}
    core, hooks = paddle.base.core, []

    def entered(_layer: Any, _given: Any) -> None:
        core.clear_low_precision_op_list()

    def leaving(name: str) -> Any:
        def left(_layer: Any, _given: Any, _output: Any) -> None:
            found = _computed_in(core.get_low_precision_op_list())
            if found:
                types[name] = "+".join(found)

        return left

    for name, layer in layers:
        hooks += [
            layer.register_forward_pre_hook(entered),
            layer.register_forward_post_hook(leaving(name)),
        ]
    before = paddle.get_flags(FLAG)
    paddle.set_flags({FLAG: 1})
    try:
        yield types
    finally:
        paddle.set_flags(before)
        core.clear_low_precision_op_list()
        for hook in hooks:
            hook.remove()


def _computed_in(counts: Dict[str, str]) -> List[str]:
    """Return the types of the products among kernels, each with its calls as ``0,0,1,0``."""
    numbers = [counts[kernel].split(",") for kernel in counts if kernel in PRODUCTS]
    return [kind for at, kind in enumerate(COUNTED) if any(int(calls[at]) for calls in numbers)]
