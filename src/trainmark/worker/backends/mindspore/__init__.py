"""The backend of MindSpore, 2.4 or later, on CPUs; its failures."""

import os
import re

from ...core.outcomes import OUT_OF_MEMORY, Known, lost_peer, out_of_memory

__all__ = ["FAILURES"]

# oneDNN in MindSpore's wheel takes a reference kernel for its convolutions where it may use AVX-512. It reads the
# variable when it is loaded.
os.environ.setdefault("DNNL_MAX_CPU_ISA", "AVX2")
# Without this it warns of each attempt to connect, and of its own deprecated parts, between the run's lines.
os.environ.setdefault("GLOG_v", "3")

NO_MEMORY = re.compile(
    OUT_OF_MEMORY.pattern + r"|Memory isn't enough|Memory not enough|(allocate|malloc) .{0,60}fail",
    re.IGNORECASE,
)
LOST_COLLECTIVE = re.compile(r"Launch kernel failed[^\n]{0,200}(AllReduce|AllGather)")

FAILURES = (
    Known((RuntimeError,), NO_MEMORY, out_of_memory),
    Known((RuntimeError,), LOST_COLLECTIVE, lost_peer),
)
