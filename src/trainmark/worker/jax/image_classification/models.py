"""The networks as Linen modules; what their layers are stands in ``architectures.py``.

Every module is named as in that description, so that the path of a parameter is the name of its layer:
``stage1.block0`` / ``a`` / ``conv`` / ``kernel``. Images are (batch, height, width, 3), the order of Flax's layers.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple, Type

import jax
import jax.numpy as jnp
from flax import linen as nn

from ...tasks.image_classification.architectures import (
    ARCHITECTURES,
    BATCH_NORM_EPSILON,
    BATCH_NORM_MOMENTUM,
    Convolution,
)
from ..precision import Precision
from ..weights import count_parameters

# Variance 2 / fan-in, as NVIDIA's ConvNets draw them (``-c fanin``).
HE_NORMAL = nn.initializers.variance_scaling(2.0, "fan_in", "normal")
# Uniform in +-1 / sqrt(features), as torch's linear layer; in Flax's terms a variance of 1 / (3 fan-in).
CLASSIFIER = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


class Unit(nn.Module):
    """A convolution without bias and its batch norm.

    Batch norm keeps FP32 parameters and statistics, and reduces in FP32, in every precision.
    """

    layer: Convolution
    precision: Precision

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Map (batch, h, w, inputs) to (batch, h / stride, w / stride, outputs)."""
        layer = self.layer
        x = nn.Conv(
            layer.outputs,
            (layer.kernel, layer.kernel),
            strides=layer.stride,
            # Said in numbers: "SAME" pads a convolution of stride 2 on one side only.
            padding=layer.padding,
            feature_group_count=layer.groups,
            use_bias=False,
            dtype=self.precision.compute,
            param_dtype=self.precision.weights,
            kernel_init=HE_NORMAL,
            name="conv",
        )(x)
        return nn.BatchNorm(
            use_running_average=False,
            momentum=BATCH_NORM_MOMENTUM,
            epsilon=BATCH_NORM_EPSILON,
            dtype=self.precision.compute,
            name="bn",
        )(x)


class Bottleneck(nn.Module):
    """1x1 to the width, 3x3 with the stride, 1x1 to four times the width, and the shortcut beside them.

    ``layers`` are (last word of the name, description); the first block of a stage has a ``shortcut``.
    """

    layers: Tuple[Tuple[str, Convolution], ...]
    precision: Precision

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Map (batch, h, w, channels) to (batch, h / stride, w / stride, 4 * width)."""
        units = {word: Unit(layer, self.precision, name=word) for word, layer in self.layers}
        out = nn.relu(units["a"](x))
        out = nn.relu(units["b"](out))
        out = units["c"](out)
        if "shortcut" in units:
            x = units["shortcut"](x)
        return nn.relu(out + x)


class ResNet50(nn.Module):
    """16 bottleneck blocks in four stages between a 7x7 stem and a linear classifier."""

    classes: int
    precision: Precision

    @nn.compact
    def __call__(self, images: Any) -> Any:
        """Map images to logits (batch, classes)."""
        architecture = ARCHITECTURES["resnet50_v1.5"]
        stem = architecture.convolutions[0]
        x = nn.relu(Unit(stem, self.precision, name=stem.name)(images))
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
        for block, layers in architecture.blocks().items():
            x = Bottleneck(tuple(layers.items()), self.precision, name=block)(x)
        return _classifier(self)(x.mean((1, 2)))


class MobileNetV1(nn.Module):
    """A 3x3 stem, 13 pairs of a depthwise 3x3 and a 1x1 convolution, and a linear classifier."""

    classes: int
    precision: Precision

    @nn.compact
    def __call__(self, images: Any) -> Any:
        """Map images to logits (batch, classes)."""
        x = images
        for layer in ARCHITECTURES["mobilenet_v1"].convolutions:
            x = nn.relu(Unit(layer, self.precision, name=layer.name)(x))
        return _classifier(self)(x.mean((1, 2)))


def _classifier(network: Any) -> nn.Module:
    precision = network.precision
    return nn.Dense(
        network.classes,
        dtype=precision.compute,
        param_dtype=precision.weights,
        kernel_init=CLASSIFIER,
        name="classifier",
    )


MODELS: Dict[str, Type[nn.Module]] = {"resnet50_v1.5": ResNet50, "mobilenet_v1": MobileNetV1}


def build_model(name: str, classes: int, precision: Precision) -> nn.Module:
    """Return the network; its parameters are made by ``init``."""
    return MODELS[name](classes, precision)


def init(model: Any, name: str, image_size: int, seed: int) -> Tuple[Any, Any]:
    """Return fresh parameters and running statistics; the number of parameters is asserted. May be traced."""
    # Of JAX's generators the one whose programs compile in half the time.
    variables = model.init(jax.random.key(seed, impl="rbg"), jnp.zeros((1, image_size, image_size, 3)))
    found = count_parameters(variables["params"])
    expected = ARCHITECTURES[name].parameters(model.classes)
    assert found == expected, f"{name} has {found} parameters instead of {expected}"
    return variables["params"], variables["batch_stats"]
