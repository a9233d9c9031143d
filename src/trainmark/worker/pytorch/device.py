"""The device of this rank: choosing it, and what it is called."""

from __future__ import annotations

from typing import Any

import torch

from ..core.choices import own_gpu
from ..core.host import cpu_name, peak_resident_bytes
from ..core.place import Place


def choose_device(asked: str, place: Place) -> Any:
    """Return the torch device of this rank, and make it the current one; raise ``RunError`` if it is not there."""
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = own_gpu("PyTorch", asked, seen, place)
    if index is None:
        return torch.device("cpu")
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    return device


def device_name(device: Any) -> str:
    """Return what the vendor calls the device."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return cpu_name()


def peak_memory_bytes(device: Any) -> int:
    """Return the most memory: in use by tensors on a GPU, of the process (resident) on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return peak_resident_bytes()


def peak_memory_of(device: Any) -> str:
    """Return in words what ``peak_memory_bytes`` counts."""
    return "device, in use by PyTorch" if device.type == "cuda" else "process, resident"
