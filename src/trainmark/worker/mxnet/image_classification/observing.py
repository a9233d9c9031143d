"""Weights in and out by the names that all frameworks share, and what the inside of the network computed."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, Tuple

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.gluon import HybridBlock, nn

from ...tasks.image_classification.architectures import ARCHITECTURES, is_trainable
from ...tasks.image_classification.observing import (
    ConvolutionSeen,
    Observation,
    by_shared_names,
    convolution_seen,
)
from ...tasks.image_classification.witness import LayerSeen, LayersSeen, measured
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


@contextmanager
def operator_by_operator(*networks: HybridBlock) -> Iterator[None]:
    """Let hybridized networks run as they are written meanwhile; what was traced of them is kept."""
    active: List[Any] = []
    for network in networks:
        network.apply(lambda block: active.append(block) if getattr(block, "_active", False) else None)
    for block in active:
        block._active = False
    try:
        yield
    finally:
        for block in active:
            block._active = True


def gradients(
    model: HybridBlock, name: str, forward: Callable[[], Tuple[Any, Any]], layout: str
) -> Dict[str, Any]:
    """Run ``forward``, which returns logits and loss, and the backward pass; return the gradients."""
    with autograd.record():
        _, loss = forward()
    loss.backward()
    named = named_parameters(model, name)
    return {
        shared: _from_layout(parameter.grad().asnumpy(), layout)
        if parameter.grad_req != "null"
        else mx.nd.zeros_like(parameter.data()).asnumpy()
        for shared, parameter in named.items()
        if is_trainable(shared)
    }


def watched(model: HybridBlock, name: str, layout: str, step: Callable[[], Any]) -> LayersSeen:
    """Do ``step``, in which ``model`` is called, and return what its layers compute in, and on what.

    The types are those of the network's graph: the one that was traced, or one that is traced now. Its convolutions
    and products are told by what goes into them, whatever is made of it afterwards.
    """
    images: List[Any] = []
    hook = model.register_forward_pre_hook(lambda _block, given: images.append(given[0]))
    try:
        step()
    finally:
        hook.detach()
    if not images:
        return LayersSeen()
    size, mean, deviation = measured(_from_layout(images[0].astype("float32").asnumpy(), layout))
    return LayersSeen(_types(model, name), size, mean, deviation)


def _types(model: HybridBlock, name: str) -> List[LayerSeen]:
    traced = getattr(model, "_cached_graph", ())
    if traced:
        symbol = traced[1]
    else:
        with operator_by_operator(model):
            symbol = model(mx.sym.var("data"))
    inside = symbol.get_internals()
    _, types, _ = inside.infer_type_partial(**dict.fromkeys(symbol.list_inputs(), "float32"))
    described = iter([conv.name for conv in ARCHITECTURES[name].convolutions])
    kinds = {"Convolution": lambda: next(described, "?"), "FullyConnected": lambda: "classifier"}
    nodes = {node["name"]: node["op"] for node in json.loads(inside.tojson())["nodes"]}
    seen: List[LayerSeen] = []
    for output, dtype in zip(inside.list_outputs(), types):
        kind = nodes.get(output[: -len("_output")]) if output.endswith("_output") else None
        if kind in kinds:
            known = np.dtype(dtype)
            seen.append(LayerSeen(kinds[kind](), "bfloat16" if known.names else str(known)))
    return seen


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
