"""The process group: gloo between CPUs, NCCL between GPUs."""

from __future__ import annotations

import ctypes
import time
from typing import Any, List, Sequence

import torch
import torch.distributed as dist

from ..core.place import Place
from ..core.ranks import Ranks

LET_GO_S = 5.0
"""How long gloo's threads may take to let go of what was exchanged, on a machine whose cores others have."""


class Group(Ranks):
    """All ranks of the run, if a launcher started this one."""

    def __init__(self, place: Place, device: Any) -> None:
        """Meet the other ranks at the place's address, if a launcher gave one."""
        super().__init__(place)
        self._device = device
        if place.distributed:
            self.backend = "nccl" if device.type == "cuda" else "gloo"
            dist.init_process_group(
                self.backend,
                init_method="env://",
                rank=place.rank,
                world_size=place.world_size,
                device_id=device if device.type == "cuda" else None,
            )

    def counted(self) -> int:
        """Return the ranks of the process group."""
        return 1 if self.backend is None else dist.get_world_size()

    def barrier(self) -> None:
        """Wait for every rank."""
        if self.backend == "nccl":
            dist.barrier(device_ids=[self._device.index])
        elif self.backend is not None:
            dist.barrier()

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return the values of every rank, by rank."""
        if self.backend is None:
            return super().gather(values)
        own = torch.tensor(values, dtype=torch.int64, device=self._device)
        parts = [torch.empty_like(own) for _ in range(self.place.world_size)]
        dist.all_gather(parts, own)
        if self.backend == "gloo":
            _let_go([own, *parts])
        return [part.tolist() for part in parts]

    def mean(self, value: Any) -> Any:
        """Return the mean of a tensor over the ranks, on the device and without waiting for it."""
        if self.backend is not None:
            dist.all_reduce(value)
            value = value / self.place.world_size
        return value

    def leave(self) -> None:
        """End the group together: without the barrier, a rank that leaves first can abort the others."""
        if self.backend is not None:
            self.barrier()
            if self.backend == "gloo":
                # Never taken apart: that would wait, with the interpreter's lock held, for threads of gloo, and one
                # that still lets go of a tensor of Python's waits for that lock.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(dist.group.WORLD))
                self.gather([0])
            dist.destroy_process_group()


def _let_go(tensors: Sequence[Any]) -> None:
    """Wait until gloo's threads hold these tensors no more, which they let go of a moment after the exchange."""
    until = time.monotonic() + LET_GO_S
    while any(tensor._use_count() > 1 for tensor in tensors) and time.monotonic() < until:
        time.sleep(0.0005)
