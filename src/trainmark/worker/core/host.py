"""What any worker can say of the host that it runs on, without its framework."""

import os
import platform
import resource
from pathlib import Path


def cpu_name() -> str:
    """Return what the vendor calls the CPU; without Linux's /proc/cpuinfo, what Python knows of it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def peak_resident_bytes() -> int:
    """Return the most memory of this process that was resident at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory_bytes() -> int:
    """Return the memory that this host, or the container that this process is in, has: used or not."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        allowed = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return there
    return min(there, allowed)
