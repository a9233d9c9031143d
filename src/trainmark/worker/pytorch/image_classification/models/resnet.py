"""ResNet-50 v1.5 as a torch module; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, Dict, List

from torch import nn

from ....tasks.image_classification.architectures import ARCHITECTURES, Convolution
from .units import convolution


class Bottleneck(nn.Module):
    """1x1 to the width, 3x3 with the stride, 1x1 to four times the width, and the shortcut beside them."""

    def __init__(self, layers: Dict[str, Convolution]) -> None:
        """Take the block's convolutions by the last word of their names; the first of a stage has a ``shortcut``."""
        super().__init__()
        self.conv1, self.bn1 = convolution(layers["a"])
        self.conv2, self.bn2 = convolution(layers["b"])
        self.conv3, self.bn3 = convolution(layers["c"])
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential(*(convolution(layers["shortcut"]) if "shortcut" in layers else ()))

    def forward(self, x: Any) -> Any:
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += self.shortcut(x)
        return self.relu(out)


class ResNet50(nn.Module):
    """16 bottleneck blocks in four stages between a 7x7 stem and a linear classifier."""

    def __init__(self, classes: int) -> None:
        """Draw the weights from torch's generator."""
        super().__init__()
        architecture = ARCHITECTURES["resnet50_v1.5"]
        pool = nn.MaxPool2d(3, stride=2, padding=1)
        stem = convolution(architecture.convolutions[0])
        self.stem = nn.Sequential(*stem, nn.ReLU(inplace=True), pool)
        units: List[nn.Module] = [Bottleneck(layers) for layers in architecture.blocks().values()]
        self.blocks = nn.Sequential(*units)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(architecture.features, classes)

    def forward(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        return self.classifier(self.pool(self.blocks(self.stem(images))).flatten(1))
