"""The device of this rank: choosing it, its threads, marking time on it, and what it is called."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, List, Optional

import paddle

from ..host import cpu_name, peak_resident_bytes
from ..outcomes import UNSUPPORTED, RunError
from ..place import Place


def choose_device(asked: str, place: Place) -> str:
    """Return ``cpu`` or ``cuda`` and make this rank's one the current one; raise ``RunError`` if it is not there."""
    seen = paddle.device.cuda.device_count() if paddle.device.is_compiled_with_cuda() else 0
    if asked == "cpu" or (asked == "auto" and seen == 0):
        paddle.device.set_device("cpu")
        return "cpu"
    if not paddle.device.is_compiled_with_cuda():
        raise RunError(UNSUPPORTED, "cuda was asked for, but this PaddlePaddle is built for CPUs only")
    if seen == 0:
        raise RunError(UNSUPPORTED, "cuda was asked for, but PaddlePaddle sees no CUDA device here")
    index = place.local_rank
    if index >= seen:
        # Some launchers show each rank its own GPU alone.
        if seen != 1 or "CUDA_VISIBLE_DEVICES" not in os.environ:
            raise RunError(
                UNSUPPORTED, f"local rank {index} has no GPU: PaddlePaddle sees {seen} on this node"
            )
        index = 0
    paddle.device.set_device(f"gpu:{index}")
    return "cuda"


def device_index(device: str) -> int:
    """Return the number of the current GPU, 0 on a CPU."""
    return int(paddle.device.get_device().partition(":")[2]) if device == "cuda" else 0


def device_name(device: str) -> str:
    """Return what the vendor calls the device."""
    if device == "cuda":
        return str(paddle.device.cuda.get_device_name())
    return cpu_name()


def limit_threads(threads: int) -> None:
    """Compute with this many threads: those of OpenMP and MKL, and no operators side by side.

    Paddle itself uses one unless OMP_NUM_THREADS was set before its import. The interpreter of compiled programs
    has threads of its own beside them, which run operators that do not need each other; so its serial mode is set.
    """
    paddle.base.core.set_num_threads(threads)
    paddle.set_flags({"FLAGS_enable_pir_in_executor_trace_run": True})


def math_threads() -> Optional[int]:
    """Return the threads that Paddle's OpenMP uses for a loop now, or None where that cannot be asked."""
    library = Path(paddle.__file__).parent / "libs" / "libiomp5.so"
    try:
        # Already loaded by Paddle: this asks the very copy that computes.
        return int(ctypes.CDLL(str(library), mode=os.RTLD_NOLOAD).omp_get_max_threads())
    except (OSError, AttributeError):
        return None


class CudaMarks:
    """Marks by CUDA events on the stream that trains."""

    def __init__(self, slots: int) -> None:
        """Make the events beforehand, because making one is dearer than recording it."""
        self._events: List[Any] = [paddle.device.cuda.Event(enable_timing=True) for _ in range(slots)]

    def mark(self, slot: int) -> None:
        """Record the event after everything that was launched so far."""
        self._events[slot].record()

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds on the device between two recorded events."""
        return float(self._events[earlier].elapsed_time(self._events[later])) / 1e3


def peak_memory_bytes(device: str) -> int:
    """Return the most memory held: by Paddle's allocator on a GPU, by the process (resident) on a CPU."""
    if device == "cuda":
        return int(paddle.device.cuda.max_memory_reserved())
    return peak_resident_bytes()


def peak_memory_of(device: str) -> str:
    """Return in words what ``peak_memory_bytes`` counts."""
    return "device, reserved by PaddlePaddle" if device == "cuda" else "process, resident"
