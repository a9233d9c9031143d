"""Weights in and out by the names that all frameworks share, and what a forward and backward pass computed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Tuple

import numpy as np
import torch
from torch import nn

from ..architectures import ARCHITECTURES
from ..training import ConvolutionSeen, Observation


def named_tensors(model: nn.Module, name: str) -> Dict[str, Any]:
    """Return the model's parameters and running statistics by the names of ``Architecture.shapes``.

    The convolutions of the modules are in the order of the forward pass, as the description's are.
    """
    convolutions, norms = _layers(model)
    named: Dict[str, Any] = {}
    for layer, conv, norm in zip(ARCHITECTURES[name].convolutions, convolutions, norms):
        named[layer.name + ".conv.weight"] = conv.weight
        for vector in ("weight", "bias", "running_mean", "running_var"):
            named[layer.name + ".bn." + vector] = getattr(norm, vector)
    (classifier,) = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return {**named, "classifier.weight": classifier.weight, "classifier.bias": classifier.bias}


def load(tensors: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    """Copy numpy arrays into the tensors of the same names; their layout in memory stays."""
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(torch.from_numpy(np.ascontiguousarray(weights[name])))


def read(tensors: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the tensors as numpy arrays in FP32, copied."""
    return {
        name: tensor.detach().float().cpu().contiguous().numpy().copy() for name, tensor in tensors.items()
    }


def observe(
    model: nn.Module, name: str, forward: Callable[[], Tuple[Any, Any]], tensors: Mapping[str, Any]
) -> Observation:
    """Run ``forward``, which returns logits and loss, and the backward pass; return what they computed."""
    seen: List[ConvolutionSeen] = []
    convolutions, _ = _layers(model)
    hooks = [
        conv.register_forward_hook(_noting(layer.name, seen))
        for layer, conv in zip(ARCHITECTURES[name].convolutions, convolutions)
    ]
    try:
        logits, loss = forward()
        loss.backward()
    finally:
        for hook in hooks:
            hook.remove()
    gradients = read({key: tensor.grad for key, tensor in tensors.items() if tensor.requires_grad})
    model.zero_grad(set_to_none=True)
    return Observation(logits.detach().float().cpu().numpy(), float(loss.detach()), gradients, seen)


def _layers(model: nn.Module) -> Tuple[List[Any], List[Any]]:
    modules = list(model.modules())
    return (
        [module for module in modules if isinstance(module, nn.Conv2d)],
        [module for module in modules if isinstance(module, nn.BatchNorm2d)],
    )


def _noting(name: str, seen: List[ConvolutionSeen]) -> Callable[[Any, Any, Any], None]:
    def note(conv: Any, _inputs: Any, output: Any) -> None:
        (top, left), (height, width) = conv.padding, conv.kernel_size
        seen.append(
            ConvolutionSeen(
                name=name,
                kernel=(height, width),
                stride=tuple(conv.stride),
                padding=((top, top), (left, left)),
                groups=conv.groups,
                output=tuple(output.shape),
                output_norm=float(output.detach().double().norm()),
            )
        )

    return note
