"""Weights in and out by the names that all frameworks share, and what a forward and backward pass computed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Tuple

import numpy as np
import oneflow as flow
from oneflow import nn

from ..architectures import ARCHITECTURES
from ..training import ConvolutionSeen, Observation


def named_tensors(network: Any, name: str) -> Dict[str, Any]:
    """Return the network's parameters and running statistics by the names of ``Architecture.shapes``.

    Its modules are in the order of the forward pass, but for the shortcuts, which come last in their blocks, as they
    do in the description.
    """
    named: Dict[str, Any] = {}
    norms = _modules(network, nn.BatchNorm2d)
    for layer, conv, norm in zip(ARCHITECTURES[name].convolutions, _modules(network, nn.Conv2d), norms):
        named[layer.name + ".conv.weight"] = conv.weight
        for vector in ("weight", "bias", "running_mean", "running_var"):
            named[layer.name + ".bn." + vector] = getattr(norm, vector)
    (classifier,) = _modules(network, nn.Linear)
    return {**named, "classifier.weight": classifier.weight, "classifier.bias": classifier.bias}


def load(tensors: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    """Copy numpy arrays into the tensors of the same names."""
    with flow.no_grad():
        for name, tensor in tensors.items():
            given = flow.from_numpy(np.ascontiguousarray(weights[name], np.float32))
            tensor.copy_(given.to(tensor.device))


def read(tensors: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the tensors as numpy arrays in FP32, copied."""
    return {name: as_numpy(tensor) for name, tensor in tensors.items()}


def as_numpy(tensor: Any) -> Any:
    """Return a copy of a tensor on the host, in FP32."""
    return np.array(tensor.detach().cpu().numpy(), np.float32)


class Convolutions:
    """Notes what each convolution of a network does while it is told to watch.

    OneFlow's hooks cannot be taken away again, so they are put in place once and are deaf outside ``watch``.
    """

    def __init__(self, network: Any, name: str) -> None:
        """Put the hooks in place; a step without observation pays for calling them, so only do it to observe."""
        self._seen: List[ConvolutionSeen] = []
        self._watching = False
        for layer, conv in zip(ARCHITECTURES[name].convolutions, _modules(network, nn.Conv2d)):
            conv.register_forward_hook(self._noting(layer.name))

    def watch(self, forward: Callable[[], Tuple[Any, Any]]) -> Tuple[Any, Any, List[ConvolutionSeen]]:
        """Call ``forward``, which returns logits and loss; return these and what the convolutions did."""
        self._seen, self._watching = [], True
        try:
            logits, loss = forward()
        finally:
            self._watching = False
        return logits, loss, self._seen

    def _noting(self, name: str) -> Callable[[Any, Any, Any], None]:
        def note(conv: Any, _inputs: Any, output: Any) -> None:
            if not self._watching:
                return
            (top, left), (height, width) = conv.padding, conv.kernel_size
            self._seen.append(
                ConvolutionSeen(
                    name=name,
                    kernel=(height, width),
                    stride=tuple(conv.stride),
                    padding=((top, top), (left, left)),
                    groups=conv.groups,
                    output=tuple(output.shape),
                    output_norm=float(np.linalg.norm(as_numpy(output).astype(np.float64))),
                )
            )

        return note


def observe(
    convolutions: Convolutions,
    forward: Callable[[], Tuple[Any, Any]],
    tensors: Mapping[str, Any],
    optimizer: Any,
) -> Observation:
    """Run ``forward`` and the backward pass, and return what they computed; the gradients are cleared."""
    logits, loss, seen = convolutions.watch(forward)
    loss.backward()
    gradients = {name: as_numpy(tensor.grad) for name, tensor in tensors.items() if tensor.requires_grad}
    optimizer.zero_grad()
    return Observation(as_numpy(logits), float(as_numpy(loss)), gradients, seen)


def _modules(network: Any, kind: Any) -> List[Any]:
    return [module for module in network.modules() if isinstance(module, kind)]
