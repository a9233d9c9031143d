"""The ranks of a run in PyTorch: their devices, the process group, and the exchange of gradients."""

import ctypes
import inspect
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ...core.choices import own_gpu
from ...core.outcomes import UNSUPPORTED, RunError
from ...core.place import Place, Ranks
from ...core.settings import NATIVE


def choose_device(requested: str, place: Place) -> Any:
    """Return the torch device of this rank, and make it the current one; raise ``RunError`` if it is not there."""
    observed = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = own_gpu("PyTorch", requested, observed, place)
    if index is None:
        return torch.device("cpu")
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    return device


# How long gloo's threads may take to let go of what was exchanged, on a machine whose cores others have.
LET_GO_S = 5.0


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
        return 1 if self.backend is None else dist.get_world_size()

    def barrier(self) -> None:
        if self.backend == "nccl":
            dist.barrier(device_ids=[self._device.index])
        elif self.backend is not None:
            dist.barrier()

    def all_gather(self, values: Sequence[int]) -> list[list[int]]:
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


DDP, FLAT, FLAT_16 = "ddp", "flat", "flat-16"
# ``native`` is ``ddp``, what PyTorch users take; where the step is one CUDA graph, ``flat``.
GRADIENTS = (NATIVE, DDP, FLAT, FLAT_16)
# In elements: each tensor of a flat buffer begins at a multiple of this, so that kernels read it in wide words.
ALIGNMENT = 64


def check_gradients(name: str, compute: Any, captured: bool) -> None:
    """Raise ``RunError`` for an exchange that the run cannot have; ``captured``: the step is one CUDA graph."""
    if name == DDP and captured:
        reason = f"gradients {DDP} cannot be recorded in one CUDA graph here; take {FLAT} or {FLAT_16}"
        raise RunError(UNSUPPORTED, reason)
    if name == FLAT_16 and compute.itemsize != 2:
        raise RunError(UNSUPPORTED, f"gradients {FLAT_16} needs a precision that computes in 16 bits")


PIECE_BYTES = 1 << 28


class Exchange:
    """The exchange of gradients between ranks; this class is for a single rank, and does nothing."""

    name: str | None = None
    travels_as: Any | None = None  # the type in which gradients travel; None: each in its own

    def wrap(self, model: nn.Module) -> nn.Module:
        """Send the weights of rank 0 to all ranks; return the network to train, before it is compiled."""
        return model

    def withheld(self) -> "AbstractContextManager[Any]":
        """Return the context of a backward pass whose gradients are not exchanged yet: more are added to them."""
        return nullcontext()

    def exchange_alone(self, dense: Sequence[Any]) -> tuple[int, Callable[[], None]]:
        """Return how many bytes the gradients of these tensors travel as, and an all-reduce of as many.

        It goes in pieces of at most ``PIECE_BYTES``, so that it needs little memory beside the model's.
        """
        pieces, size = [], 0
        for tensors in _by_type(dense):
            kind = self.travels_as or tensors[0].dtype
            left = sum(tensor.numel() for tensor in tensors)
            size += left * kind.itemsize
            most = PIECE_BYTES // kind.itemsize
            # Written and not only promised by the system: the first all-reduce is as long as the others.
            buffer = torch.empty(min(left, most), dtype=kind, device=tensors[0].device).fill_(0)
            while left > 0:
                pieces.append(buffer[: min(left, most)])
                left -= most

        def once() -> None:
            for piece in pieces:
                dist.all_reduce(piece)

        return size, once

    def average(self) -> None:
        """Make each gradient its mean over the ranks, where the backward pass has not done so."""


