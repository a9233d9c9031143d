"""ResNet-50 v1.5 and MobileNetV1 as Paddle layers; what their layers are stands in ``architectures.py``."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Type

from paddle import ParamAttr, nn
from paddle.nn.initializer import KaimingNormal, Uniform
from paddle.regularizer import L2Decay

from ...tasks.image_classification.architectures import (
    ARCHITECTURES,
    BATCH_NORM_EPSILON,
    BATCH_NORM_MOMENTUM,
    Architecture,
    Convolution,
)


class Options:
    """What the layers of a network have in common: the layout, and whether batch norm decays."""

    def __init__(self, layout: str, bn_weight_decay: bool) -> None:
        """Take a layout of the ``layout`` axis."""
        self.data_format = layout.upper()
        self._bn_weight_decay = bn_weight_decay

    def norm_attribute(self) -> ParamAttr:
        """Return the attribute of a scale or shift; a regularizer of its own goes before the optimizer's."""
        return ParamAttr(regularizer=None if self._bn_weight_decay else L2Decay(0.0))


class ConvNorm(nn.Layer):
    """A convolution, its batch norm and, unless it ends a branch, a ReLU."""

    def __init__(self, description: Convolution, options: Options, activated: bool = True) -> None:
        """Draw weights of variance 2 / fan-in. Paddle's batch-norm momentum is the share that is kept."""
        super().__init__()
        self.description = description
        self.conv = nn.Conv2D(
            description.inputs,
            description.outputs,
            description.kernel,
            stride=description.stride,
            padding=description.padding,
            groups=description.groups,
            weight_attr=ParamAttr(initializer=KaimingNormal(nonlinearity="relu")),
            bias_attr=False,
            data_format=options.data_format,
        )
        self.norm = nn.BatchNorm2D(
            description.outputs,
            momentum=BATCH_NORM_MOMENTUM,
            epsilon=BATCH_NORM_EPSILON,
            weight_attr=options.norm_attribute(),
            bias_attr=options.norm_attribute(),
            data_format=options.data_format,
        )
        self.act = nn.ReLU() if activated else None

    def forward(self, x: Any) -> Any:
        """Map a batch of images in the network's layout to one with the convolution's channels."""
        x = self.norm(self.conv(x))
        return x if self.act is None else self.act(x)


class Bottleneck(nn.Layer):
    """1x1 to the width, 3x3 with the stride, 1x1 to four times the width, and the shortcut beside them."""

    def __init__(self, layers: Dict[str, Convolution], options: Options) -> None:
        """Take the block's convolutions by the last word of their names; the first of a stage has a ``shortcut``."""
        super().__init__()
        self.a = ConvNorm(layers["a"], options)
        self.b = ConvNorm(layers["b"], options)
        self.c = ConvNorm(layers["c"], options, activated=False)
        short = layers.get("shortcut")
        self.shortcut = None if short is None else ConvNorm(short, options, activated=False)
        self.act = nn.ReLU()

    def forward(self, x: Any) -> Any:
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        out = self.c(self.b(self.a(x)))
        short = x if self.shortcut is None else self.shortcut(x)
        return self.act(out + short)


class Classifier(nn.Layer):
    """The mean over the image, and a linear layer."""

    def __init__(self, features: int, classes: int, options: Options) -> None:
        """Draw weights uniformly within 1 / sqrt(features); biases are zero."""
        super().__init__()
        bound = 1 / math.sqrt(features)
        self.pool = nn.AdaptiveAvgPool2D(1, data_format=options.data_format)
        self.flatten = nn.Flatten()
        self.linear = nn.Linear(features, classes, weight_attr=ParamAttr(initializer=Uniform(-bound, bound)))

    def forward(self, x: Any) -> Any:
        """Map (batch, features, h, w) to logits (batch, classes)."""
        return self.linear(self.flatten(self.pool(x)))


class ResNet50(nn.Layer):
    """16 bottleneck blocks in four stages between a 7x7 stem and the classifier."""

    def __init__(self, architecture: Architecture, classes: int, options: Options) -> None:
        """Draw the weights from Paddle's generator."""
        super().__init__()
        self.stem = ConvNorm(architecture.convolutions[0], options)
        self.max_pool = nn.MaxPool2D(3, stride=2, padding=1, data_format=options.data_format)
        self.blocks = nn.Sequential(
            *(Bottleneck(layers, options) for layers in architecture.blocks().values())
        )
        self.classifier = Classifier(architecture.features, classes, options)

    def forward(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        return self.classifier(self.blocks(self.max_pool(self.stem(images))))


class MobileNetV1(nn.Layer):
    """A 3x3 stem, 13 pairs of a depthwise 3x3 and a 1x1 convolution, and the classifier."""

    def __init__(self, architecture: Architecture, classes: int, options: Options) -> None:
        """Draw the weights from Paddle's generator."""
        super().__init__()
        self.features = nn.Sequential(*(ConvNorm(layer, options) for layer in architecture.convolutions))
        self.classifier = Classifier(architecture.features, classes, options)

    def forward(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        return self.classifier(self.features(images))


NETWORKS: Dict[str, Type[nn.Layer]] = {"resnet50_v1.5": ResNet50, "mobilenet_v1": MobileNetV1}


def build_network(name: str, classes: int, options: Options) -> nn.Layer:
    """Return the network with fresh weights in FP32; its number of parameters is asserted."""
    architecture = ARCHITECTURES[name]
    network = NETWORKS[name](architecture, classes, options)
    expected = architecture.parameters(classes)
    found = sum(int(parameter.size) for parameter in trainable(network))
    assert found == expected, f"{name} has {found} parameters instead of {expected}"
    return network


def trainable(network: nn.Layer) -> List[Any]:
    """Return the parameters that are learned: ``Layer.parameters()`` holds running statistics as well."""
    return [parameter for parameter in network.parameters() if parameter.trainable]


def conv_norms(network: nn.Layer) -> List[ConvNorm]:
    """Return the convolutions with their norms."""
    return [layer for layer in network.sublayers() if isinstance(layer, ConvNorm)]
