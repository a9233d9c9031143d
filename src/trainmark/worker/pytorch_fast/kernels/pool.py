"""A network's stem behind its convolution: batch norm, ReLU and a 3x3 maximum of stride 2, without what lies between.

Tensors are channels-last matrices, (images * height * width, channels). What ReLU gives is never written: the forward
pass keeps the maximum and, in a byte, which of the nine it was; the backward pass goes by squares of 2x2 positions,
which lie in four windows together.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from .norm import CHANNELS, FINISH, Normed, coefficients, finished, reduction, tile_of, tiles, total_of

# Positions of a tile, of the pool and of its backward passes; each of them looks at several others. Found on an H200,
# 2026-11-22.
ROWS, SUMMED_ROWS, GRADIENT_ROWS = 8, 32, 16


class Extent(NamedTuple):
    """Height and width of the convolution's output."""

    height: int
    width: int

    @property
    def pooled(self) -> tuple[int, int]:
        """Return height and width of what the pool makes of it."""
        return (self.height - 1) // 2 + 1, (self.width - 1) // 2 + 1


@triton.jit
def _pool_kernel(
    x, scale, shift, y, taken, rows, channels, height, width, out_height, out_width,
    ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    _, columns, index = tile_of(channels, ROWS, CHANNELS)
    inside = columns < channels
    there = index < rows
    across, rest = index % out_width, index // out_width
    down, image = rest % out_height, rest // out_height
    factor = tl.load(scale + columns, mask=inside, other=0.0)[None, :]
    addend = tl.load(shift + columns, mask=inside, other=0.0)[None, :]
    best = tl.full((ROWS, CHANNELS), -1.0, tl.float32)
    which = tl.zeros((ROWS, CHANNELS), tl.int32)
    for tap in tl.static_range(9):
        h, w = down * 2 - 1 + tap // 3, across * 2 - 1 + tap % 3
        valid = there & (h >= 0) & (h < height) & (w >= 0) & (w < width)
        at = ((image.to(tl.int64) * height + h) * width + w)[:, None] * channels + columns[None, :]
        both = valid[:, None] & inside[None, :]
        value = tl.load(x + at, mask=both, other=0.0).to(tl.float32) * factor + addend
        # Rounded as the tensor between would have been: of equal values the first one is the maximum.
        value = (
            tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL).to(y.dtype.element_ty).to(tl.float32)
        )
        better = both & ((value > best) | (value != value))
        best = tl.where(better, value, best)
        which = tl.where(better, tap, which)
    to = index.to(tl.int64)[:, None] * channels + columns[None, :]
    written = there[:, None] & inside[None, :]
    tl.store(y + to, best.to(y.dtype.element_ty), mask=written)
    tl.store(taken + to, which.to(tl.uint8), mask=written)


@triton.jit
def _window(
    dy, dy_more, taken, image, oh, ow, there, columns, inside, channels, out_height, out_width, FORKED: tl.constexpr
):  # fmt: skip
    """Return the gradient of a window's maximum, and which of its nine positions that was; 255 outside the image."""
    valid = there & (oh < out_height) & (ow < out_width)
    at = ((image.to(tl.int64) * out_height + oh) * out_width + ow)[:, None] * channels + columns[None, :]
    both = valid[:, None] & inside[None, :]
    given = tl.load(dy + at, mask=both, other=0.0).to(tl.float32)
    if FORKED:
        given += tl.load(dy_more + at, mask=both, other=0.0).to(tl.float32)
    return given, tl.load(taken + at, mask=both, other=255).to(tl.int32)


