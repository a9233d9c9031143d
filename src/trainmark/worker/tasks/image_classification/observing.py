"""Observations of an image network: its first step, its convolutions, and its layers in the step after the window."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.facts import ObservedConfig
from ...core.precision import Precision
from ...core.task import Verified
from ..products import check_types
from .architectures import ARCHITECTURES
from .settings import ImageRecipe, ImageSettings


def layout_by_axes(shape: tuple[int, ...], channels: int) -> str:
    """Return the layout of an activation or a weight of four axes by where its ``channels`` are.

    It is ``nchw``, ``nhwc``, ``either`` where the two are the same, or ``neither``.
    """
    if shape[1] == channels:
        return "either" if shape[3] == channels else "nchw"
    return "nhwc" if shape[3] == channels else "neither"


def config_by_shapes(
    model: str,
    output: tuple[str | None, tuple[int, ...]] | None,
    weight_dtype: str,
    weight_shape: tuple[int, ...] | None = None,
    **others: Any,
) -> ObservedConfig:
    """Return the observed settings in a framework whose layout is the order of the axes.

    ``output`` is the type and the shape of the second convolution's output, whose input has been through the stem; None
    if there was none. ``weight_shape`` is that convolution's; None where a weight has one order in every layout, which
    leaves its layout unobserved.
    """
    second = ARCHITECTURES[model].convolutions[1]
    dtype, shape = output or (None, ())
    axes = {
        "activation_layout": layout_by_axes(shape, second.outputs) if shape else None,
        "weight_layout": layout_by_axes(weight_shape, second.weight_shape[1]) if weight_shape else None,
    }
    return ObservedConfig(dtype, weight_dtype, shape[0] if shape else None, axes=axes, **others)


Padding = tuple[tuple[int, int], tuple[int, int]]  # ((top, bottom), (left, right))


class ObservedConvolution(NamedTuple):
    """The attributes of a convolution, by the framework's own objects, and its output.

    ``padding`` is ((top, bottom), (left, right)); ``output`` is (batch, channels, height, width) whatever the
    layout; ``output_norm`` is the square root of the sum of the squares of all output values, ``values``.
    """

    name: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding
    groups: int
    output: tuple[int, int, int, int]
    output_norm: float
    values: Any


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


def decay_groups(network: Any, norm: type, recipe: ImageRecipe) -> list[tuple[list[Any], float]]:
    """Return the groups of parameters, each with its weight decay: none of the class ``norm``'s, unless requested."""
    groups: dict[bool, list[Any]] = {False: [], True: []}
    for module in network.modules():
        groups[isinstance(module, norm)] += module.parameters(recurse=False)
    of_norms = recipe.weight_decay if recipe.bn_weight_decay else 0.0
    return [(groups[False], recipe.weight_decay), (groups[True], of_norms)]


def observe_convolution(
    name: str, kernel: Iterable[int], stride: Iterable[int], padding: Padding, groups: int, output: Any
) -> ObservedConvolution:
    """Return what a convolution is and did; ``output`` is numpy, (batch, channels, height, width)."""
    (height, width), (down, right), flat = kernel, stride, np.asarray(output, np.float64).ravel()
    shape, size = tuple(output.shape), float(np.sqrt(flat @ flat))
    return ObservedConvolution(name, (height, width), (down, right), padding, groups, shape, size, output)


def symmetric(padding: Iterable[int]) -> Padding:
    """Return the padding of a convolution that has one number for each axis."""
    down, right = padding
    return ((down, down), (right, right))


# Kernel, stride, padding and groups of a convolution, and its output: numpy, (batch, channels, height, width).
Described = tuple[Iterable[int], Iterable[int], Padding, int, Any]


def note_convolutions(
    model: str,
    convolutions: Iterable[Any],
    register: Callable[[Any, Callable[[Any, Any, Any], None]], Any],
    describe: Callable[[Any, Any], Described],
) -> tuple[list[Any], list[ObservedConvolution]]:
    """Return hooks in a network's convolutions, and the list that they fill in the passes from here on.

    ``convolutions`` are in the order of the description. ``register(convolution, hook)`` lets the framework call
    ``hook(convolution, inputs, output)`` behind it; ``describe(convolution, output)`` reads the framework's objects.
    """
    found: list[ObservedConvolution] = []

    def noting(name: str) -> Callable[[Any, Any, Any], None]:
        def note(convolution: Any, _inputs: Any, output: Any) -> None:
            found.append(observe_convolution(name, *describe(convolution, output)))

        return note

    layers = ARCHITECTURES[model].convolutions
    return [register(conv, noting(layer.name)) for layer, conv in zip(layers, convolutions)], found


# How far from 0 the mean of normalised pictures can be, and between what their deviation: photographs are well inside.
# Bytes that were not normalised have a mean near 120 and a deviation near 60; scaled to 1 alone, a deviation below 0.3.
USUAL_MEAN, USUAL_DEVIATION = 1.0, (0.3, 2.0)


class ObservedLayers(NamedTuple):
    """The names of a step's convolutions and products and the types of their results; what is not shown is None.

    ``image_size`` (height, width), ``input_mean`` and ``input_deviation`` are of what the first layer got;
    ``not_training`` names the batch norms that are not in training mode.
    """

    layers: Sequence[tuple[str, str]] | None = None
    image_size: tuple[int, int] | None = None
    input_mean: float | None = None
    input_deviation: float | None = None
    not_training: Sequence[str] = ()


def measured(images: Any) -> tuple[tuple[int, int], float, float]:
    """Return (height, width), mean and deviation of a batch of pictures: numpy, (batch, 3, height, width)."""
    values = np.asarray(images, np.float32)
    mean, deviation = values.mean(dtype=np.float64), values.std(dtype=np.float64)
    return (values.shape[2], values.shape[3]), float(mean), float(deviation)


def verify_layers(settings: ImageSettings, expected: Precision, observed: ObservedLayers | None) -> Verified:
    """Check the layers of the step after the window, and what the first one got."""
    observed = observed or ObservedLayers()
    found = check_types(expected, observed.layers, "layers")
    if observed.not_training:
        found.doubt(
            "batch-norm-not-training",
            f"After the window {len(observed.not_training)} batch norms are not in training mode, "
            f"{observed.not_training[0]} among them.",
        )
    size, side = observed.image_size, settings.image_size
    if size is not None and tuple(size) != (side, side):
        sentence = f"The network got pictures of {size[0]} x {size[1]} pixels, not {side} x {side}."
        found.doubt("image-size-differs", sentence)
    mean, deviation = observed.input_mean, observed.input_deviation
    if not settings.synthetic and mean is not None and deviation is not None:
        low, high = USUAL_DEVIATION
        if abs(mean) > USUAL_MEAN or not low <= deviation <= high:
            found.doubt(
                "input-not-normalised",
                f"The network's input has the mean {mean:.3g} and the deviation {deviation:.3g}, but correctly "
                "normalised pictures are near 0 and 1.",
            )
    found.data["seen_image_size"] = None if size is None else list(size)
    found.data.update(input_mean=mean, input_deviation=deviation)
    return found
