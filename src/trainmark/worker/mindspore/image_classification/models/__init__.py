"""The networks, by the names that the ``model`` axis uses."""

from __future__ import annotations

from typing import Callable, Dict

from mindspore import nn

from ....tasks.image_classification.architectures import ARCHITECTURES
from .mobilenet import MobileNetV1
from .resnet import ResNet50

MODELS: Dict[str, Callable[[int], nn.Cell]] = {"resnet50_v1.5": ResNet50, "mobilenet_v1": MobileNetV1}


def build_model(name: str, classes: int) -> nn.Cell:
    """Return the network with fresh weights in FP32; its number of parameters is asserted."""
    model = MODELS[name](classes)
    expected = ARCHITECTURES[name].parameters(classes)
    found = sum(parameter.size for parameter in model.trainable_params())
    assert found == expected, f"{name} has {found} parameters instead of {expected}"
    return model
