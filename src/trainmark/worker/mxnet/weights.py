"""The parameters of a Gluon model that are trained."""

from __future__ import annotations

from typing import Any, List

from mxnet.gluon import HybridBlock


def trainable(model: HybridBlock) -> List[Any]:
    """Return the parameters that have a gradient; running statistics are parameters without one in Gluon."""
    return [parameter for parameter in model.collect_params().values() if parameter.grad_req != "null"]


def count_parameters(model: HybridBlock) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.data().size for parameter in trainable(model))
