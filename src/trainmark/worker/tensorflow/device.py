"""The device of this rank: choosing it and its threads before TensorFlow starts, and what it is called."""

from __future__ import annotations

import os
import time
from typing import Any, List, NamedTuple, Optional

import tensorflow as tf

from ..host import cpu_name, peak_resident_bytes
from ..outcomes import UNSUPPORTED, RunError
from ..place import Place


class Device(NamedTuple):
    """What this rank computes on; ``gpu`` is TensorFlow's physical device, None for the CPU."""

    type: str
    gpu: Optional[Any]

    @property
    def path(self) -> str:
        """Return the name by which TensorFlow places work on it: each rank sees its own GPU alone."""
        return "/CPU:0" if self.gpu is None else "/GPU:0"


def choose_device(asked: str, place: Place) -> Device:
    """Return the device of this rank and hide all others from TensorFlow; raise ``RunError`` if it is not there."""
    gpus = tf.config.list_physical_devices("GPU")
    if asked == "cpu" or (asked == "auto" and not gpus):
        tf.config.set_visible_devices([], "GPU")
        return Device("cpu", None)
    if not gpus:
        raise RunError(UNSUPPORTED, "cuda was asked for, but TensorFlow sees no GPU here")
    index = place.local_rank
    if index >= len(gpus):
        # Some launchers show each rank its own GPU alone.
        if len(gpus) != 1 or "CUDA_VISIBLE_DEVICES" not in os.environ:
            raise RunError(
                UNSUPPORTED, f"local rank {index} has no GPU: TensorFlow sees {len(gpus)} on this node"
            )
        index = 0
    tf.config.set_visible_devices(gpus[index], "GPU")
    # Otherwise TensorFlow takes all of the GPU's memory at once, and nobody could say what the training needs.
    tf.config.experimental.set_memory_growth(gpus[index], True)
    return Device("cuda", gpus[index])


def limit_threads(threads: int) -> None:
    """Let this process compute with ``threads`` threads (0: leave TensorFlow's choice, one a core).

    One operation at a time, shared out among the threads: with more at a time each of them would bring its own.
    """
    if threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def compute_threads() -> int:
    """Return how many threads share the work of one operation."""
    asked = int(tf.config.threading.get_intra_op_parallelism_threads())
    return asked or len(os.sched_getaffinity(0))


def device_name(device: Device) -> str:
    """Return what the vendor calls the device."""
    if device.gpu is not None:
        return str(tf.config.experimental.get_device_details(device.gpu).get("device_name", "GPU"))
    return cpu_name()


def peak_memory_bytes(device: Device) -> int:
    """Return the most memory held: in TensorFlow's allocator on a GPU, by the process (resident) on a CPU."""
    if device.gpu is not None:
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    return peak_resident_bytes()


def peak_memory_of(device: Device) -> str:
    """Return in words what ``peak_memory_bytes`` counts."""
    return "device, in use by TensorFlow" if device.gpu is not None else "process, resident"


class ResultMarks:
    """Marks for a device that computes behind the host, by the host's clock: TensorFlow offers no device events.

    A step is over when its loss can be read. To see that without letting the device run dry, the loss of the step
    *before* is waited for, while the device already has the next one: the host is one step ahead.
    """

    def __init__(self, slots: int) -> None:
        """Make room for ``slots`` marks."""
        self._ns = [0] * slots
        self._open: List[int] = []
        self._results: List[Any] = []

    def mark(self, slot: int, result: Any) -> None:
        """Note the end of the work that gives ``result``, or the time now where there is none (None)."""
        self.finish()
        if result is None:
            self._ns[slot] = time.perf_counter_ns()
            return
        self._open.append(slot)
        self._results.append(result)

    def finish(self) -> None:
        """Wait for the work that was marked last and note when it was done."""
        if self._open:
            self._results.pop().numpy()
            self._ns[self._open.pop()] = time.perf_counter_ns()

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds between two marks."""
        return (self._ns[later] - self._ns[earlier]) / 1e9
