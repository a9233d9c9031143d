"""MobileNetV1 as a torch module; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, List

from torch import nn

from ....tasks.image_classification.architectures import ARCHITECTURES, Convolution
from .units import convolution


def _unit(description: Convolution) -> List[nn.Module]:
    return [*convolution(description), nn.ReLU(inplace=True)]


class MobileNetV1(nn.Module):
    """A 3x3 stem, 13 pairs of a depthwise 3x3 and a 1x1 convolution, and a linear classifier."""

    def __init__(self, classes: int) -> None:
        """Draw the weights from torch's generator."""
        super().__init__()
        architecture = ARCHITECTURES["mobilenet_v1"]
        layers: List[nn.Module] = []
        for description in architecture.convolutions:
            layers += _unit(description)
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(architecture.features, classes)

    def forward(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        return self.classifier(self.pool(self.features(images)).flatten(1))
