"""The networks and the loss as OneFlow modules; what the layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import oneflow as flow
from oneflow import nn

from ...tasks.image_classification.architectures import (
    ARCHITECTURES,
    BATCH_NORM_EPSILON,
    BATCH_NORM_MOMENTUM,
    Convolution,
)
from ..weights import count_parameters


def _convolution(layer: Convolution) -> List[Any]:
    """Return a convolution, its weights normal of variance 2 / fan-in, and its batch norm."""
    conv = nn.Conv2d(
        layer.inputs,
        layer.outputs,
        kernel_size=layer.kernel,
        stride=layer.stride,
        padding=layer.padding,
        groups=layer.groups,
        bias=False,
    )
    nn.init.kaiming_normal_(conv.weight, mode="fan_in", nonlinearity="relu")
    # OneFlow's momentum is the share of the new value, like torch's.
    return [conv, nn.BatchNorm2d(layer.outputs, eps=BATCH_NORM_EPSILON, momentum=1 - BATCH_NORM_MOMENTUM)]


class Bottleneck(nn.Module):
    """1x1 to the width, 3x3 with the stride, 1x1 to four times the width, and the shortcut beside them."""

    def __init__(self, layers: Dict[str, Convolution]) -> None:
        """Take the block's convolutions by the last word of their names; the first of a stage has a ``shortcut``."""
        super().__init__()
        a, b, c = (_convolution(layers[word]) for word in "abc")
        self.path = nn.Sequential(*a, nn.ReLU(), *b, nn.ReLU(), *c)
        self.shortcut = nn.Sequential(*_convolution(layers["shortcut"])) if "shortcut" in layers else None
        self.relu = nn.ReLU()

    def forward(self, x: Any) -> Any:
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        out = self.path(x)
        return self.relu(out + (x if self.shortcut is None else self.shortcut(x)))


class Classifier(nn.Module):
    """Some layers, the mean over the image, and a linear layer."""

    def __init__(self, layers: List[Any], features: int, classes: int) -> None:
        """Take the layers below the mean, and how many channels they end with."""
        super().__init__()
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Linear(features, classes)

    def forward(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        return self.classifier(flow.flatten(self.pool(self.features(images)), 1))


def _resnet50(classes: int) -> Any:
    architecture = ARCHITECTURES["resnet50_v1.5"]
    layers = [
        *_convolution(architecture.convolutions[0]),
        nn.ReLU(),
        nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
    ]
    layers += [Bottleneck(block) for block in architecture.blocks().values()]
    return Classifier(layers, architecture.features, classes)


def _mobilenet_v1(classes: int) -> Any:
    architecture = ARCHITECTURES["mobilenet_v1"]
    layers: List[Any] = []
    for layer in architecture.convolutions:
        layers += [*_convolution(layer), nn.ReLU()]
    return Classifier(layers, architecture.features, classes)


NETWORKS: Dict[str, Callable[[int], Any]] = {"resnet50_v1.5": _resnet50, "mobilenet_v1": _mobilenet_v1}


def build_network(name: str, classes: int) -> Any:
    """Return the network with fresh weights in FP32; its number of parameters is asserted."""
    network = NETWORKS[name](classes)
    expected, found = ARCHITECTURES[name].parameters(classes), count_parameters(network)
    assert found == expected, f"{name} has {found} parameters instead of {expected}"
    return network


class SmoothedCrossEntropy(nn.Module):
    """Cross entropy against labels of which a part is spread evenly over all classes (Szegedy et al., 2015)."""

    def __init__(self, smoothing: float) -> None:
        """Keep the part, 0 for none. Not every version of OneFlow's own loss has such an argument."""
        super().__init__()
        self.smoothing = smoothing
        self.cross_entropy = nn.CrossEntropyLoss()
        self.log_softmax = nn.LogSoftmax(dim=1)

    def forward(self, logits: Any, labels: Any) -> Any:
        """Return the mean over the batch, from logits (batch, classes) and labels (batch,)."""
        loss = self.cross_entropy(logits, labels)
        if not self.smoothing:
            return loss
        return loss * (1 - self.smoothing) - self.log_softmax(logits).mean() * self.smoothing
