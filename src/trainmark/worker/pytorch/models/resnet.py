"""ResNet-50 v1.5: He et al., https://arxiv.org/abs/1512.03385, with the stride in the 3x3 convolution.

In v1 a stage's first block halves the image in its first 1x1 convolution; in v1.5 in its 3x3. The weights are
drawn as NVIDIA's ConvNets recipe does with ``-c fanin``: normal, of variance 2 / fan-in.
"""

from __future__ import annotations

from typing import Any, List

from torch import nn

EXPANSION = 4
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width, blocks and stride of each stage."""


class Bottleneck(nn.Module):
    """1x1 to ``width``, 3x3 with the stride, 1x1 to four times the width, and the shortcut beside them."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        """Take the channels of the input, the width of the 3x3 convolution and its stride."""
        super().__init__()
        outputs = width * EXPANSION
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

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
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        blocks: List[nn.Module] = []
        channels = 64
        for width, count, stride in STAGES:
            for index in range(count):
                blocks.append(Bottleneck(channels, width, stride if index == 0 else 1))
                channels = width * EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")

    def forward(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        return self.classifier(self.pool(self.blocks(self.stem(images))).flatten(1))
