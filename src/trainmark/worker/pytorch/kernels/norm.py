"""Batch norm in training mode with what follows it (a sum, ReLU) in as few passes over memory as its definition allows.

Every tensor is a matrix (rows, channels) with the channels beside each other in memory. Forward: one pass for the
moments of each channel, one that applies them, adds the other branch and cuts at zero. Backward: one pass for the two
sums of each channel, one for the gradient. The pass over the partial sums at the end of a reduction is done by the last
program that finishes, so that no kernel of its own has to be launched for it.

Sums are of differences from the channel's first value, so that the variance loses nothing where the mean is far from
zero. All arithmetic is in FP32, whatever the tensors' type.
"""

from __future__ import annotations

from typing import Any, ClassVar, Dict, NamedTuple, Optional, Tuple

import torch
import triton

from ...core.outcomes import INVALID, RunError
from .norm_kernels import apply_kernel, conclude_kernel, gradient_kernel, moments_kernel, sums_kernel

ROWS = 64
"""Rows of a tile."""

ADDED_ROWS, ADDED_PROGRAMS, ADDED_STAGES = 32, 528, 3
"""The same for the backward sums where there is another branch: up to six tensors, and as many registers.

All of these were found on an H200, 2026-11-22, for the shapes of ResNet-50.
"""

CHANNELS = 64
"""Channels of a tile: 128 bytes of a row in 16 bits."""

PROGRAMS = 264
"""Programs of a reduction: two for each multiprocessor of an H100 or H200."""

FINISH = 32
"""Partial sums that the last program reads at once."""

STAGES = 4
"""Tiles of a reduction on their way at once."""

FOLDED_TILES = 48 * 132
"""Up to so many tiles each of them finds its moments itself: that costs less than a launch of its own."""


class Normed(NamedTuple):
    """A batch norm's input (rows, channels) and what was found of it; each of the vectors is (channels,) in FP32."""

    x: Any
    weight: Any
    mean: Any
    rstd: Any
    scale: Any
    shift: Any


class Scratch:
    """Partial sums and counters on a device, shared by the reductions, which follow one another on one stream."""

    _of: ClassVar[Dict[Any, Tuple[Any, Any]]] = {}

    @classmethod
    def on(cls, device: Any, elements: int, blocks: int) -> Tuple[Any, Any]:
        """Return room for at least so many partial sums (FP32), and that many counters at zero."""
        there = cls._of.get(device)
        if there is None or there[0].numel() < elements or there[1].numel() < blocks:
            there = (
                torch.empty(max(elements, 1 << 21), dtype=torch.float32, device=device),
                torch.zeros(max(blocks, 1024), dtype=torch.int32, device=device),
            )
            cls._of[device] = there
        return there


def tiles(rows: int, channels: int, tile_rows: int = ROWS) -> Tuple[int]:
    """Return the grid of a pass that reads each tile once."""
    return (triton.cdiv(channels, CHANNELS) * triton.cdiv(rows, tile_rows),)


