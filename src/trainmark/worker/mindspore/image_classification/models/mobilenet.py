"""MobileNetV1 as a MindSpore cell; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, List

from mindspore import nn, ops

from ....tasks.image_classification.architectures import ARCHITECTURES
from .units import activated


class MobileNetV1(nn.Cell):
    """A 3x3 stem, 13 pairs of a depthwise 3x3 and a 1x1 convolution, and a linear classifier."""

    def __init__(self, classes: int) -> None:
        """Draw the weights from MindSpore's global seed."""
        super().__init__()
        architecture = ARCHITECTURES["mobilenet_v1"]
        cells: List[nn.Cell] = []
        for description in architecture.convolutions:
            cells += activated(description)
        self.features = nn.SequentialCell(cells)
        self.classifier = nn.Dense(architecture.features, classes)

    def construct(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        return self.classifier(ops.mean(self.features(images), (2, 3)))
