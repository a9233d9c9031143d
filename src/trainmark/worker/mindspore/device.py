"""The CPU of this rank: how many of its cores may compute."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Set

import mindspore as ms

from ..core.place import Place


def tasks() -> Set[int]:
    """Return the threads of this process."""
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


def bind_threads(threads: int, place: Place, loading: Set[int]) -> None:
    """Keep this process on ``threads`` of the CPUs that it may use, those after the ranks before it on the node.

    MindSpore's settings do not bound it: with ``threads_num(1)`` it keeps a thread that computes, one that helps it,
    and OpenMP's. 0 leaves everything as it is. Threads that exist already are moved as well, but for those that are
    ``loading``: any loader may use all CPUs, as other frameworks' loader processes do.
    """
    if not threads:
        return
    allowed = sorted(os.sched_getaffinity(0))
    first = place.local_rank * threads
    own = {allowed[(first + offset) % len(allowed)] for offset in range(threads)}
    for task in tasks() - loading:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(task, own)
    ms.device_context.cpu.op_tuning.threads_num(threads)
