"""What a forward and backward pass of a language model computed, and what its products computed in."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from ...tasks.causal_lm.observing import LayersSeen, Observation, ProductSeen, product_seen
from ..weights import read
from .model import LanguageModel


def observe(
    model: LanguageModel, look: Callable[[], Any], loss_of: Callable[[], Any], average: Callable[[], None]
) -> Observation:
    """Run ``loss_of`` and the backward pass; return what they computed.

    ``average`` makes the gradients their mean over the ranks, as the step does; ``look`` returns the logits.
    """
    seen: List[ProductSeen] = []

    def noting(name: str) -> Callable[[Any, Any, Any], None]:
        def note(product: Any, _given: Any, output: Any) -> None:
            values = output.detach().float().cpu().numpy()
            outputs, inputs = product.weight.shape
            seen.append(product_seen(name, inputs, outputs, product.bias is not None, values))

        return note

    hooks = [product.register_forward_hook(noting(name)) for name, product in model.named_products().items()]
    try:
        logits = look().float().cpu().numpy()
    finally:
        for hook in hooks:
            hook.remove()
    loss = loss_of()
    loss.backward()
    average()
    gradients = read({name: tensor.grad for name, tensor in model.named_tensors().items()})
    model.zero_grad(set_to_none=True)
    return Observation(logits, float(loss.detach()), gradients, seen)


def watched(model: LanguageModel, step: Callable[[], Any]) -> LayersSeen:
    """Do ``step``, in which the model is called, and return what its products computed in, and on how many tokens."""
    types: Dict[str, str] = {}
    lengths: List[int] = []

    def noting(name: str) -> Callable[[Any, Any, Any], None]:
        def note(_product: Any, given: Any, output: Any) -> None:
            types[name] = str(output.dtype).replace("torch.", "")
            lengths.append(given[0].shape[1])

        return note

    hooks = [product.register_forward_hook(noting(name)) for name, product in model.named_products().items()]
    try:
        step()
    finally:
        for hook in hooks:
            hook.remove()
    return LayersSeen(types, lengths[0] if lengths else None)
