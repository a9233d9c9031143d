"""The ranks, which OneFlow meets when it is imported, by the variables that a launcher sets."""

from collections.abc import Sequence
from typing import Any

import oneflow as flow

from ...core.place import Place, Ranks


class Peers(Ranks):
    """All ranks of the run, through OneFlow's own collectives."""

    def __init__(self, place: Place, device: Any) -> None:
        """Take this rank's place; values are exchanged on its device."""
        super().__init__(place)
        self._device = device
        if place.world_size > 1:
            self.backend = "nccl" if device.type == "cuda" else "oneflow"

    def counted(self) -> int:
        return int(flow.env.get_world_size())

    def wrap(self, network: Any) -> Any:
        """Return the network so that its gradients are averaged over the ranks while they are computed.

        Each rank has its own batch-norm statistics, as in the usual recipes without SyncBN.
        """
        if self.backend is None:
            return network
        return flow.nn.parallel.DistributedDataParallel(network, broadcast_buffers=False)

    def barrier(self) -> None:
        if self.backend is not None:
            flow.comm.barrier()

    def all_gather(self, values: Sequence[int]) -> list[list[int]]:
        own = flow.tensor(list(values), dtype=flow.int64, device=self._device)
        parts = [flow.zeros_like(own) for _ in range(self.place.world_size)]
        flow.comm.all_gather(parts, own)
        return [[int(value) for value in part.cpu().numpy()] for part in parts]

    def leave(self) -> None:
        self.barrier()
