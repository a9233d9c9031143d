"""Weights in and out by the names that all frameworks share, and what the inside of the network computed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Tuple

import mxnet as mx
from mxnet import autograd
from mxnet.gluon import HybridBlock, nn

from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.observing import (
    ConvolutionSeen,
    Observation,
    by_shared_names,
    convolution_seen,
)
from .network import blocks

_VECTORS = {
    "weight": "gamma",
    "bias": "beta",
    "running_mean": "running_mean",
    "running_var": "running_var",
}


def named_parameters(model: HybridBlock, name: str) -> Dict[str, Any]:
    """Return Gluon's parameters, running statistics among them, by the names of ``Architecture.shapes``."""
    (classifier,) = blocks(model, nn.Dense)
    return by_shared_names(name, blocks(model, nn.Conv2D), blocks(model, nn.BatchNorm), classifier, _VECTORS)


def load(parameters: Mapping[str, Any], weights: Mapping[str, Any], layout: str) -> None:
    """Copy numpy arrays into the parameters of the same names."""
    for name, parameter in parameters.items():
        parameter.set_data(mx.nd.array(_to_layout(weights[name], layout), dtype="float32"))


def read(parameters: Mapping[str, Any], layout: str) -> Dict[str, Any]:
    """Return the parameters as numpy arrays in FP32, copied."""
    return {name: _from_layout(parameter.data().asnumpy(), layout) for name, parameter in parameters.items()}


def _to_layout(array: Any, layout: str) -> Any:
    return array.transpose(0, 2, 3, 1) if layout == "nhwc" and array.ndim == 4 else array


def _from_layout(array: Any, layout: str) -> Any:
    return array.transpose(0, 3, 1, 2) if layout == "nhwc" and array.ndim == 4 else array


def observe(
    model: HybridBlock, name: str, forward: Callable[[], Tuple[Any, Any]], layout: str
) -> Observation:
    """Run ``forward``, which returns logits and loss, and the backward pass; return what they computed."""
    seen: List[ConvolutionSeen] = []
    hooks = [
        conv.register_forward_hook(_noting(layer.name, layout, seen))
        for layer, conv in zip(ARCHITECTURES[name].convolutions, blocks(model, nn.Conv2D))
    ]
    try:
        with autograd.record():
            logits, loss = forward()
    finally:
        for hook in hooks:
            hook.detach()
    loss.backward()
    gradients = {
        shared: _from_layout(parameter.grad().asnumpy(), layout)
        for shared, parameter in named_parameters(model, name).items()
        if parameter.grad_req != "null"
    }
    return Observation(logits.astype("float32").asnumpy(), float(loss.asscalar()), gradients, seen)


def _noting(name: str, layout: str, seen: List[ConvolutionSeen]) -> Callable[[Any, Any, Any], None]:
    def note(conv: Any, _inputs: Any, output: Any) -> None:
        values = _from_layout(output.astype("float32").asnumpy(), layout)
        # What Gluon hands to the operator.
        operator = conv._kwargs
        top, left = operator["pad"]
        padding = ((top, top), (left, left))
        groups = operator["num_group"]
        seen.append(convolution_seen(name, operator["kernel"], operator["stride"], padding, groups, values))

    return note
