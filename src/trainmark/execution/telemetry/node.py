"""What the whole node uses: its processors and its memory."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Processor seconds since the start of the node, all CPUs together, and the memory that is still to be had."""

    busy_s: float
    total_s: float
    available_bytes: int | None


def read_node(proc: Path = Path("/proc")) -> NodeUsage:
    """Return the node's counters from ``/proc/stat`` and ``/proc/meminfo`` (proc(5))."""
    with (proc / "stat").open() as file:
        # user nice system idle iowait irq softirq steal; guest time is within user and nice.
        ticks = [int(word) for word in file.readline().split()[1:9]]
    per_s = os.sysconf("SC_CLK_TCK")
    total = sum(ticks)
    return NodeUsage((total - ticks[3] - ticks[4]) / per_s, total / per_s, _available(proc))


def _available(proc: Path) -> int | None:
    with (proc / "meminfo").open() as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None
