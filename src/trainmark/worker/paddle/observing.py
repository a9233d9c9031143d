"""Weights in and out by the names that all frameworks share, and what a forward and backward pass computed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Tuple

import numpy as np
import paddle
from paddle import nn

from ..architectures import is_trainable
from ..training import ConvolutionSeen, Observation
from .networks import ConvNorm, conv_norms

CLASSIFIER = "classifier.weight"


def named_tensors(network: nn.Layer) -> Dict[str, Any]:
    """Return the network's parameters and running statistics by the names of ``Architecture.shapes``."""
    named: Dict[str, Any] = {}
    for unit in conv_norms(network):
        name = unit.description.name
        named[name + ".conv.weight"] = unit.conv.weight
        named[name + ".bn.weight"] = unit.norm.weight
        named[name + ".bn.bias"] = unit.norm.bias
        named[name + ".bn.running_mean"] = unit.norm._mean
        named[name + ".bn.running_var"] = unit.norm._variance
    linear = network.classifier.linear
    return {**named, CLASSIFIER: linear.weight, "classifier.bias": linear.bias}


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
    """Run ``forward``, which returns logits and loss, and the backward pass; return what they computed.

    A compiled network is run operator by operator here, since no hook sees inside a program.
    """
    seen: List[ConvolutionSeen] = []
    hooks = [unit.conv.register_forward_post_hook(_noting(unit, seen)) for unit in conv_norms(network)]
    paddle.jit.enable_to_static(False)
    try:
        logits, loss = forward()
        loss.backward()
    finally:
        paddle.jit.enable_to_static(True)
        for hook in hooks:
            hook.remove()
    gradients = read({name: tensor.grad for name, tensor in tensors.items() if is_trainable(name)})
    for tensor in tensors.values():
        tensor.clear_gradient(set_to_zero=False)
    return Observation(logits.numpy(), float(loss), gradients, seen)


def _noting(unit: ConvNorm, seen: List[ConvolutionSeen]) -> Callable[[Any, Any, Any], None]:
    def note(conv: Any, _inputs: Any, output: Any) -> None:
        values = output.numpy()
        if conv._data_format == "NHWC":
            values = values.transpose(0, 3, 1, 2)
        height, width = conv._updated_padding
        seen.append(
            ConvolutionSeen(
                name=unit.description.name,
                kernel=tuple(conv.weight.shape[2:]),
                stride=tuple(conv._stride),
                padding=((height, height), (width, width)),
                groups=conv._groups,
                output=values.shape,
                output_norm=float(np.linalg.norm(values.astype(np.float64))),
            )
        )

    return note