def reduction(
    x: Any, sums: int, programs: int = PROGRAMS, tile_rows: int = ROWS
) -> Tuple[Tuple[int, int], Any, Any]:
    """Return the grid of a reduction over the rows, and room for its partial sums and counters."""
    rows, channels = x.shape
    blocks = triton.cdiv(channels, CHANNELS)
    programs = max(1, min(programs // blocks, triton.cdiv(rows, tile_rows)))
    partial, counters = Scratch.on(x.device, sums * programs * x.shape[1], blocks)
    return (blocks, programs), partial, counters


class Unfinished(NamedTuple):
    """What a norm's moments are to be found from, in the pass that applies it: the sums, and what that changes."""

    sums: Any
    weight: Any
    bias: Any
    running: Tuple[Any, Any, Any]
    epsilon: float
    momentum: float


def normed(
    x: Any,
    weight: Any,
    bias: Any,
    running: Tuple[Any, Any, Any],
    epsilon: float,
    momentum: float,
    sums: Optional[Any] = None,
) -> Normed:
    """Return what is found of ``x`` (rows, channels); ``running`` mean, variance and count of batches are updated.

    ``sums`` (2, channels) in FP32 are those of the values and of their squares, if they are known: x is not read then.
    """
    rows, channels = _extent(x)
    found = torch.empty((4, channels), dtype=torch.float32, device=x.device)
    common = (weight, bias, *running, *found.unbind(), rows, channels, epsilon, momentum)
    if sums is not None:
        conclude_kernel[(triton.cdiv(channels, CHANNELS),)](sums, *common, CHANNELS=CHANNELS, num_warps=2)
    else:
        grid, partial, counters = reduction(x, 2)
        moments_kernel[grid](
            x, partial, counters, *common,
            ROWS=ROWS, CHANNELS=CHANNELS, FINISH=FINISH, STAGES=STAGES, num_warps=8,
        )  # fmt: skip
    return Normed(x, weight, *found.unbind())


def _extent(x: Any) -> Tuple[int, int]:
    rows, channels = x.shape
    if rows < 2:
        raise RunError(
            INVALID, f"batch norm in training needs more than one value for each of {channels} channels"
        )
    return rows, channels


def is_small(x: Any) -> bool:
    """Return whether the moments of ``x`` are better found in each tile of the pass that applies them."""
    return tiles(*x.shape)[0] <= FOLDED_TILES


def to_be_found(x: Any, unfinished: Unfinished) -> Normed:
    """Return room for what ``applied`` finds of ``x`` (rows, channels), given ``unfinished`` too."""
    found = torch.empty((4, _extent(x)[1]), dtype=torch.float32, device=x.device)
    return Normed(x, unfinished.weight, *found.unbind())


def applied(
    norm: Normed,
    other: "Optional[Any | Normed]" = None,
    unfinished: Optional[Unfinished] = None,
    other_unfinished: Optional[Unfinished] = None,
) -> Tuple[Any, Optional[Any]]:
    """Return max(0, norm of x + the other branch), (rows, channels); the other branch may have a norm of its own.

    With it comes, where there is another branch, which values were not cut: a bit each, (rows, channels / 8). Norms
    from ``to_be_found`` are finished here, both or none.
    """
    x = norm.x
    rows, channels = x.shape
    y = torch.empty_like(x)
    kept = None if other is None else torch.empty((rows, channels // 8), dtype=torch.uint8, device=x.device)
    second = other if isinstance(other, Normed) else norm
    more = other.x if isinstance(other, Normed) else x if other is None else other
    # A byte of ``kept`` has the bits of eight channels.
    assert other is None or channels % 8 == 0, channels
    assert isinstance(other, Normed) is (other_unfinished is not None) or unfinished is None
    none = (x,) * 6
    first_from = none if unfinished is None else (*unfinished[:3], *unfinished.running)
    second_from = (
        first_from if other_unfinished is None else (*other_unfinished[:3], *other_unfinished.running)
    )
    constants = (0.0, 0.0) if unfinished is None else (unfinished.epsilon, unfinished.momentum)
    apply_kernel[tiles(rows, channels)](
        x, norm.scale, norm.shift, more, second.scale, second.shift, y, y if kept is None else kept,
        *first_from, norm.mean, norm.rstd, *second_from, second.mean, second.rstd, rows, channels, *constants,
        ADDED=other is not None, NORMED=isinstance(other, Normed), SUMMED=unfinished is not None,
        ROWS=ROWS, CHANNELS=CHANNELS, num_warps=4,
    )  # fmt: skip
    return y, kept


class Back(NamedTuple):
    """Gradients: of x and, if there is another branch, of it (of its norm's input where it has one); and of vectors.

    ``vectors`` are (weight, bias) of the norm and of the other norm.
    """

    dx: Any
    d_other: Optional[Any]
    vectors: Tuple[Any, Any]
    other_vectors: Optional[Tuple[Any, Any]]


def back(
    norm: Normed,
    dy: Any,
    dy_more: Optional[Any] = None,
    kept: Optional[Any] = None,
    other: Optional[Normed] = None,
    quartered: Optional[Tuple[int, int]] = None,
) -> Back:
    """Return the gradients of ``applied``, of which ``dy`` and ``dy_more``, if any, are added up to the output's.

    ``kept`` came with the output where another branch was added; ``other`` is that branch's norm if it has one.
    ``quartered``: height and width of the grids, of which ``dy_more`` has every second row and column.
    """
    x = norm.x
    rows, channels = x.shape
    added = kept is not None
    tile_rows, programs = (ADDED_ROWS, ADDED_PROGRAMS) if added else (ROWS, PROGRAMS)
    grid, partial, counters = reduction(x, 3, programs, tile_rows)
    out = torch.empty((10, channels), dtype=torch.float32, device=x.device)
    dz = torch.empty_like(x) if kept is not None else dy
    second = other if other is not None else norm
    sums_kernel[grid](
        dy, dy if dy_more is None else dy_more, x if kept is None else kept, x, second.x, dz, partial, counters,
        norm.mean, norm.rstd, norm.weight, norm.scale, norm.shift, out,
        second.mean, second.rstd, second.weight, out[5:], rows, channels, *(quartered or (1, 1)),
        FORKED=dy_more is not None and quartered is None, QUARTER=quartered is not None,
        ADDED=added, NORMED=other is not None,
        ROWS=tile_rows, CHANNELS=CHANNELS, FINISH=FINISH,
        STAGES=ADDED_STAGES if added else STAGES, num_warps=4 if added else 8,
    )  # fmt: skip
    dx = torch.empty_like(x)
    other_dx = torch.empty_like(x) if other is not None else None
    gradient_kernel[tiles(rows, channels)](
        dz, x, norm.scale, norm.shift, out, dx, second.x, out[5:], dx if other_dx is None else other_dx,
        rows, channels,
        CUT=kept is None, NORMED=other is not None, ROWS=ROWS, CHANNELS=CHANNELS, num_warps=4,
    )  # fmt: skip
    d_other = None if kept is None else dz if other is None else other_dx
    return Back(dx, d_other, (out[0], out[1]), None if other is None else (out[5], out[6]))
