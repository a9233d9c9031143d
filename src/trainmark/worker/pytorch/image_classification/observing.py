"""Access to weights by the names that all frameworks share, and observation of a forward and backward pass."""

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
from ...tasks.image_classification.witness import LayerSeen, LayersSeen
from ..operands import OperandTypes
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
    """Run ``forward``, which returns logits and loss, and the backward pass; return their results.

    ``average`` averages the gradients over the ranks, like the step.

    ``layers`` runs the model's modules one by one, so that each convolution can be observed. ``forward`` may be
    compiled; it runs without hooks, because those would be compiled into another program.
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


def batches_counted(model: nn.Module) -> List[Any]:
    """Return the number of batches that each batch norm has counted in training mode."""
    return [module.num_batches_tracked for module in _modules(model, nn.BatchNorm2d)]


def watched(model: nn.Module, name: str, step: Callable[[], Any]) -> LayersSeen:
    """Run ``step``, which calls ``model``, and return the types of its layers' computation and facts of its inputs."""
    outputs: Dict[str, str] = {}
    inputs: List[Any] = []
    norms: Dict[str, bool] = {}

    def note(layer: str) -> Callable[[Any, Any, Any], None]:
        def seen(_module: Any, _given: Any, output: Any) -> None:
            outputs[layer] = _type_of(output)

        return seen

    def note_norm(layer: str) -> Callable[[Any, Any], None]:
        def seen(module: Any, _given: Any) -> None:
            norms[layer] = module.training

        return seen

    def note_input(_module: Any, given: Any) -> None:
        inputs.append(given[0].detach())

    (classifier,) = _modules(model, nn.Linear)
    described = [conv.name for conv in ARCHITECTURES[name].convolutions]
    convolutions = _modules(model, nn.Conv2d)
    hooks = [conv.register_forward_hook(note(layer)) for layer, conv in zip(described, convolutions)]
    hooks += [
        norm.register_forward_pre_hook(note_norm(layer))
        for layer, norm in zip(described, _modules(model, nn.BatchNorm2d))
    ]
    hooks += [
        classifier.register_forward_hook(note("classifier")),
        convolutions[0].register_forward_pre_hook(note_input),
    ]
    operands = OperandTypes([*zip(described, convolutions), ("classifier", classifier)])
    try:
        with operands.watching():
            step()
    finally:
        for hook in hooks:
            hook.remove()
    if not inputs:
        return LayersSeen()
    images = inputs[0].float()
    return LayersSeen(
        layers=[LayerSeen(layer, operands.types.get(layer, kind)) for layer, kind in outputs.items()],
        image_size=(images.shape[2], images.shape[3]),
        input_mean=float(images.mean()),
        input_deviation=float(images.std()),
        not_training=[layer for layer, training in norms.items() if not training],
    )


def _type_of(tensor: Any) -> str:
    return str(tensor.dtype).replace("torch.", "")


def _modules(model: nn.Module, kind: Any) -> List[Any]:
    return [module for module in model.modules() if isinstance(module, kind)]


def _noting(name: str, seen: List[ConvolutionSeen]) -> Callable[[Any, Any, Any], None]:
    def note(conv: Any, _inputs: Any, output: Any) -> None:
        (top, left), values = conv.padding, output.detach().float().cpu().numpy()
        padding = ((top, top), (left, left))
        seen.append(convolution_seen(name, conv.kernel_size, conv.stride, padding, conv.groups, values))

    return note
