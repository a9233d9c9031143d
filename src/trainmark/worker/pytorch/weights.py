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
            value = torch.from_numpy(np.ascontiguousarray(weights[name]))
            if is_sharded(tensor):
                from torch.distributed.tensor import distribute_tensor

                value = distribute_tensor(value.to(tensor.device), tensor.device_mesh, tensor.placements)
            tensor.copy_(value)


def whole(tensor: Any) -> Any:
    """Return a tensor with all of its elements: the ranks gather a sharded one, and all of them must call this."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def is_sharded(tensor: Any) -> bool:
    """Return whether a tensor is a DTensor, whose import would take a part of a second in every run."""
    return hasattr(tensor, "full_tensor")


def read(tensors: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the tensors as numpy arrays in FP32, copied once; sparse ones with all of their rows."""
    return {name: _numpy(tensor) for name, tensor in tensors.items()}


def _numpy(tensor: Any) -> Any:
    given = whole(tensor.to_dense() if tensor.is_sparse else tensor).detach()
    there = given.float().cpu().contiguous()
    return (there.clone() if there.data_ptr() == given.data_ptr() else there).numpy()


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
