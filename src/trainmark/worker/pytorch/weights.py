"""Weights in and out of tensors that are told by name."""

from __future__ import annotations

from typing import Any, Dict, Mapping

import numpy as np
import torch
from torch import nn


def load(tensors: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    """Copy numpy arrays into the tensors of the same names; the order of their elements in memory stays."""
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(torch.from_numpy(np.ascontiguousarray(weights[name])))


def read(tensors: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the tensors as numpy arrays in FP32, copied once; sparse ones with all of their rows."""
    whole = {
        name: (tensor.to_dense() if tensor.is_sparse else tensor).detach() for name, tensor in tensors.items()
    }
    there = {name: tensor.float().cpu().contiguous() for name, tensor in whole.items()}
    return {
        name: (tensor.clone() if tensor.data_ptr() == whole[name].data_ptr() else tensor).numpy()
        for name, tensor in there.items()
    }


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
