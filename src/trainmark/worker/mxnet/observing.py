"""Weights in and out by the names that all frameworks share, and what the inside of the network computed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Tuple

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.gluon import HybridBlock, nn

from ..architectures import ARCHITECTURES
from ..training import ConvolutionSeen, Observation
from .network import prefix_of

_VECTORS = {
    "weight": "bn_gamma",
    "bias": "bn_beta",
    "running_mean": "bn_running_mean",
    "running_var": "bn_running_var",
}


def named_parameters(model: HybridBlock, name: str) -> Dict[str, Any]:
    """Return Gluon's parameters, running statistics among them, by the names of ``Architecture.shapes``."""
    parameters = model.collect_params()
    named = {}
    for layer in ARCHITECTURES[name].convolutions:
        prefix = prefix_of(layer.name)
        named[layer.name + ".conv.weight"] = parameters[prefix + "conv_weight"]
        for vector, word in _VECTORS.items():
            named[f"{layer.name}.bn.{vector}"] = parameters[prefix + word]
    for word in ("weight", "bias"):
        named["classifier." + word] = parameters["classifier_" + word]
    return named


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


class Hooks:
    """Sees the outputs of the convolutions of a network that runs operator by operator."""

    def __init__(self, model: HybridBlock, name: str) -> None:
        """Hook into all convolutions."""
        self.convolutions = _convolutions(model, name)
        self._outputs: Dict[str, Any] = {}
        self._hooks: List[Any] = []
        self.watch()

    def watch(self) -> None:
        """Keep what comes out of the convolutions from now on."""
        self.leave()
        self._hooks = [
            conv.register_forward_hook(self._keeping(layer)) for layer, conv in self.convolutions.items()
        ]

    def leave(self) -> None:
        """Stop to watch."""
        for hook in self._hooks:
            hook.detach()
        self._hooks = []
        self._outputs = {}

    def outputs(self, _images: Any) -> Dict[str, Any]:
        """Return the arrays that came out of the convolutions in the last forward pass, by their names."""
        return dict(self._outputs)

    def output(self, name: str, _images: Any) -> Any:
        """Return what came out of one convolution in the last forward pass."""
        return self._outputs[name]

    def _keeping(self, layer: str) -> Callable[[Any, Any, Any], None]:
        def keep(_conv: Any, _inputs: Any, output: Any) -> None:
            self._outputs[layer] = output

        return keep


class TracedHooks(Hooks):
    """Sees the outputs of the convolutions of a hybridized network.

    Its blocks are called only once, with symbols, to trace the graph that MXNet runs ever after. The hooks get the
    symbols then, and the very graph can be run up to them.
    """

    def __init__(self, model: HybridBlock, name: str) -> None:
        """Hook into all convolutions; the network must not have been traced yet."""
        super().__init__(model, name)
        self._parameters = {parameter.name: parameter for parameter in model.collect_params().values()}

    def watch(self) -> None:
        """Keep the symbols of the trace."""
        if not self._hooks:
            super().watch()

    def leave(self) -> None:
        """Keep the symbols: there will be no other trace."""

    def outputs(self, images: Any) -> Dict[str, Any]:
        """Run the traced graph on ``images`` again, up to the convolutions; its running statistics move."""
        with autograd.train_mode():
            return dict(zip(self._outputs, self._run(list(self._outputs.values()), images)))

    def output(self, name: str, images: Any) -> Any:
        """Run the traced graph up to one convolution, and leave the running statistics as they are."""
        return self._run([self._outputs[name]], images)[0]

    def _run(self, symbols: List[Any], images: Any) -> List[Any]:
        graph = mx.symbol.Group(symbols)
        inputs = [
            self._parameters[name].data() if name in self._parameters else images
            for name in graph.list_inputs()
        ]
        outputs = mx.nd.CachedOp(graph)(*inputs)
        return outputs if isinstance(outputs, list) else [outputs]


def observe(
    hooks: Hooks,
    forward: Callable[[], Tuple[Any, Any]],
    images: Any,
    parameters: Mapping[str, Any],
    layout: str,
) -> Observation:
    """Run ``forward``, which returns logits and loss, and the backward pass; return what they computed."""
    hooks.watch()
    with autograd.record():
        logits, loss = forward()
    loss.backward()
    outputs = hooks.outputs(images)
    gradients = {
        name: _from_layout(parameter.grad().asnumpy(), layout)
        for name, parameter in parameters.items()
        if parameter.grad_req != "null"
    }
    return Observation(
        logits=logits.astype("float32").asnumpy(),
        loss=float(loss.asscalar()),
        gradients=gradients,
        convolutions=[
            _seen(name, conv, _from_layout(outputs[name].astype("float32").asnumpy(), layout))
            for name, conv in hooks.convolutions.items()
        ],
    )


def _convolutions(model: HybridBlock, name: str) -> Dict[str, Any]:
    found: List[Any] = []
    model.apply(lambda block: found.append(block) if isinstance(block, nn.Conv2D) else None)
    return dict(zip((layer.name for layer in ARCHITECTURES[name].convolutions), found))


def _seen(name: str, conv: Any, output: Any) -> ConvolutionSeen:
    # What Gluon hands to the operator.
    operator = conv._kwargs
    top, left = operator["pad"]
    return ConvolutionSeen(
        name=name,
        kernel=tuple(operator["kernel"]),
        stride=tuple(operator["stride"]),
        padding=((top, top), (left, left)),
        groups=operator["num_group"],
        output=tuple(output.shape),
        output_norm=float(np.linalg.norm(output.astype(np.float64))),
    )
