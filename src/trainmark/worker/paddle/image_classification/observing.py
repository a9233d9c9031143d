"""Weights in and out by the names that all frameworks share, and what a forward and backward pass computed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import paddle
from paddle import nn

from ...tasks.image_classification.architectures import is_trainable
from ...tasks.image_classification.observing import (
    ConvolutionSeen,
    Observation,
    by_shared_names,
    convolution_seen,
)
from ...tasks.image_classification.witness import LayerSeen, LayersSeen, measured
from ..operations import operand_types
from ..precision import type_name
from ..weights import read
from .networks import ConvNorm, conv_norms

_VECTORS = {"weight": "weight", "bias": "bias", "running_mean": "_mean", "running_var": "_variance"}


def named_tensors(network: nn.Layer, model: str) -> Dict[str, Any]:
    """Return the network's parameters and running statistics by the names of ``Architecture.shapes``."""
    units = conv_norms(network)
    convolutions, norms = [unit.conv for unit in units], [unit.norm for unit in units]
    return by_shared_names(model, convolutions, norms, network.classifier.linear, _VECTORS)


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


def gradients(forward: Callable[[], Tuple[Any, Any]], tensors: Mapping[str, Any]) -> Dict[str, Any]:
    """Run ``forward``, which returns logits and loss, and the backward pass; return the gradients."""
    _, loss = forward()
    loss.backward()
    found = {
        name: paddle.zeros_like(tensor) if tensor.grad is None else tensor.grad
        for name, tensor in tensors.items()
        if is_trainable(name)
    }
    read_out = read(found)
    for tensor in tensors.values():
        tensor.clear_gradient(set_to_zero=False)
    return read_out


def watched(learner: nn.Layer, layout: str, step: Callable[[], Any], program: Optional[Any]) -> LayersSeen:
    """Do ``step``, in which ``learner`` is called, and return what its layers computed in, and on what.

    ``program`` is the compiled one, whose layers have no hooks.
    """
    images: List[Any] = []
    norms: Dict[str, bool] = {}
    network = learner.network

    def note_norm(name: str) -> Callable[[Any, Any], None]:
        def seen(norm: Any, _given: Any) -> None:
            norms[name] = bool(norm.training)

        return seen

    units = conv_norms(network)
    products = [(unit.description.name, unit.conv) for unit in units]
    products.append(("classifier", network.classifier.linear))
    hooks = [learner.register_forward_pre_hook(lambda _layer, given: images.append(given[0]))]
    if program is None:
        hooks += [unit.norm.register_forward_pre_hook(note_norm(unit.description.name)) for unit in units]
    try:
        with operand_types(products if program is None else ()) as types:
            step()
    finally:
        for hook in hooks:
            hook.remove()
    layers = [LayerSeen(name, dtype) for name, dtype in types.items()]
    if program is not None:
        layers = _in_program(program)
        norms = {unit.description.name: bool(unit.norm.training) for unit in units}
    if not images:
        return LayersSeen()
    pictures = images[0].numpy()
    size, mean, deviation = measured(pictures.transpose(0, 3, 1, 2) if layout == "nhwc" else pictures)
    return LayersSeen(
        layers, size, mean, deviation, [name for name, training in norms.items() if not training]
    )


def _in_program(program: Any) -> List[LayerSeen]:
    """Return the convolutions and products of a compiled program, and the types of their results."""
    kinds = ("pd_op.conv2d", "pd_op.depthwise_conv2d", "pd_op.matmul")
    operations = [operation for operation in program.global_block().ops if operation.name() in kinds]
    return [
        LayerSeen(f"{operation.name()} {number}", type_name(operation.results()[0].dtype))
        for number, operation in enumerate(operations)
    ]


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
