"""Weights in and out by the names that all frameworks share, and what the convolutions of the network did."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import keras
import tensorflow as tf

from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.observing import ConvolutionSeen, convolution_seen
from ...tasks.image_classification.witness import LayerSeen
from ..operations import PRODUCTS, operand_types
from ..weights import NamedVariable
from .network import Network


def named_variables(model: Any, name: str) -> Dict[str, NamedVariable]:
    """Return parameters and running statistics by the names of ``Architecture.shapes``."""
    named: Dict[str, NamedVariable] = {}
    for conv in ARCHITECTURES[name].convolutions:
        layer, norm = model.get_layer(conv.name + ".conv"), model.get_layer(conv.name + ".bn")
        # Kernels are (height, width, inputs, outputs); of depthwise convolutions (height, width, channels, 1).
        order = (3, 2, 0, 1) if conv.groups == 1 else (2, 3, 0, 1)
        named[conv.name + ".conv.weight"] = NamedVariable(layer.kernel, order)
        named[conv.name + ".bn.weight"] = NamedVariable(norm.gamma, (0,))
        named[conv.name + ".bn.bias"] = NamedVariable(norm.beta, (0,))
        named[conv.name + ".bn.running_mean"] = NamedVariable(norm.moving_mean, (0,))
        named[conv.name + ".bn.running_var"] = NamedVariable(norm.moving_variance, (0,))
    classifier = model.get_layer("classifier")
    named["classifier.weight"] = NamedVariable(classifier.kernel, (1, 0))
    named["classifier.bias"] = NamedVariable(classifier.bias, (0,))
    return named


def see_convolutions(network: Network, name: str, images: Any) -> List[ConvolutionSeen]:
    """Return what the network's own layers say of its convolutions, and what came out of them for ``images``."""
    outputs = keras.Model(network.model.inputs, list(network.outputs.values()))(images, training=True)
    return [
        _seen(conv.name, network.model.get_layer(conv.name + ".conv"), output)
        for conv, output in zip(ARCHITECTURES[name].convolutions, outputs)
    ]


def layers_of(graph: Any) -> List[LayerSeen]:
    """Return the convolutions and products of a graph and of the functions that it calls, and their types."""
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return [
        LayerSeen(node.name, tf.dtypes.as_dtype(node.attr["T"].type).name)
        for node in nodes
        if node.op in PRODUCTS
    ]


def watched(model: Any, name: str, step: Callable[[], Any]) -> List[LayerSeen]:
    """Do ``step``, in which the layers of ``model`` are called one by one, and return what they computed in."""
    names = [conv.name + ".conv" for conv in ARCHITECTURES[name].convolutions] + ["classifier"]
    with operand_types([model.get_layer(layer) for layer in names]) as types:
        step()
    return [LayerSeen(layer, dtype) for layer, dtype in types.items()]


def _seen(name: str, layer: Any, output: Any) -> ConvolutionSeen:
    values, sides = output.numpy(), layer.input.shape[2:4]
    if layer.data_format == "channels_last":
        values, sides = values.transpose(0, 3, 1, 2), layer.input.shape[1:3]
    depthwise = isinstance(layer, keras.layers.DepthwiseConv2D)
    groups = values.shape[1] if depthwise else layer.groups
    padding = _padding(layer, values.shape[2:], sides)
    return convolution_seen(name, layer.kernel_size, layer.strides, padding, groups, values)


def _padding(
    layer: Any, output: Tuple[int, int], sides: Tuple[int, int]
) -> Tuple[Tuple[int, int], Tuple[int, int]]:
    """Return a convolution's padding: its own, and that of a padding layer before it."""
    (top, bottom), (left, right) = (
        _own_padding(layer.padding, size, stride, kernel, side)
        for size, stride, kernel, side in zip(output, layer.strides, layer.kernel_size, sides)
    )
    before = _layer_before(layer)
    if isinstance(before, keras.layers.ZeroPadding2D):
        (more_top, more_bottom), (more_left, more_right) = before.padding
        top, bottom, left, right = top + more_top, bottom + more_bottom, left + more_left, right + more_right
    return ((top, bottom), (left, right))


def _own_padding(padding: str, output: int, stride: int, kernel: int, side: int) -> Tuple[int, int]:
    """Return the zeros before and after an axis of ``side`` values; "same" puts an odd one behind.

    The formula: https://www.tensorflow.org/api_docs/python/tf/nn#notes_on_padding_2.
    """
    if padding == "valid":
        return (0, 0)
    total = max((output - 1) * stride + kernel - side, 0)
    return (total // 2, total - total // 2)


def _layer_before(layer: Any) -> Optional[Any]:
    history = getattr(layer.input, "_keras_history", None)
    return None if history is None else history.operation
