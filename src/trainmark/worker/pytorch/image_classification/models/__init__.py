"""The networks, by the names that the ``model`` axis uses."""

from __future__ import annotations

from typing import Any, Callable, Dict

from torch import nn

from ....tasks.image_classification.architectures import ARCHITECTURES
from ... import stages
from ...compilers import FUSED, FUSED_CUDNN, NONE
from ...weights import count_parameters
from .mobilenet import MobileNetV1
from .resnet import ResNet50

MODELS: Dict[str, Callable[[int], nn.Module]] = {"resnet50_v1.5": ResNet50, "mobilenet_v1": MobileNetV1}


def build_model(name: str, classes: int, compiler: str = NONE) -> nn.Module:
    """Return the network with fresh weights in FP32; its number of parameters is asserted.

    The compilers ``fused`` and ``fused-cudnn`` are networks of their own: the same modules, with the same parameters.
    """
    make = MODELS[name] if compiler not in FUSED else _fused(name, compiler)
    model = make(classes)
    expected = ARCHITECTURES[name].parameters(classes)
    found = count_parameters(model)
    assert found == expected, f"{name} has {found} parameters instead of {expected}"
    return model


def _fused(name: str, compiler: str) -> Callable[[int], nn.Module]:
    from .fused import FusedResNet50

    assert name == "resnet50_v1.5", name
    return lambda classes: FusedResNet50(classes, compiler == FUSED_CUDNN, stages.chosen())


def convert_weights(model: nn.Module, dtype: Any) -> None:
    """Keep the weights in ``dtype``, but batch norm in FP32, as cuDNN computes it."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.to(dtype)
