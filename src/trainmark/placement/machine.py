"""Asking this machine what placement must know of it."""

import os
from pathlib import Path

from trainmark.environment.host import read_cpu
from trainmark.placement.plan import Machine


def this_machine() -> Machine:
    """Return the cores that this process may use and the number of GPUs that NVIDIA's library reports."""
    quota = read_cpu(Path("/proc"), Path("/sys")).quota_cpus
    return Machine(cores=usable_cores(len(os.sched_getaffinity(0)), quota), gpus=_gpus())


def usable_cores(allowed: int, quota_cpus: float | None) -> int:
    """Return how many threads can compute at once: the allowed CPUs, or fewer under a container's quota.

    More threads than the quota's CPUs are stopped in the middle of a step until the next period begins.
    """
    return allowed if quota_cpus is None else max(1, min(allowed, int(quota_cpus)))


def _gpus() -> int:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        count = int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()
    if visible is None:
        return count
    return min(count, len([word for word in visible.split(",") if word.strip() not in ("", "-1")]))
