"""Weights in and out by the names that all frameworks share, and what a forward and backward pass computed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Tuple

import mindspore as ms
import numpy as np
from mindspore import nn

from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.observing import (
    ConvolutionSeen,
    Observation,
    by_shared_names,
    convolution_seen,
)

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
    """Pass the batch through ``forward``, which returns loss and logits, and back; return what was computed.

    Operators are run one by one meanwhile, since a compiled network calls no hooks.
    """
    seen: List[ConvolutionSeen] = []
    hooks = [
        conv.register_forward_hook(_noting(layer.name, seen))
        for layer, conv in zip(ARCHITECTURES[name].convolutions, cells(model, nn.Conv2d))
    ]
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    try:
        both = ms.value_and_grad(forward, None, model.trainable_params(), has_aux=True)
        (loss, logits), found = both(*batch)
    finally:
        ms.set_context(mode=mode)
        for hook in hooks:
            hook.remove()
    by_own_name = {parameter.name: grad for parameter, grad in zip(model.trainable_params(), found)}
    shared = {
        key: by_own_name[parameter.name].asnumpy().astype(np.float32)
        for key, parameter in parameters.items()
        if parameter.requires_grad
    }
    return Observation(logits.asnumpy().astype(np.float32), float(loss.asnumpy()), shared, seen)


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
