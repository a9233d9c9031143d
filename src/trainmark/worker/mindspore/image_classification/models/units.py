"""A convolution and its batch norm, from the description that all frameworks share."""

from __future__ import annotations

from typing import List

from mindspore import nn
from mindspore.common.initializer import HeNormal

from ....tasks.image_classification.architectures import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, Convolution


def convolution(description: Convolution) -> List[nn.Cell]:
    """Return the convolution and its norm; weights are normal of variance 2 / fan-in.

    ``pad_mode="pad"`` with the padding written out: MindSpore's default, "same", pads more on the right.
    """
    conv = nn.Conv2d(
        description.inputs,
        description.outputs,
        description.kernel,
        stride=description.stride,
        pad_mode="pad",
        padding=description.padding,
        group=description.groups,
        has_bias=False,
        weight_init=HeNormal(mode="fan_in", nonlinearity="relu"),
    )
    norm = nn.BatchNorm2d(description.outputs, eps=BATCH_NORM_EPSILON, momentum=BATCH_NORM_MOMENTUM)
    return [conv, norm]


def activated(description: Convolution) -> List[nn.Cell]:
    """Return the convolution, its norm, and a ReLU."""
    return [*convolution(description), nn.ReLU()]
