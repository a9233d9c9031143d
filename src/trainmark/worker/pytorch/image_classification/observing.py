"""Weights in and out by the names that all frameworks share, and what a forward and backward pass computed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import nn

from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.observing import (
    ConvolutionSeen,
    Observation,
    by_shared_names,
    convolution_seen,
)
from ..weights import read


def named_tensors(model: nn.Module, name: str) -> Dict[str, Any]:
    """Return the model's parameters and running statistics by the names of ``Architecture.shapes``."""
    (classifier,) = _modules(model, nn.Linear)
    return by_shared_names(name, _modules(model, nn.Conv2d), _modules(model, nn.BatchNorm2d), classifier)


def observe(
    model: nn.Module,
    name: str,
    layers: Callable[[], Any],
    forward: Callable[[], Tuple[Any, Any]],
    average: Callable[[], None],
) -> Observation:
    """Run ``forward``, which returns logits and loss, and the backward pass; return what they computed.

    ``average`` makes the gradients their mean over the ranks, as the step does.

    ``layers`` runs the model's modules one by one, so that each convolution can be looked at. ``forward`` may be
    compiled: it then runs without any hook, since those would be compiled with it into another program.
    """
    seen: List[ConvolutionSeen] = []
    hooks = [
        conv.register_forward_hook(_noting(layer.name, seen))
        for layer, conv in zip(ARCHITECTURES[name].convolutions, _modules(model, nn.Conv2d))
    ]
    try:
        with torch.no_grad():
            layers()
    finally:
        for hook in hooks:
            hook.remove()
    logits, loss = forward()
    loss.backward()
    average()
    tensors = named_tensors(model, name)
    gradients = read({key: tensor.grad for key, tensor in tensors.items() if tensor.requires_grad})
    model.zero_grad(set_to_none=True)
    return Observation(logits.detach().float().cpu().numpy(), float(loss.detach()), gradients, seen)


def _modules(model: nn.Module, kind: Any) -> List[Any]:
    return [module for module in model.modules() if isinstance(module, kind)]


def _noting(name: str, seen: List[ConvolutionSeen]) -> Callable[[Any, Any, Any], None]:
    def note(conv: Any, _inputs: Any, output: Any) -> None:
        (top, left), values = conv.padding, output.detach().float().cpu().numpy()
        padding = ((top, top), (left, left))
        seen.append(convolution_seen(name, conv.kernel_size, conv.stride, padding, conv.groups, values))

    return note