class WhileComputed(Exchange):
    """DistributedDataParallel: gradients are averaged in buckets, beside the rest of the backward pass."""

    name = DDP

    def __init__(self, device: Any, static_graph: bool) -> None:
        self._device, self._static_graph = device, static_graph
        self._wrapped: Any = None

    def withheld(self) -> "AbstractContextManager[Any]":
        context: AbstractContextManager[Any] = self._wrapped.no_sync()
        return context

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model so that its gradients are averaged over the ranks while they are computed.

        Batch-norm statistics stay each rank's own, as in the usual recipes without SyncBN, and are not sent around.
        """
        ddp = nn.parallel.DistributedDataParallel
        # torch 2.13 renamed the flag and warns of the old name.
        renamed = "forward_sync_buffers" in inspect.signature(ddp).parameters
        self._wrapped = ddp(
            model,
            device_ids=[self._device.index] if self._device.type == "cuda" else None,
            gradient_as_bucket_view=True,
            static_graph=self._static_graph,
            **{"forward_sync_buffers" if renamed else "broadcast_buffers": False},
        )
        return self._wrapped


class InOnePiece(Exchange):
    """No wrapper: after the backward pass all gradients of a type go through one all-reduce, in one buffer.

    The network stays whole for the compiler, and no kernel of the exchange takes multiprocessors from the backward
    pass. With ``wire`` the gradients travel in that 16-bit type: the ranks still hold bit-equal means afterwards.
    """

    def __init__(self, name: str, world_size: int, wire: Any | None = None) -> None:
        """Take the type in which gradients travel; None: each in its own."""
        self.name, self._world_size, self.travels_as = name, world_size, wire
        self._parameters: list[Any] = []
        self._sent: Sent | None = None
        self._retained: list[tuple[Any, Any]] = []

    def wrap(self, model: nn.Module) -> nn.Module:
        with torch.no_grad():
            for tensors in _by_type([*model.parameters(), *model.buffers()]):
                buffer, views = flat(tensors, tensors[0].dtype)
                torch._foreach_copy_(views, tensors)
                dist.broadcast(buffer, 0)
                torch._foreach_copy_(tensors, views)
        self._parameters = list(model.parameters())
        return model

    def sent(self, leaves: Sequence[Any]) -> "Sent":
        """Return what averages the gradients of these tensors for an optimizer that reads them as they travelled."""
        return Sent(leaves, self._world_size, self.travels_as)

    def average(self) -> None:
        if self._sent is None:
            self._sent = self.sent(self._parameters)
            self._retained = [
                (buffer, views) if buffer.dtype == tensors[0].dtype else flat(tensors, tensors[0].dtype)
                for tensors, views, buffer in self._sent.parts
            ]
        self._sent.average()
        for (tensors, _, buffer), (retained, views) in zip(self._sent.parts, self._retained):
            if retained is not buffer:
                retained.copy_(buffer)
            for parameter, view in zip(tensors, views):
                parameter.grad = view


class Sent:
    """Gradients of some tensors, averaged over the ranks in buffers that stay: one, or one for each type.

    ``views`` are the means after ``average``, in the order of the tensors; ``parts`` the tensors of each type, their
    views, and what the views are of.
    """

    def __init__(self, leaves: Sequence[Any], world_size: int, wire: Any | None) -> None:
        """Take the type in which all gradients travel; None: each in its own."""
        self._world_size = world_size
        groups = _by_type(leaves)
        if wire is None:
            pieces = self._buffers = [empty_flat(group, group[0].dtype) for group in groups]
        else:
            self._buffers = [empty_flat([leaf for group in groups for leaf in group], wire)]
            pieces = self._buffers[0].split([sum(map(room_of, group)) for group in groups])
        self.parts = [(group, views_in(piece, group), piece) for group, piece in zip(groups, pieces)]
        view_of = {id(leaf): view for group, views, _ in self.parts for leaf, view in zip(group, views)}
        self.views = [view_of[id(leaf)] for leaf in leaves]

    def average(self) -> None:
        """Pack the gradients, and average the buffers over the ranks."""
        for tensors, views, _ in self.parts:
            torch._foreach_copy_(views, [tensor.grad for tensor in tensors])
        for buffer in self._buffers:
            self._all_reduce(buffer)

    def _all_reduce(self, buffer: Any) -> None:
        if buffer.is_cuda:
            dist.all_reduce(buffer, dist.ReduceOp.AVG)
        else:
            # gloo has no mean; dividing first keeps 16 bits from overflowing in the sum.
            dist.all_reduce(buffer.div_(self._world_size))


def room_of(tensor: Any) -> int:
    """Return how many elements of a flat buffer a tensor takes."""
    return int(-(-tensor.numel() // ALIGNMENT) * ALIGNMENT)


def empty_flat(tensors: Sequence[Any], dtype: Any) -> Any:
    """Return a buffer of zeros with room for these tensors one after another."""
    return torch.zeros(sum(map(room_of, tensors)), dtype=dtype, device=tensors[0].device)


def views_in(buffer: Any, tensors: Sequence[Any]) -> list[Any]:
    """Return views of a flat buffer like these tensors, one after another and in the same strides."""
    starts = accumulate(map(room_of, tensors), initial=buffer.storage_offset())
    return [buffer.as_strided(like.size(), like.stride(), start) for like, start in zip(tensors, starts)]


def flat(tensors: Sequence[Any], dtype: Any) -> tuple[Any, list[Any]]:
    """Return a flat buffer for these tensors, and its views."""
    buffer = empty_flat(tensors, dtype)
    return buffer, views_in(buffer, tensors)


def _by_type(tensors: Sequence[Any]) -> list[list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())
