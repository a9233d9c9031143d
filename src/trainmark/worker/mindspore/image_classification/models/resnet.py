"""ResNet-50 v1.5 as a MindSpore cell; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, Dict

from mindspore import nn, ops

from ....tasks.image_classification.architectures import ARCHITECTURES, Convolution
from .units import activated, convolution


class Bottleneck(nn.Cell):
    """1x1 to the width, 3x3 with the stride, 1x1 to four times the width, and the shortcut beside them."""

    def __init__(self, layers: Dict[str, Convolution]) -> None:
        """Take the block's convolutions by the last word of their names; the first of a stage has a ``shortcut``."""
        super().__init__()
        body = [*activated(layers["a"]), *activated(layers["b"]), *convolution(layers["c"])]
        self.body = nn.SequentialCell(body)
        projected = "shortcut" in layers
        self.shortcut = nn.SequentialCell(convolution(layers["shortcut"])) if projected else nn.Identity()
        self.relu = nn.ReLU()

    def construct(self, x: Any) -> Any:
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        return self.relu(self.body(x) + self.shortcut(x))


class ResNet50(nn.Cell):
    """16 bottleneck blocks in four stages between a 7x7 stem and a linear classifier."""

    def __init__(self, classes: int) -> None:
        """Draw the weights from MindSpore's global seed."""
        super().__init__()
        architecture = ARCHITECTURES["resnet50_v1.5"]
        pool = nn.MaxPool2d(3, stride=2, pad_mode="pad", padding=1)
        self.stem = nn.SequentialCell([*activated(architecture.convolutions[0]), pool])
        self.blocks = nn.SequentialCell([Bottleneck(layers) for layers in architecture.blocks().values()])
        self.classifier = nn.Dense(architecture.features, classes)

    def construct(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        return self.classifier(ops.mean(self.blocks(self.stem(images)), (2, 3)))
