"""Weights in and out by the names that all frameworks share, and what a forward and backward pass computed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Tuple

import numpy as np
from paddle import nn

from ...tasks.image_classification.architectures import is_trainable
from ...tasks.image_classification.observing import (
    ConvolutionSeen,
    Observation,
    by_shared_names,
    convolution_seen,
)
from .networks import ConvNorm, conv_norms

CLASSIFIER = "classifier.weight"

_VECTORS = {"weight": "weight", "bias": "bias", "running_mean": "_mean", "running_var": "_variance"}


def named_tensors(network: nn.Layer, model: str) -> Dict[str, Any]:
    """Return the network's parameters and running statistics by the names of ``Architecture.shapes``."""
    units = conv_norms(network)
    convolutions, norms = [unit.conv for unit in units], [unit.norm for unit in units]
    return by_shared_names(model, convolutions, norms, network.classifier.linear, _VECTORS)


def load(tensors: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    """Copy numpy arrays into the tensors of the same names."""
    for name, tensor in tensors.items():
        tensor.set_value(np.ascontiguousarray(_turned(name, weights[name])))


def read(tensors: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the tensors as numpy arrays in FP32, copied."""
    return {name: np.array(_turned(name, tensor.numpy()), np.float32) for name, tensor in tensors.items()}


def _turned(name: str, array: Any) -> Any:
    """Turn the classifier's weights: Paddle keeps them as (features, classes). Convolutions are as exchanged."""
    return array.T if name == CLASSIFIER else array


def observe(
    network: nn.Layer, forward: Callable[[], Tuple[Any, Any]], tensors: Mapping[str, Any]
) -> Observation:
    """Run ``forward``, which returns logits and loss, and the backward pass; return what they computed."""
    seen: List[ConvolutionSeen] = []
    hooks = [unit.conv.register_forward_post_hook(_noting(unit, seen)) for unit in conv_norms(network)]
    try:
        logits, loss = forward()
    finally:
        for hook in hooks:
            hook.remove()
    loss.backward()
    gradients = read({name: tensor.grad for name, tensor in tensors.items() if is_trainable(name)})
    for tensor in tensors.values():
        tensor.clear_gradient(set_to_zero=False)
    return Observation(logits.numpy(), float(loss), gradients, seen)


def _noting(unit: ConvNorm, seen: List[ConvolutionSeen]) -> Callable[[Any, Any, Any], None]:
    name = unit.description.name

    def note(conv: Any, _inputs: Any, output: Any) -> None:
        values = output.numpy()
        if conv._data_format == "NHWC":
            values = values.transpose(0, 3, 1, 2)
        height, width = conv._updated_padding
        padding = ((height, height), (width, width))
        seen.append(
            convolution_seen(name, conv.weight.shape[2:], conv._stride, padding, conv._groups, values)
        )

    return note