@triton.jit
def _four(
    dy, dy_more, taken, tile, rows, columns, inside, channels, out_height, out_width,
    FORKED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Return the positions of a tile of 2x2 squares, and the pool's gradient at each of the four.

    The square's first position is the middle of its window; the others also lie in the windows right, below and across.
    """
    index = tile * ROWS + tl.arange(0, ROWS)
    there = index < rows
    ow, rest = index % out_width, index // out_width
    oh, image = rest % out_height, rest // out_height
    own, own_at = _window(
        dy, dy_more, taken, image, oh, ow, there, columns, inside, channels, out_height, out_width, FORKED
    )
    right, right_at = _window(
        dy, dy_more, taken, image, oh, ow + 1, there, columns, inside, channels, out_height, out_width, FORKED
    )
    below, below_at = _window(
        dy, dy_more, taken, image, oh + 1, ow, there, columns, inside, channels, out_height, out_width, FORKED
    )
    across, across_at = _window(
        dy, dy_more, taken, image, oh + 1, ow + 1, there, columns, inside, channels, out_height, out_width, FORKED
    )  # fmt: skip
    first = tl.where(own_at == 4, own, 0.0)
    second = tl.where(own_at == 5, own, 0.0) + tl.where(right_at == 3, right, 0.0)
    third = tl.where(own_at == 7, own, 0.0) + tl.where(below_at == 1, below, 0.0)
    fourth = tl.where(own_at == 8, own, 0.0) + tl.where(right_at == 6, right, 0.0)
    fourth += tl.where(below_at == 2, below, 0.0) + tl.where(across_at == 0, across, 0.0)
    return image, oh * 2, ow * 2, there, first, second, third, fourth


@triton.jit
def _place(image, h, w, there, columns, inside, channels, height, width):
    """Return where a position of each row of a tile lies, and whether it is there."""
    valid = there & (h < height) & (w < width)
    at = ((image.to(tl.int64) * height + h) * width + w)[:, None] * channels + columns[None, :]
    return at, valid[:, None] & inside[None, :]


@triton.jit
def _summed(x, at, both, gradient, centre, factor, addend):
    """Return the gradient behind ReLU, and its product with what the norm's input is away from its mean."""
    value = tl.load(x + at, mask=both, other=0.0).to(tl.float32)
    gradient = tl.where(both & (value * factor + addend > 0), gradient, 0.0)
    return gradient, gradient * (value - centre)


@triton.jit
def _pool_sums_kernel(
    dy, dy_more, taken, x, partial, counters, mean, rstd, weight, scale, shift, out, rows, channels,
    height, width, out_rows, out_height, out_width,
    FORKED: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr, FINISH: tl.constexpr,
):  # fmt: skip
    block, program, programs = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    columns = block * CHANNELS + tl.arange(0, CHANNELS)
    inside = columns < channels
    centre = tl.load(mean + columns, mask=inside, other=0.0)[None, :]
    factor = tl.load(scale + columns, mask=inside, other=0.0)[None, :]
    addend = tl.load(shift + columns, mask=inside, other=0.0)[None, :]
    sums = tl.zeros((ROWS, CHANNELS), tl.float32)
    products = tl.zeros((ROWS, CHANNELS), tl.float32)
    for tile in range(program, tl.cdiv(out_rows, ROWS), programs):
        image, h, w, there, first, second, third, fourth = _four(
            dy, dy_more, taken, tile, out_rows, columns, inside, channels, out_height, out_width, FORKED, ROWS
        )
        at, both = _place(image, h, w, there, columns, inside, channels, height, width)
        total, product = _summed(x, at, both, first, centre, factor, addend)
        sums += total
        products += product
        at, both = _place(image, h, w + 1, there, columns, inside, channels, height, width)
        total, product = _summed(x, at, both, second, centre, factor, addend)
        sums += total
        products += product
        at, both = _place(image, h + 1, w, there, columns, inside, channels, height, width)
        total, product = _summed(x, at, both, third, centre, factor, addend)
        sums += total
        products += product
        at, both = _place(image, h + 1, w + 1, there, columns, inside, channels, height, width)
        total, product = _summed(x, at, both, fourth, centre, factor, addend)
        sums += total
        products += product
    own = program * channels + columns
    area = programs * channels
    tl.store(partial + own, tl.sum(sums, 0), mask=inside)
    tl.store(partial + area + own, tl.sum(products, 0), mask=inside)
    if finished(counters + block, programs):
        total = total_of(partial, columns, inside, programs, channels, FINISH, CHANNELS)
        product = total_of(partial + area, columns, inside, programs, channels, FINISH, CHANNELS)
        coefficients(
            total, product, mean, rstd, weight,
            out, out + channels, out + 2 * channels, out + 3 * channels, out + 4 * channels, columns, inside, rows,
        )  # fmt: skip


@triton.jit
def _turned(x, dx, at, both, gradient, factor, addend, slope, lean, offset):
    value = tl.load(x + at, mask=both, other=0.0).to(tl.float32)
    gradient = tl.where(value * factor + addend > 0, gradient, 0.0)
    tl.store(dx + at, (slope * gradient + lean * value + offset).to(dx.dtype.element_ty), mask=both)


@triton.jit
def _pool_gradient_kernel(
    dy, dy_more, taken, x, scale, shift, out, dx, channels, height, width, out_rows, out_height, out_width,
    FORKED: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(channels, CHANNELS)
    columns = tl.program_id(0) % blocks * CHANNELS + tl.arange(0, CHANNELS)
    inside = columns < channels
    factor = tl.load(scale + columns, mask=inside, other=0.0)[None, :]
    addend = tl.load(shift + columns, mask=inside, other=0.0)[None, :]
    slope = tl.load(out + 2 * channels + columns, mask=inside, other=0.0)[None, :]
    lean = tl.load(out + 3 * channels + columns, mask=inside, other=0.0)[None, :]
    offset = tl.load(out + 4 * channels + columns, mask=inside, other=0.0)[None, :]
    image, h, w, there, first, second, third, fourth = _four(
        dy, dy_more, taken, tl.program_id(0) // blocks, out_rows, columns, inside, channels,
        out_height, out_width, FORKED, ROWS,
    )  # fmt: skip
    at, both = _place(image, h, w, there, columns, inside, channels, height, width)
    _turned(x, dx, at, both, first, factor, addend, slope, lean, offset)
    at, both = _place(image, h, w + 1, there, columns, inside, channels, height, width)
    _turned(x, dx, at, both, second, factor, addend, slope, lean, offset)
    at, both = _place(image, h + 1, w, there, columns, inside, channels, height, width)
    _turned(x, dx, at, both, third, factor, addend, slope, lean, offset)
    at, both = _place(image, h + 1, w + 1, there, columns, inside, channels, height, width)
    _turned(x, dx, at, both, fourth, factor, addend, slope, lean, offset)


def pooled(norm: Normed, extent: Extent) -> tuple[Any, Any]:
    """Return the pooled rows, and for each which of the nine positions of its window was the maximum."""
    channels = norm.x.shape[1]
    images = norm.x.shape[0] // (extent.height * extent.width)
    rows = images * extent.pooled[0] * extent.pooled[1]
    y = torch.empty((rows, channels), dtype=norm.x.dtype, device=norm.x.device)
    taken = torch.empty((rows, channels), dtype=torch.uint8, device=norm.x.device)
    _pool_kernel[tiles(rows, channels, ROWS)](
        norm.x, norm.scale, norm.shift, y, taken, rows, channels, *extent, *extent.pooled,
        ROWS=ROWS, CHANNELS=CHANNELS, num_warps=2,
    )  # fmt: skip
    return y, taken


def back(
    norm: Normed, taken: Any, extent: Extent, dy: Any, dy_more: Any | None = None
) -> tuple[Any, Any, Any]:
    """Return the gradients of the norm's input, weight and bias; ``dy`` and ``dy_more``, if any, are the output's."""
    x = norm.x
    rows, channels = x.shape
    out_rows = dy.shape[0]
    grid, partial, counters = reduction(x, 2, tile_rows=SUMMED_ROWS)
    out = torch.empty((5, channels), dtype=torch.float32, device=x.device)
    more, forked = (dy, False) if dy_more is None else (dy_more, True)
    _pool_sums_kernel[grid](
        dy, more, taken, x, partial, counters, norm.mean, norm.rstd, norm.weight, norm.scale, norm.shift, out,
        rows, channels, *extent, out_rows, *extent.pooled,
        FORKED=forked, ROWS=SUMMED_ROWS, CHANNELS=CHANNELS, FINISH=FINISH, num_warps=4,
    )  # fmt: skip
    dx = torch.empty_like(x)
    _pool_gradient_kernel[tiles(out_rows, channels, GRADIENT_ROWS)](
        dy, more, taken, x, norm.scale, norm.shift, out, dx, channels, *extent, out_rows, *extent.pooled,
        FORKED=forked, ROWS=GRADIENT_ROWS, CHANNELS=CHANNELS, num_warps=4,
    )  # fmt: skip
    return dx, out[0], out[1]
