"""Weights in and out of parameters that are told by name."""

from __future__ import annotations

from typing import Any, Dict, Mapping

import mindspore as ms
import numpy as np
from mindspore import ops


def load(parameters: Mapping[str, ms.Parameter], weights: Mapping[str, Any]) -> None:
    """Copy numpy arrays into the parameters of the same names.

    Not by ``set_data``: it gives the parameter another tensor, and an optimizer that has run keeps the old one.
    """
    for name, parameter in parameters.items():
        ops.assign(parameter, ms.Tensor(np.array(weights[name], np.float32)))


def read(parameters: Mapping[str, ms.Parameter]) -> Dict[str, Any]:
    """Return the parameters as numpy arrays in FP32, copied."""
    return {name: parameter.asnumpy().astype(np.float32) for name, parameter in parameters.items()}
