"""Weights in and out by the names that all frameworks share, and what a forward and backward pass computed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from oneflow import nn

from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.facts import Seen, layout_by_axes
from ...tasks.image_classification.observing import (
    ConvolutionSeen,
    Observation,
    by_shared_names,
    convolution_seen,
)
from ..weights import as_numpy


def named_tensors(network: Any, name: str) -> Dict[str, Any]:
    """Return the network's parameters and running statistics by the names of ``Architecture.shapes``."""
    (classifier,) = _modules(network, nn.Linear)
    return by_shared_names(name, _modules(network, nn.Conv2d), _modules(network, nn.BatchNorm2d), classifier)


class Hooks:
    """Sees the first step's second convolution, and each convolution while it is told to watch.

    OneFlow's hooks cannot be taken away again: they are put in place when they are needed and are deaf afterwards.
    """

    def __init__(self, network: Any, name: str) -> None:
        """Hook into the network, before it is wrapped."""
        self._layers = ARCHITECTURES[name].convolutions
        self._convolutions = _modules(network, nn.Conv2d)
        self._output: Optional[Tuple[str, Tuple[int, ...]]] = None
        self._convolutions[1].register_forward_hook(self._see)
        self._seen: Optional[List[ConvolutionSeen]] = None
        self._ready = False

    def _see(self, _module: Any, _inputs: Any, output: Any) -> None:
        if self._output is None:
            self._output = (_name_of(output.dtype), tuple(output.shape))

    def told(self, unseen: Tuple[str, ...]) -> Seen:
        """Return what the first step used, but for the keys that cannot be seen."""
        weight, layer = self._convolutions[1].weight, self._layers[1]
        seen = Seen(
            compute_dtype=None,
            weight_dtype=_name_of(weight.dtype),
            activation_layout=None,
            weight_layout=layout_by_axes(tuple(weight.shape), layer.weight_shape[1]),
            batch_per_device=None,
            unseen=unseen,
        )
        if self._output is None:
            return seen
        dtype, shape = self._output
        return replace(
            seen,
            compute_dtype=None if "compute_dtype" in unseen else dtype,
            activation_layout=layout_by_axes(shape, layer.outputs),
            batch_per_device=shape[0],
        )

    def watch(self, forward: Callable[[], Tuple[Any, Any]]) -> Tuple[Any, Any, List[ConvolutionSeen]]:
        """Call ``forward``, which returns logits and loss; return these and what the convolutions did."""
        if not self._ready:
            for layer, conv in zip(self._layers, self._convolutions):
                conv.register_forward_hook(self._noting(layer.name))
            self._ready = True
        seen: List[ConvolutionSeen] = []
        self._seen = seen
        try:
            logits, loss = forward()
        finally:
            self._seen = None
        return logits, loss, seen

    def _noting(self, name: str) -> Callable[[Any, Any, Any], None]:
        def note(conv: Any, _inputs: Any, output: Any) -> None:
            if self._seen is None:
                return
            top, left = conv.padding
            padding = ((top, top), (left, left))
            self._seen.append(
                convolution_seen(name, conv.kernel_size, conv.stride, padding, conv.groups, as_numpy(output))
            )

        return note


def observe(
    hooks: Hooks, forward: Callable[[], Tuple[Any, Any]], tensors: Mapping[str, Any], optimizer: Any
) -> Observation:
    """Run ``forward`` and the backward pass, and return what they computed; the gradients are dropped."""
    logits, loss, seen = hooks.watch(forward)
    loss.backward()
    gradients = {name: as_numpy(tensor.grad) for name, tensor in tensors.items() if tensor.requires_grad}
    optimizer.zero_grad(set_to_none=True)
    return Observation(as_numpy(logits), float(as_numpy(loss)), gradients, seen)


def _modules(network: Any, kind: Any) -> List[Any]:
    return [module for module in network.modules() if isinstance(module, kind)]


def _name_of(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]
