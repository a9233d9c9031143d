"""Weights in and out of tensors that are told by name."""

from __future__ import annotations

from typing import Any, Dict, Mapping

import numpy as np


def load(tensors: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    """Copy numpy arrays into the tensors of the same names."""
    for name, tensor in tensors.items():
        tensor.set_value(np.ascontiguousarray(_turned(name, weights[name])))


def read(tensors: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the tensors as numpy arrays in FP32, copied."""
    return {
        name: np.array(_turned(name, tensor.astype("float32").numpy()), np.float32, order="C")
        for name, tensor in tensors.items()
    }


def _turned(name: str, array: Any) -> Any:
    """Turn the weights of products, which Paddle keeps as (inputs, outputs); tables are called otherwise."""
    return array.T if array.ndim == 2 and name.endswith("weight") else array
