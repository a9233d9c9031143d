"""The device of this rank: choosing it, marking time on it, and what it is called."""

from __future__ import annotations

import os
from typing import Any, List

import torch

from ..host import cpu_name, peak_resident_bytes
from ..outcomes import UNSUPPORTED, RunError
from ..place import Place


def choose_device(asked: str, place: Place) -> Any:
    """Return the torch device of this rank, and make it the current one; raise ``RunError`` if it is not there."""
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise RunError(UNSUPPORTED, "cuda was asked for, but PyTorch sees no CUDA device here")
    seen = torch.cuda.device_count()
    index = place.local_rank
    if index >= seen:
        # Some launchers show each rank its own GPU alone.
        if seen != 1 or "CUDA_VISIBLE_DEVICES" not in os.environ:
            raise RunError(UNSUPPORTED, f"local rank {index} has no GPU: PyTorch sees {seen} on this node")
        index = 0
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    return device


def device_name(device: Any) -> str:
    """Return what the vendor calls the device."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return cpu_name()


class CudaMarks:
    """Marks by CUDA events on the stream that trains; recording one costs the host a few microseconds."""

    def __init__(self, slots: int) -> None:
        """Make the events beforehand, because making one is dearer than recording it."""
        self._events: List[Any] = [torch.cuda.Event(enable_timing=True) for _ in range(slots)]

    def mark(self, slot: int) -> None:
        """Record the event after everything that was launched so far."""
        self._events[slot].record()

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds on the device between two recorded events."""
        return float(self._events[earlier].elapsed_time(self._events[later])) / 1e3


def peak_memory_bytes(device: Any) -> int:
    """Return the most memory held: by torch's allocator on a GPU, by the process (resident) on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_reserved(device))
    return peak_resident_bytes()


def peak_memory_of(device: Any) -> str:
    """Return in words what ``peak_memory_bytes`` counts."""
    return "device, reserved by PyTorch" if device.type == "cuda" else "process, resident"
