"""The networks as Gluon blocks, built from the description that all frameworks share."""

from __future__ import annotations

from typing import Any, Dict, List

import mxnet as mx
from mxnet.gluon import HybridBlock, nn

from ...tasks.image_classification.architectures import (
    ARCHITECTURES,
    BATCH_NORM_EPSILON,
    BATCH_NORM_MOMENTUM,
    Architecture,
    Convolution,
)
from ..weights import count_parameters

HE_FAN_IN = mx.init.MSRAPrelu(factor_type="in", slope=0)
"""Normal with variance 2 / fan-in (He et al., https://arxiv.org/abs/1502.01852)."""


def _prefix_of(name: str) -> str:
    """Return how MXNet's names of a layer's parameters begin: its parameters live in one flat dictionary."""
    return name.replace(".", "_") + "_"


def _unit(description: Convolution, layout: str, relu: bool) -> nn.HybridSequential:
    """Return a convolution with its batch norm, and a ReLU if asked for."""
    prefix = _prefix_of(description.name)
    unit = nn.HybridSequential(prefix=prefix)
    unit.add(
        nn.Conv2D(
            description.outputs,
            description.kernel,
            strides=description.stride,
            padding=description.padding,
            groups=description.groups,
            layout=layout,
            in_channels=description.inputs,
            use_bias=False,
            weight_initializer=HE_FAN_IN,
            prefix=prefix + "conv_",
        ),
        nn.BatchNorm(
            axis=layout.index("C"),
            momentum=BATCH_NORM_MOMENTUM,
            epsilon=BATCH_NORM_EPSILON,
            in_channels=description.outputs,
            prefix=prefix + "bn_",
        ),
    )
    if relu:
        unit.add(nn.Activation("relu"))
    return unit


class _Bottleneck(HybridBlock):
    """The three convolutions of a ResNet block and the shortcut beside them."""

    def __init__(self, layers: Dict[str, Convolution], layout: str) -> None:
        """Take the convolutions by the last word of their names; the first of a stage has a ``shortcut``."""
        super().__init__()
        self.body = nn.HybridSequential()
        self.body.add(*(_unit(layers[word], layout, relu=word != "c") for word in "abc"))
        self.shortcut = _unit(layers["shortcut"], layout, relu=False) if "shortcut" in layers else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 (Gluon's name)
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        out = self.body(x)
        return F.Activation(out + (x if self.shortcut is None else self.shortcut(x)), act_type="relu")


def _resnet50(architecture: Architecture, layout: str) -> List[HybridBlock]:
    return [
        _unit(architecture.convolutions[0], layout, relu=True),
        nn.MaxPool2D(3, strides=2, padding=1, layout=layout),
        *(_Bottleneck(layers, layout) for layers in architecture.blocks().values()),
    ]


def _mobilenet_v1(architecture: Architecture, layout: str) -> List[HybridBlock]:
    return [_unit(layer, layout, relu=True) for layer in architecture.convolutions]


BUILDERS = {"resnet50_v1.5": _resnet50, "mobilenet_v1": _mobilenet_v1}


def build_model(name: str, classes: int, layout: str, context: Any) -> nn.HybridSequential:
    """Return the network with fresh weights in FP32 on ``context``; its number of parameters is asserted.

    ``layout`` is MXNet's word, ``NCHW`` or ``NHWC``.
    """
    architecture = ARCHITECTURES[name]
    model = nn.HybridSequential()
    model.add(
        *BUILDERS[name](architecture, layout),
        nn.GlobalAvgPool2D(layout=layout),
        nn.Flatten(),
        nn.Dense(
            classes,
            in_units=architecture.features,
            weight_initializer=mx.init.Uniform(architecture.features**-0.5),
            prefix="classifier_",
        ),
    )
    model.initialize(ctx=context)
    expected, found = architecture.parameters(classes), count_parameters(model)
    assert found == expected, f"{name} has {found} parameters instead of {expected}"
    return model


def blocks(model: HybridBlock, kind: Any) -> List[Any]:
    """Return the network's blocks of a kind, in the order of its description."""
    found: List[Any] = []
    model.apply(lambda block: found.append(block) if isinstance(block, kind) else None)
    return found


class CrossEntropy(HybridBlock):
    """Cross entropy with label smoothing, averaged over the batch; Gluon's own has no smoothing."""

    def __init__(self, smoothing: float) -> None:
        """Take the share of the target that is spread evenly over all classes."""
        super().__init__()
        self._smoothing = smoothing

    def hybrid_forward(self, F: Any, logits: Any, labels: Any) -> Any:  # noqa: N803 (Gluon's name)
        """Map logits (batch, classes) and labels (batch,) to the mean loss, (1,), computed in FP32."""
        log = F.log_softmax(F.cast(logits, dtype="float32"))
        loss = -F.pick(log, labels)
        if self._smoothing:
            loss = (1 - self._smoothing) * loss - self._smoothing * F.mean(log, axis=-1)
        return F.mean(loss)
