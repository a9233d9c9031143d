"""Weights in and out by the names that all frameworks share, and what a forward and backward pass computed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.train.anf_ir_pb2 import DataType, ModelProto

from ...tasks.image_classification.architectures import ARCHITECTURES, is_trainable
from ...tasks.image_classification.observing import (
    ConvolutionSeen,
    Observation,
    by_shared_names,
    convolution_seen,
)
from ...tasks.image_classification.witness import LayerSeen, LayersSeen, measured
from ..operations import CONVOLUTIONS, computed_in

NORM_VECTORS = {
    "weight": "gamma",
    "bias": "beta",
    "running_mean": "moving_mean",
    "running_var": "moving_variance",
}


def named_parameters(model: nn.Cell, name: str) -> Dict[str, ms.Parameter]:
    """Return the model's parameters and running statistics by the names of ``Architecture.shapes``."""
    (classifier,) = cells(model, nn.Dense)
    return by_shared_names(
        name, cells(model, nn.Conv2d), cells(model, nn.BatchNorm2d), classifier, NORM_VECTORS
    )


def observe(
    model: nn.Cell,
    name: str,
    forward: nn.Cell,
    batch: Tuple[Any, Any],
    parameters: Mapping[str, ms.Parameter],
) -> Observation:
    """Pass the batch through ``forward``, which returns loss and logits, and back; return what was computed."""
    seen: List[ConvolutionSeen] = []
    hooks = [
        conv.register_forward_hook(_noting(layer.name, seen))
        for layer, conv in zip(ARCHITECTURES[name].convolutions, cells(model, nn.Conv2d))
    ]
    try:
        loss, logits, found = _passes(model, forward, batch)
    finally:
        for hook in hooks:
            hook.remove()
    shared = _by_shared_names(model, parameters, found)
    return Observation(logits.asnumpy().astype(np.float32), float(loss.asnumpy()), shared, seen)


def gradients(
    model: nn.Cell, forward: nn.Cell, batch: Tuple[Any, Any], parameters: Mapping[str, ms.Parameter]
) -> Dict[str, Any]:
    """Pass the batch through ``forward`` and back, operator by operator; return the gradients."""
    return _by_shared_names(model, parameters, _passes(model, forward, batch)[2])


def _passes(model: nn.Cell, forward: nn.Cell, batch: Tuple[Any, Any]) -> Tuple[Any, Any, Any]:
    """Return loss, logits and gradients; operators are run one by one, since a compiled network calls no hooks."""
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    try:
        both = ms.value_and_grad(forward, None, model.trainable_params(), has_aux=True)
        (loss, logits), found = both(*batch)
    finally:
        ms.set_context(mode=mode)
    return loss, logits, found


def _by_shared_names(model: nn.Cell, parameters: Mapping[str, ms.Parameter], found: Any) -> Dict[str, Any]:
    own = {parameter.name: grad for parameter, grad in zip(model.trainable_params(), found)}
    return {
        key: own[parameter.name].asnumpy().astype(np.float32)
        if parameter.name in own
        else np.zeros(parameter.shape, np.float32)
        for key, parameter in parameters.items()
        if is_trainable(key)
    }


def watched(
    model: nn.Cell, name: str, batch: Tuple[Any, Any], step: Callable[[], Any], compiled: Optional[nn.Cell]
) -> LayersSeen:
    """Do ``step`` on a batch, and return what its layers computed in, and on what.

    ``compiled`` is the step as a cell where it is compiled: its graph is asked instead of hooks.
    """
    norms = dict(zip((conv.name for conv in ARCHITECTURES[name].convolutions), cells(model, nn.BatchNorm2d)))
    described = [conv.name for conv in ARCHITECTURES[name].convolutions]
    if compiled is None:
        with computed_in() as (convolutions, products):
            step()
        types = [*zip(described, convolutions), *(("classifier", dtype) for dtype in products)]
    else:
        step()
        types = [(layer, seen.dtype) for layer, seen in zip(described, convolutions_in_graph(compiled))]
    layers = [LayerSeen(layer, dtype) for layer, dtype in types]
    size, mean, deviation = measured(batch[0].asnumpy())
    still = [layer for layer, norm in norms.items() if not norm.training]
    return LayersSeen(layers, size, mean, deviation, still)


class Output(NamedTuple):
    """The output of a convolution: its type, like ``float16``, and its shape."""

    dtype: str
    shape: Tuple[int, ...]


def convolutions_in_graph(step: nn.Cell) -> List[Output]:
    """Return what the convolutions of a compiled step give, by MindSpore's own graph of it.

    A hook would be compiled with the network and could not tell anything.
    """
    model = ModelProto()
    model.ParseFromString(step.get_func_graph_proto())
    tensors = [node.output_type.tensor_type for node in model.graph.node if node.op_type in CONVOLUTIONS]
    return [
        Output(
            DataType.Name(tensor.elem_type).replace("DT_", "").lower(),
            tuple(int(side.size) for side in tensor.shape.dim),
        )
        for tensor in tensors
    ]


def cells(model: nn.Cell, kind: Any) -> List[Any]:
    """Return the cells of a kind, in the order of the forward pass."""
    return [cell for _, cell in model.cells_and_names() if isinstance(cell, kind)]


def _noting(name: str, seen: List[ConvolutionSeen]) -> Callable[[Any, Any, Any], None]:
    def note(conv: Any, _inputs: Any, output: Any) -> None:
        # The operator itself is asked, and not the cell: the cell turns its arguments into these.
        operator = conv.conv2d
        top, bottom, left, right = operator.pad
        padding, stride = ((top, bottom), (left, right)), operator.stride[-2:]
        seen.append(
            convolution_seen(name, operator.kernel_size, stride, padding, operator.group, output.asnumpy())
        )

    return note
