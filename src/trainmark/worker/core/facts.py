"""The facts of the host and of a run, and the observed and the expected settings of its first step."""

import math
import os
import platform
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from .outcomes import INVALID, RunError


def cpu_name() -> str:
    """Return what the vendor calls the CPU; without Linux's /proc/cpuinfo, what Python knows of it."""
    lines = (line for line in cpu_text().splitlines() if line.startswith("model name"))
    names = (line.partition(":")[2].strip() for line in lines)
    return next(names, platform.processor() or platform.machine())


def cpu_text() -> str:
    """Return what Linux says of the CPU, its instructions too; nothing where there is no /proc/cpuinfo."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""


def type_name(dtype: Any) -> str:
    """Return a framework's type as observations name it: ``torch.bfloat16`` or ``DataType.BFLOAT16`` is bfloat16."""
    return str(getattr(dtype, "name", dtype)).rpartition(".")[2].lower()


def count_parameters(parameters: Iterable[Any]) -> int:
    """Return the number of elements of a framework's parameters, less those that it is told not to train."""
    return sum(math.prod(one.shape) for one in parameters if getattr(one, "requires_grad", True))


def assert_parameters(found: int, expected: int) -> None:
    """Assert that a model has the number of trainable parameters of its description."""
    assert found == expected, f"the model has {found} parameters instead of {expected}"


def peak_resident_bytes() -> int:
    """Return the most memory of this process that was resident at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory_bytes() -> int:
    """Return the memory that this host, or the container that this process is in, has: used or not."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(there, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):
        return there


PROCESS = "process, resident"  # what a peak of memory is counted of, if not of a device


class Facts(NamedTuple):
    """The constant facts of a run, in the framework's own words."""

    framework_version: str
    device: str  # cpu or cuda
    device_name: str
    parameters: int  # the trainable ones, counted in the network
    threads: int | None  # None if unknown
    implementation: str  # of the optimizer
    optimizer: str = "SGD"
    compiler_mode: str | None = None
    peak_memory_of: str = PROCESS  # the memory that ``Training.peak_memory_bytes`` counts
    others: Mapping[str, Any] = {}  # of this framework alone: versions, levels, switches


@dataclass(frozen=True)
class ObservedConfig:
    """The observed settings of the first step, read from the framework's objects, never from the request.

    None means a missing observation, and is invalid unless ``unseen`` names it; ``either`` matches any requested value.
    """

    compute_dtype: str | None  # inside the network, after its first layer, like ``bfloat16``
    weight_dtype: str | None
    batch_per_device: int | None
    tf32_matmul: bool | None = None  # may be omitted on a CPU, which has no TF32
    tf32_convolution: bool | None = None
    axes: Mapping[str, Any] = field(default_factory=dict)  # the values of the task's own axes
    unseen: tuple[str, ...] = ()  # what cannot be observed in this framework
    others: Mapping[str, Any] = field(default_factory=dict)


def as_requested(observed: ObservedConfig, requested: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return the observed values, with the same keys for every framework, and ``unseen``, the unobservable ones.

    Raises ``RunError`` (invalid) for a value that differs from ``requested``, and for a missing observation.
    """
    if device == "cpu":
        observed = replace(observed, tf32_matmul=False, tf32_convolution=False)
    own = {**vars(observed), **observed.axes}
    found = {name: own.get(name) for name in (*own, *requested) if name in requested}
    for name, value in found.items():
        of, wanted = f"{name} of the first step", requested[name]
        if value is None and name not in observed.unseen:
            raise RunError(INVALID, f"{of} was not observed, so it may not be {wanted}")
        if value not in (None, "either", wanted):
            raise RunError(INVALID, f"{of} was {value}, not {wanted} as requested")
    unseen = sorted(name for name, value in found.items() if value is None)
    return {**found, **({"unseen": unseen} if unseen else {}), **observed.others}
