"""What the matrix products of a model give while it is passed, and what a forward and backward pass computed."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import Any, Callable, Dict, Iterator, List

from torch import nn

from ..tasks.products import Observation, ProductSeen, product_seen
from .weights import read


class NamedModel(nn.Module):
    """A model that tells its products and its parameters by the shared names."""

    def named_products(self) -> Dict[str, nn.Linear]:
        """Return the products, in forward order."""
        raise NotImplementedError

    def named_tensors(self) -> Dict[str, Any]:
        """Return the parameters."""
        raise NotImplementedError


@contextmanager
def noting(model: NamedModel, note: Callable[[str, Any, Any, Any], None]) -> Iterator[None]:
    """Let ``note`` get each product's name, the product, what it is given and what it gives, within the context."""
    hooks = [
        product.register_forward_hook(partial(note, name)) for name, product in model.named_products().items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def observe(
    model: NamedModel, look: Callable[[], Any], loss_of: Callable[[], Any], average: Callable[[], None]
) -> Observation:
    """Run ``loss_of`` and the backward pass; return what they computed.

    ``average`` makes the gradients their mean over the ranks, as the step does; ``look`` returns the logits.
    """
    seen: List[ProductSeen] = []

    def note(name: str, product: Any, _given: Any, output: Any) -> None:
        values = output.detach().float().cpu().numpy()
        outputs, inputs = product.weight.shape
        seen.append(product_seen(name, inputs, outputs, product.bias is not None, values))

    with noting(model, note):
        logits = look().float().cpu().numpy()
    loss = loss_of()
    loss.backward()
    average()
    gradients = read({name: tensor.grad for name, tensor in model.named_tensors().items()})
    model.zero_grad(set_to_none=True)
    return Observation(logits, float(loss.detach()), gradients, seen)
