"""Attention within the documents of packed sequences: by a mask anywhere, or by FlashAttention's kernel on a GPU.

The kernel takes documents of unlike lengths one after another (``varlen``) and does nothing between two of them; with a
mask, torch's kernels compute every pair of a sequence. The kernel is used if it is faster and its results are those of
the mask.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

from .attention import SIZE, Shape, attempt, attend, milliseconds, passes

MASK, VARLEN = "mask", "varlen"

CAPABILITY = (8, 0)  # the first GPUs that FlashAttention supports
FEWEST = 8  # the documents of a sequence that the kernel is prepared for at least
NEAR = 0.02  # the largest distance of results in 16 bits, relative to their norm: rounding gives 0.003


def starts_of(documents: Any) -> tuple[Any, Any]:
    """Return where documents begin (batch, length), and the position of each place in its document."""
    index = torch.arange(documents.shape[1], device=documents.device)
    begins = documents != documents.roll(1, dims=1)
    begins = begins | (index == 0)
    return begins, index - torch.where(begins, index, 0).cummax(dim=1).values


def mask_of(documents: Any) -> Any:
    """Return which places each one attends to (batch, 1, length, length): itself and earlier, of its document."""
    length = documents.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool, device=documents.device).tril()
    return ((documents[:, :, None] == documents[:, None, :]) & earlier)[:, None]


def ends_of(begins: Any, most: int) -> Any:
    """Return the first place of each document, and the end of all, of a batch in one row (batch * ``most`` + 1).

    A sequence of fewer than ``most`` documents has empty ones at its end, so that the shape never changes.
    """
    batch, length = begins.shape
    index = torch.arange(length, device=begins.device).expand(batch, length)
    order = torch.where(begins, begins.cumsum(dim=1) - 1, most)
    firsts = torch.full((batch, most + 1), length, device=begins.device).scatter(1, order, index)[:, :most]
    rows = torch.arange(batch, device=begins.device)[:, None] * length
    end = torch.full((1,), batch * length, device=begins.device)
    return torch.cat(((firsts + rows).flatten(), end)).int()


def attend_within(parts: Iterable[Any], borders: Any, varlen: bool) -> Any:
    """Return attention within documents of queries, keys and values (batch, heads, length, head).

    ``borders`` are the mask, or with ``varlen`` the ends. Keys and values may have fewer heads.
    """
    queries, keys, values = parts
    if not varlen:
        group = queries.shape[1] // keys.shape[1]
        if group > 1:
            keys, values = (part.repeat_interleave(group, dim=1) for part in (keys, values))
        return attend((queries, keys, values), False, attn_mask=borders)
    batch, length = queries.shape[0], queries.shape[2]
    rows = [part.transpose(1, 2).flatten(0, 1) for part in (queries, keys, values)]
    attended, *_ = torch.ops.aten._flash_attention_forward(
        *rows, borders, borders, length, length, 0.0, True, False
    )
    return attended.unflatten(0, (batch, length)).transpose(1, 2)


def most_of(documents: Any) -> int:
    """Return the number of documents in a sequence that the kernel is prepared for; padding is one of them."""
    return max(int(documents.max()) + 1, FEWEST)


def measured(shape: Shape, documents: Any, kind: Any, device: Any) -> dict[str, float]:
    """Return the milliseconds of a pass forward and backward by the mask and by the kernel.

    Empty where the kernel cannot be used: on CPUs, on older GPUs, in FP32, and if its results are not the mask's.
    """
    if device.type != "cuda" or kind.itemsize != 2 or torch.cuda.get_device_capability(device) < CAPABILITY:
        return {}
    found: dict[str, float] = {}
    # This torch may have no such kernel, or the mask need more memory than there is: then that has no time.
    with attempt(device):
        if _agrees(shape._replace(batch=1), documents[:1], kind, device):
            busy = torch.ones(SIZE, SIZE, device=device, dtype=kind)
            for name in (VARLEN, MASK):
                once = _passes(shape, documents, kind, device, name == VARLEN)
                found[name] = milliseconds(once, None, busy)
    return found


def is_faster(found: dict[str, float]) -> bool:
    """Return whether the kernel is to be used."""
    return VARLEN in found and found[VARLEN] <= found.get(MASK, found[VARLEN])


def _agrees(shape: Shape, documents: Any, kind: Any, device: Any) -> bool:
    """Return whether the kernel's result and gradients are the mask's."""
    results = []
    for varlen in (False, True):
        torch.manual_seed(0)
        results.append(_passes(shape, documents, kind, device, varlen)())
    return all(
        float((one.float() - other.float()).norm()) <= NEAR * float(one.float().norm())
        for one, other in zip(*results)
    )


def _passes(shape: Shape, documents: Any, kind: Any, device: Any, varlen: bool) -> Callable[[], Any]:
    documents = documents[: shape.batch, : shape.length]
    borders = ends_of(starts_of(documents)[0], most_of(documents)) if varlen else mask_of(documents)
    return passes(shape, kind, device, partial(attend_within, borders=borders, varlen=varlen))
