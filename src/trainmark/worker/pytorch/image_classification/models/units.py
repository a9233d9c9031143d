"""A convolution and its batch norm, from the description that all frameworks share."""

from __future__ import annotations

from typing import List, Optional, Type

from torch import nn

from ....tasks.image_classification.architectures import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, Convolution


def convolution(
    description: Convolution,
    norm: Optional[Type[nn.BatchNorm2d]] = None,
    kind: Optional[Type[nn.Conv2d]] = None,
) -> List[nn.Module]:
    """Return the convolution and its norm; weights are normal of variance 2 / fan-in, as NVIDIA's ``-c fanin``.

    ``norm`` and ``kind`` are classes to take in place of torch's own.
    """
    conv = (kind or nn.Conv2d)(
        description.inputs,
        description.outputs,
        description.kernel,
        stride=description.stride,
        padding=description.padding,
        groups=description.groups,
        bias=False,
    )
    nn.init.kaiming_normal_(conv.weight, mode="fan_in", nonlinearity="relu")
    make_norm = norm or nn.BatchNorm2d
    return [conv, make_norm(description.outputs, eps=BATCH_NORM_EPSILON, momentum=1 - BATCH_NORM_MOMENTUM)]
