"""The models, the same in every framework: layers, their names, shapes, strides and paddings.

The one description that all workers are held to. The number of parameters is asserted when a model is built; the
rest by the equivalence check, which loads weights by these names and compares what each layer did.

Sources: ResNet-50 of He et al. (https://arxiv.org/abs/1512.03385) in the variant called v1.5, with the stride of a
stage in its first 3x3 convolution instead of its first 1x1; MobileNetV1 of Howard et al.
(https://arxiv.org/abs/1704.04861, table 1), width 1.0.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

# The share of the old running statistics that each step keeps (torch's convention writes it as 0.1).
NORM_MOMENTUM = 0.9

NORM_EPSILON = 1e-5

RESNET50_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of each
RESNET_EXPANSION = 4

# Output channels and stride of each depthwise-separable block.
MOBILENET_BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1),
)  # fmt: skip

TINY_BLOCKS = ((32, 1), (64, 2))  # the same of ``mobilenet_tiny``, whose stem has 24 channels


class Convolution(NamedTuple):
    """A convolution without bias: square kernel, the same stride and symmetric padding on both axes."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    stride: int
    padding: int
    groups: int

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """Return (outputs, inputs / groups, height, width), the order in which weights are exchanged."""
        return (self.outputs, self.inputs // self.groups, self.kernel, self.kernel)

    @property
    def geometry(self) -> dict[str, int]:
        """Return the rest of it, by the names of PyTorch's, OneFlow's and Paddle's arguments."""
        return {"stride": self.stride, "padding": self.padding, "groups": self.groups}


class Layer(NamedTuple):
    """A convolution or the classifier, as it passes one image: values that it reads, gives and has as weights."""

    name: str
    inputs: int
    outputs: int
    weights: int
    multiply_adds: int


class Architecture(NamedTuple):
    """A network: all its convolutions in the order of the forward pass, and the features that the classifier gets."""

    convolutions: tuple[Convolution, ...]
    features: int

    def parameters(self, classes: int) -> int:
        """Return the trainable parameters with a classifier (weights and biases) of ``classes`` classes."""
        backbone = sum(math.prod(conv.weight_shape) + 2 * conv.outputs for conv in self.convolutions)
        return backbone + (self.features + 1) * classes

    def multiply_adds(self, size: int, classes: int) -> int:
        """Return those of the forward pass of one square image of ``size`` pixels: convolutions and classifier."""
        return sum(layer.multiply_adds for layer in self.layers(size, classes))

    def layers(self, size: int, classes: int) -> list[Layer]:
        """Return what convolutions and classifier do with a square image of ``size`` pixels, in forward order."""
        layers, entered, last = [], size, ""
        for conv in self.convolutions:
            block, _, word = conv.name.rpartition(".")
            if block != last:
                size = entered = (size + 2 - 3) // 2 + 1 if block == POOLED else size
                last = block
            into = entered if word == "shortcut" else size
            outside = (into + 2 * conv.padding - conv.kernel) // conv.stride + 1
            weights = math.prod(conv.weight_shape)
            read, given = into**2 * conv.inputs, outside**2 * conv.outputs
            layers.append(Layer(conv.name, read, given, weights, outside**2 * weights))
            size = outside
        products = self.features * classes
        return [*layers, Layer("classifier", self.features, classes, products, products)]

    def blocks(self) -> "dict[str, dict[str, Convolution]]":
        """Return the convolutions after the stem by their block's name and, in it, the last word of their own."""
        blocks: dict[str, dict[str, Convolution]] = {}
        for conv in self.convolutions[1:]:
            block, _, word = conv.name.rpartition(".")
            blocks.setdefault(block, {})[word] = conv
        return blocks

    def in_order(
        self,
        activated: Callable[[Convolution], Iterable[Any]],
        pool: Any,
        bottleneck: Callable[[dict[str, Convolution]], Any],
    ) -> list[Any]:
        """Return a framework's own layers below the classifier, in forward order.

        ``activated`` makes a convolution with its norm and ReLU; a ResNet has the ``pool`` and blocks behind the first.
        """
        if POOLED in self.blocks():
            return [*activated(self.convolutions[0]), pool, *map(bottleneck, self.blocks().values())]
        return [layer for convolution in self.convolutions for layer in activated(convolution)]

    def shapes(self, classes: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of every trainable parameter and running statistic, by name, in forward order.

        A convolution ``X`` has ``X.conv.weight`` (outputs, inputs / groups, height, width), ``X.bn.weight``,
        ``X.bn.bias``, ``X.bn.running_mean`` and ``X.bn.running_var`` (outputs,); the classifier has
        ``classifier.weight`` (classes, features) and ``classifier.bias`` (classes,).
        """
        shapes: dict[str, tuple[int, ...]] = {}
        for conv in self.convolutions:
            shapes[conv.name + ".conv.weight"] = conv.weight_shape
            for vector in ("weight", "bias", "running_mean", "running_var"):
                shapes[conv.name + ".bn." + vector] = (conv.outputs,)
        return {**shapes, "classifier.weight": (classes, self.features), "classifier.bias": (classes,)}


POOLED = "stage1.block0"  # the block before which ResNet has a max pool of 3 x 3, stride 2


def is_trainable(name: str) -> bool:
    """Return whether a name of ``Architecture.shapes`` is a parameter and not a running statistic."""
    return not name.endswith((".running_mean", ".running_var"))


def is_batch_norm(name: str) -> bool:
    """Return whether a name of ``Architecture.shapes`` belongs to a batch norm: those do not decay by default."""
    return ".bn." in name


def _resnet50() -> Architecture:
    """Names: ``stem``; ``stage1.block0.a`` (1x1), ``.b`` (3x3), ``.c`` (1x1); in a first block ``.shortcut``."""
    convolutions: list[Convolution] = [Convolution("stem", 3, 64, 7, 2, 3, 1)]
    channels = 64
    for stage, (width, blocks, stage_stride) in enumerate(RESNET50_STAGES, start=1):
        outputs = width * RESNET_EXPANSION
        for block in range(blocks):
            name, stride = f"stage{stage}.block{block}", stage_stride if block == 0 else 1
            convolutions += [
                Convolution(name + ".a", channels, width, 1, 1, 0, 1),
                Convolution(name + ".b", width, width, 3, stride, 1, 1),
                Convolution(name + ".c", width, outputs, 1, 1, 0, 1),
            ]
            if block == 0:
                convolutions.append(Convolution(name + ".shortcut", channels, outputs, 1, stride, 0, 1))
            channels = outputs
    return Architecture(tuple(convolutions), features=2048)


def _mobilenet(channels: int, blocks: tuple[tuple[int, int], ...]) -> Architecture:
    """Names: ``stem``, then ``block0.depthwise`` (3x3), ``block0.pointwise`` (1x1), ``block1.depthwise`` and so on."""
    convolutions: list[Convolution] = [Convolution("stem", 3, channels, 3, 2, 1, 1)]
    for block, (outputs, stride) in enumerate(blocks):
        convolutions += [
            Convolution(f"block{block}.depthwise", channels, channels, 3, stride, 1, channels),
            Convolution(f"block{block}.pointwise", channels, outputs, 1, 1, 0, 1),
        ]
        channels = outputs
    return Architecture(tuple(convolutions), features=channels)


# With 1000 classes: 25,557,032, 4,231,976 and 69,320 parameters.
ARCHITECTURES: dict[str, Architecture] = {
    "resnet50_v1.5": _resnet50(),
    "mobilenet_v1": _mobilenet(32, MOBILENET_BLOCKS),
    "mobilenet_tiny": _mobilenet(24, TINY_BLOCKS),
}
