"""Weights in and out of tensors that are told by name."""

from __future__ import annotations

from typing import Any, Dict, Mapping

import numpy as np
import oneflow as flow


def load(tensors: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    """Copy numpy arrays into the tensors of the same names."""
    with flow.no_grad():
        for name, tensor in tensors.items():
            given = flow.from_numpy(np.ascontiguousarray(weights[name], np.float32))
            tensor.copy_(given.to(tensor.device))


def read(tensors: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the tensors as numpy arrays in FP32, copied."""
    return {name: as_numpy(tensor) for name, tensor in tensors.items()}


def as_numpy(tensor: Any) -> Any:
    """Return a copy of a tensor on the host, in FP32."""
    return np.array(tensor.detach().cpu().numpy(), np.float32)


def count_parameters(network: Any) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
