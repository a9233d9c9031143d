"""The device of this rank: choosing it and its threads before TensorFlow starts, and what it is called."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Optional

import tensorflow as tf

from ..core.choices import own_gpu
from ..core.host import cpu_name, peak_resident_bytes
from ..core.place import Place


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
    index = own_gpu("TensorFlow", asked, len(gpus), place)
    if index is None:
        tf.config.set_visible_devices([], "GPU")
        return Device("cpu", None)
    tf.config.set_visible_devices(gpus[index], "GPU")
    # Otherwise TensorFlow takes all of the GPU's memory at once, and nobody could say what the training needs.
    tf.config.experimental.set_memory_growth(gpus[index], True)
    return Device("cuda", gpus[index])


def limit_threads(threads: int, device: Device) -> None:
    """Let this process compute with ``threads`` threads (0: leave TensorFlow's choice, one a core).

    On a CPU one operation at a time, shared out among the threads: with more at a time each of them would bring its
    own. A GPU's operations are only handed over, and those of the input go beside them.
    """
    if not threads:
        return
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    if device.gpu is None:
        tf.config.threading.set_inter_op_parallelism_threads(1)


def compute_threads() -> int:
    """Return how many threads share the work of one operation."""
    asked = int(tf.config.threading.get_intra_op_parallelism_threads())
    return asked or len(os.sched_getaffinity(0))


def wait_for(device: Device) -> None:
    """Wait for all that was handed over: the GPU's stream, and then what TensorFlow itself still queues.

    What ``tf.test.experimental.sync_devices`` does, which fails beside other ranks: it names their devices too. The end
    of ``async_scope`` waits for the queues.
    """
    with tf.experimental.async_scope(), tf.device(device.path):
        tf.raw_ops.SyncDevice()


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
