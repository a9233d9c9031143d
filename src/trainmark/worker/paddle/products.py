"""What a forward and backward pass of a model made of matrix products computed."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping

from paddle import nn

from ..tasks.products import Observation, ProductSeen, product_seen
from .weights import read


def observe(
    products: Mapping[str, nn.Linear],
    tensors: Mapping[str, Any],
    look: Callable[[], Any],
    loss_of: Callable[[], Any],
) -> Observation:
    """Run ``look``, which returns the logits, then ``loss_of`` and the backward pass; return what they computed."""
    seen: List[ProductSeen] = []

    def noting(name: str) -> Callable[[Any, Any, Any], None]:
        def note(layer: Any, _given: Any, output: Any) -> None:
            inputs, outputs = layer.weight.shape
            values = output.astype("float32").numpy()
            seen.append(product_seen(name, inputs, outputs, layer.bias is not None, values))

        return note

    hooks = [layer.register_forward_post_hook(noting(name)) for name, layer in products.items()]
    try:
        logits = look().astype("float32").numpy()
    finally:
        for hook in hooks:
            hook.remove()
    loss = loss_of()
    loss.backward()
    gradients = read({name: tensor.grad for name, tensor in tensors.items()})
    for tensor in tensors.values():
        tensor.clear_gradient(set_to_zero=False)
    return Observation(logits, float(loss), gradients, seen)
