"""MobileNetV1 of width 1.0: Howard et al., https://arxiv.org/abs/1704.04861, table 1."""

from __future__ import annotations

from typing import Any, List

from torch import nn

BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (1024, 2),
    (1024, 1),
)
"""Output channels and stride of each depthwise-separable block."""


def _convolution(channels: int, outputs: int, size: int, stride: int, groups: int = 1) -> List[nn.Module]:
    return [
        nn.Conv2d(channels, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    ]


class MobileNetV1(nn.Module):
    """A 3x3 stem, 13 pairs of a depthwise 3x3 and a 1x1 convolution, and a linear classifier."""

    def __init__(self, classes: int) -> None:
        """Draw the weights from torch's generator."""
        super().__init__()
        layers = _convolution(3, 32, 3, stride=2)
        channels = 32
        for outputs, stride in BLOCKS:
            layers += _convolution(channels, channels, 3, stride, groups=channels)
            layers += _convolution(channels, outputs, 1, stride=1)
            channels = outputs
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")

    def forward(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        return self.classifier(self.pool(self.features(images)).flatten(1))
