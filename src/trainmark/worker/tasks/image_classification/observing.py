"""Weights by the names that all frameworks share, and convolutions as the equivalence check wants them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .architectures import ARCHITECTURES


class ConvolutionSeen(NamedTuple):
    """What the framework's own objects say of a convolution, and what came out of it.

    ``padding`` is ((top, bottom), (left, right)); ``output`` is (batch, channels, height, width) whatever the
    layout; ``output_norm`` is the square root of the sum of the squares of all output values, ``values``.
    """

    name: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    groups: int
    output: tuple[int, int, int, int]
    output_norm: float
    values: Any


class Observation(NamedTuple):
    """One forward and backward pass without an update, in training mode; arrays are numpy's, float32.

    ``gradients`` are those of the loss alone (no weight decay in them), by the names and in the shapes of
    ``Architecture.shapes``; ``logits`` is (batch, classes); ``convolutions`` are in forward order.
    """

    logits: Any
    loss: float
    gradients: Mapping[str, Any]
    convolutions: Sequence[ConvolutionSeen]


SAME_NAMES = {name: name for name in ("weight", "bias", "running_mean", "running_var")}


def by_shared_names(
    model: str,
    convolutions: Iterable[Any],
    norms: Iterable[Any],
    classifier: Any,
    vectors: Mapping[str, str] = SAME_NAMES,
) -> dict[str, Any]:
    """Return a network's parameters and running statistics by the names of ``Architecture.shapes``.

    ``convolutions`` and ``norms`` are its modules in the order of the description: that of the forward pass, with a
    block's shortcut last. ``vectors`` tells what a norm calls the shared names.
    """
    named: dict[str, Any] = {}
    for layer, conv, norm in zip(ARCHITECTURES[model].convolutions, convolutions, norms):
        named[layer.name + ".conv.weight"] = conv.weight
        for shared, own in vectors.items():
            named[f"{layer.name}.bn.{shared}"] = getattr(norm, own)
    return {**named, "classifier.weight": classifier.weight, "classifier.bias": classifier.bias}


def convolution_seen(
    name: str,
    kernel: Iterable[int],
    stride: Iterable[int],
    padding: tuple[tuple[int, int], tuple[int, int]],
    groups: int,
    output: Any,
) -> ConvolutionSeen:
    """Return what a convolution is and did; ``output`` is numpy, (batch, channels, height, width)."""
    import numpy as np

    (kernel_height, kernel_width), (down, right) = kernel, stride
    flat = np.asarray(output, np.float64).ravel()
    return ConvolutionSeen(
        name=name,
        kernel=(kernel_height, kernel_width),
        stride=(down, right),
        padding=padding,
        groups=groups,
        output=tuple(output.shape),
        output_norm=float(np.sqrt(flat @ flat)),
        values=output,
    )
