"""The device of this rank: choosing it before JAX starts, bounding its threads, and what it is called."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import jax

from ..core.choices import own_gpu
from ..core.host import cpu_name, peak_resident_bytes
from ..core.outcomes import UNSUPPORTED, RunError
from ..core.place import Place

CPU = "cpu"
CUDA = "cuda"
CUDA_PLUGINS = ("jax_cuda13_plugin", "jax_cuda12_plugin")


def choose_platform(asked: str, place: Place) -> str:
    """Return ``cpu`` or ``cuda`` and let JAX see that platform, and this rank's GPU, alone.

    The ranks must meet before JAX may be asked for its devices, so a GPU is looked for without asking it: there is
    one where a CUDA plugin is installed and the driver's control device exists.
    """
    plugin = any(importlib.util.find_spec(name) is not None for name in CUDA_PLUGINS)
    driver = Path("/dev/nvidiactl").exists()
    if asked == CUDA and not plugin:
        raise RunError(
            UNSUPPORTED, f"cuda needs one of JAX's plugins, {' or '.join(CUDA_PLUGINS)}: none is here"
        )
    if asked == CUDA and not driver:
        raise RunError(UNSUPPORTED, "cuda was requested, but there is no NVIDIA driver here (/dev/nvidiactl)")
    gpu = own_gpu("JAX", asked, _gpus_shown() if plugin and driver else 0, place)
    if gpu is None:
        jax.config.update("jax_platforms", CPU)
        # More than one would turn a rank into several.
        jax.config.update("jax_num_cpu_devices", 1)
        return CPU
    jax.config.update("jax_platforms", CUDA)
    jax.config.update("jax_cuda_visible_devices", str(gpu))
    return CUDA


def _gpus_shown() -> int:
    """Return the GPUs that this process may use: those that the variable names, or the driver's devices."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return len([name for name in named.split(",") if name])
    return len([path for path in Path("/dev").glob("nvidia*") if path.name[len("nvidia") :].isdigit()])


def own_device() -> Any:
    """Return this rank's device, starting JAX; raise ``RunError`` if it does not come up."""
    try:
        return jax.local_devices()[0]
    except RuntimeError as error:
        text = " ".join(str(error).split())
        if "initialize backend" in text:
            raise RunError(UNSUPPORTED, f"JAX finds no device to compute on: {text[:300]}") from error
        raise


def bound_threads(threads: int) -> None:
    """Bound the threads with which XLA computes on a CPU; must come before JAX starts. 0 leaves them as they are.

    XLA sizes its pool by this variable where it is set, else by the processors that this process may use.
    """
    if threads:
        os.environ["PJRT_NPROC"] = str(threads)


def compute_threads() -> int:
    """Return how many threads of XLA's pool this process has, counted by their name in the system."""
    names = (_read(task / "comm") for task in Path("/proc/self/task").iterdir())
    return sum(name.startswith("tf_XLAEigen") for name in names)


def device_name(device: Any) -> str:
    """Return what the vendor calls the device."""
    if device.platform != CPU:
        return str(device.device_kind)
    return cpu_name()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def peak_memory_bytes(device: Any) -> int:
    """Return the most memory held: by JAX's allocator on a GPU, by the process (resident) on a CPU."""
    if device.platform != CPU:
        return int(device.memory_stats()["peak_bytes_in_use"])
    return peak_resident_bytes()


def peak_memory_of(device: Any) -> str:
    """Return in words what ``peak_memory_bytes`` counts."""
    return "process, resident" if device.platform == CPU else "device, in use by JAX"
