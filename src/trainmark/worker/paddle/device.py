"""The device of this rank: choosing it, how it computes, and what it is called."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Optional

import paddle

from ..core.choices import own_gpu
from ..core.host import cpu_name, peak_resident_bytes
from ..core.outcomes import UNSUPPORTED, RunError
from ..core.place import Place

SEARCH = "FLAGS_cudnn_exhaustive_search"


def choose_device(asked: str, place: Place) -> str:
    """Return ``cpu`` or ``cuda`` and make this rank's one the current one; raise ``RunError`` if it is not there."""
    built = paddle.device.is_compiled_with_cuda()
    if asked == "cuda" and not built:
        raise RunError(UNSUPPORTED, "cuda was requested, but this PaddlePaddle is built for CPUs only")
    index = own_gpu("PaddlePaddle", asked, paddle.device.cuda.device_count() if built else 0, place)
    if index is None:
        paddle.device.set_device("cpu")
        return "cpu"
    paddle.device.set_device(f"gpu:{index}")
    # Its default is a heuristic; the search happens in the first steps, and shapes never change.
    paddle.set_flags({SEARCH: True})
    return "cuda"


def algorithm_search(device: str) -> Optional[str]:
    """Return how cuDNN's algorithms are chosen, by Paddle's own word; None on a CPU."""
    if device == "cpu":
        return None
    return "cudnn, exhaustive" if paddle.get_flags([SEARCH])[SEARCH] else "cudnn, heuristic"


def device_index(device: str) -> int:
    """Return the number of the current GPU, 0 on a CPU."""
    return int(paddle.device.get_device().partition(":")[2]) if device == "cuda" else 0


def device_name(device: str) -> str:
    """Return what the vendor calls the device."""
    if device == "cuda":
        return str(paddle.device.cuda.get_device_name())
    return cpu_name()


def limit_threads(threads: int, device: str) -> None:
    """Compute with this many threads: those of OpenMP and MKL, and on a CPU no operators side by side.

    Paddle itself uses one unless OMP_NUM_THREADS was set before its import. The interpreter of compiled programs
    has threads of its own beside them, which run operators that do not need each other; on a CPU they would share the
    cores, so its serial mode is set there.
    """
    paddle.base.core.set_num_threads(threads)
    if device == "cpu":
        paddle.set_flags({"FLAGS_enable_pir_in_executor_trace_run": True})


def math_threads() -> Optional[int]:
    """Return the threads that Paddle's OpenMP uses for a loop now, or None where that cannot be asked."""
    library = Path(paddle.__file__).parent / "libs" / "libiomp5.so"
    try:
        # Already loaded by Paddle: this asks the very copy that computes.
        return int(ctypes.CDLL(str(library), mode=os.RTLD_NOLOAD).omp_get_max_threads())
    except (OSError, AttributeError):
        return None


def peak_memory_bytes(device: str) -> int:
    """Return the most memory: in use by tensors on a GPU, of the process (resident) on a CPU."""
    if device == "cuda":
        return int(paddle.device.cuda.max_memory_allocated())
    return peak_resident_bytes()


def peak_memory_of(device: str) -> str:
    """Return in words what ``peak_memory_bytes`` counts."""
    return "device, in use by PaddlePaddle" if device == "cuda" else "process, resident"
