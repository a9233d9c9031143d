"""Batch norm in training mode with what follows it (a sum, ReLU) in as few passes over memory as its definition allows.

Every tensor is a matrix (rows, channels) with the channels beside each other in memory. Forward: one pass for the
moments of each channel, one that applies them, adds the other branch and cuts at zero. Backward: one pass for the two
sums of each channel, one for the gradient. The pass over the partial sums at the end of a reduction is done by the last
program that finishes, so that no kernel of its own has to be launched for it.

Sums are of differences from the channel's first value, so that the variance loses nothing where the mean is far from
zero. All arithmetic is in FP32, whatever the tensors' type.
"""

from typing import Any, ClassVar, NamedTuple

import torch
import triton
import triton.language as tl

from ...core.outcomes import INVALID, RunError


@triton.jit
def finished(counter, programs):
    """Return whether all other programs of this column have stored their partial sums; the counter starts anew."""
    tl.debug_barrier()
    before = tl.atomic_add(counter, 1, sem="acq_rel")
    last = before == programs - 1
    if last:
        tl.store(counter, 0)
    return last


@triton.jit
def tile_of(channels, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    """Return the block of columns, the columns and the rows of this program: neighbours lie together in memory.

    The first programs have the last rows: of those that the pass before touched last, many are in the cache.
    """
    blocks = tl.cdiv(channels, CHANNELS)
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    block = tile % blocks
    return block, block * CHANNELS + tl.arange(0, CHANNELS), tile // blocks * ROWS + tl.arange(0, ROWS)


@triton.jit
def _bytes(index, rows, channels, block, CHANNELS: tl.constexpr):
    """Return where the bytes with a bit for each value of a tile lie, and whether they are there."""
    columns = block * (CHANNELS // 8) + tl.arange(0, CHANNELS // 8)
    there = (index < rows)[:, None] & (columns < channels // 8)[None, :]
    return index.to(tl.int64)[:, None] * (channels // 8) + columns[None, :], there


@triton.jit
def total_of(partial, columns, inside, programs, channels, FINISH: tl.constexpr, CHANNELS: tl.constexpr):
    total = tl.zeros((FINISH, CHANNELS), tl.float32)
    for start in range(0, programs, FINISH):
        index = start + tl.arange(0, FINISH)
        there = (index < programs)[:, None] & inside[None, :]
        at = index[:, None] * channels + columns[None, :]
        total += tl.load(partial + at, mask=there, other=0.0, cache_modifier=".cg")
    return tl.sum(total, 0)


@triton.jit
def _conclude(
    mean, variance, weight, bias, running_mean, running_var, tracked, mean_to, rstd_to, scale_to, shift_to,
    columns, inside, rows, epsilon, momentum, counts,
):  # fmt: skip
    rstd = 1.0 / tl.sqrt(variance + epsilon)
    scale = tl.load(weight + columns, mask=inside, other=0.0) * rstd
    tl.store(mean_to + columns, mean, mask=inside)
    tl.store(rstd_to + columns, rstd, mask=inside)
    tl.store(scale_to + columns, scale, mask=inside)
    shift = tl.load(bias + columns, mask=inside, other=0.0) - mean * scale
    tl.store(shift_to + columns, shift, mask=inside)
    # Running statistics have the variance of a sample, as torch's.
    unbiased = variance * (rows / (rows - 1.0))
    old_mean = tl.load(running_mean + columns, mask=inside, other=0.0)
    old_var = tl.load(running_var + columns, mask=inside, other=0.0)
    tl.store(running_mean + columns, old_mean + momentum * (mean - old_mean), mask=inside)
    tl.store(running_var + columns, old_var + momentum * (unbiased - old_var), mask=inside)
    if counts:
        tl.store(tracked, tl.load(tracked) + 1)


@triton.jit
def moments_kernel(
    x, partial, counters, weight, bias, running_mean, running_var, tracked, mean_to, rstd_to, scale_to, shift_to,
    rows, channels, epsilon, momentum,
    ROWS: tl.constexpr, CHANNELS: tl.constexpr, FINISH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Mean and deviation of each channel, ``scale`` and ``shift`` that apply them, and the running statistics."""
    block, program, programs = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    columns = block * CHANNELS + tl.arange(0, CHANNELS)
    inside = columns < channels
    first = tl.load(x + columns, mask=inside, other=0.0).to(tl.float32)
    sums = tl.zeros((ROWS, CHANNELS), tl.float32)
    squares = tl.zeros((ROWS, CHANNELS), tl.float32)
    for start in tl.range(program * ROWS, rows, programs * ROWS, num_stages=STAGES):
        index = start + tl.arange(0, ROWS)
        there = (index < rows)[:, None] & inside[None, :]
        at = index.to(tl.int64)[:, None] * channels + columns[None, :]
        value = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
        value = tl.where(there, value - first[None, :], 0.0)
        sums += value
        squares += value * value
    own = program * channels + columns
    area = programs * channels
    tl.store(partial + own, tl.sum(sums, 0), mask=inside)
    tl.store(partial + area + own, tl.sum(squares, 0), mask=inside)
    if finished(counters + block, programs):
        away = total_of(partial, columns, inside, programs, channels, FINISH, CHANNELS) / rows
        square = total_of(partial + area, columns, inside, programs, channels, FINISH, CHANNELS) / rows
        variance = tl.maximum(square - away * away, 0.0)
        _conclude(
            first + away, variance, weight, bias, running_mean, running_var, tracked,
            mean_to, rstd_to, scale_to, shift_to, columns, inside, rows, epsilon, momentum, block == 0,
        )  # fmt: skip


@triton.jit
def _of_sums(sums, columns, inside, rows, channels):
    """Return mean and variance from the sums of the values and, behind them, of their squares."""
    part = 1.0 / rows
    mean = tl.load(sums + columns, mask=inside, other=0.0) * part
    square = tl.load(sums + channels + columns, mask=inside, other=0.0) * part
    return mean, tl.maximum(square - mean * mean, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def conclude_kernel(
    sums, weight, bias, running_mean, running_var, tracked, mean_to, rstd_to, scale_to, shift_to,
    rows, channels, epsilon, momentum, CHANNELS: tl.constexpr,
):  # fmt: skip
    """What ``moments_kernel`` finds, from sums of the values and of their squares that somebody else has made."""
    columns = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    inside = columns < channels
    mean, variance = _of_sums(sums, columns, inside, rows, channels)
    _conclude(
        mean, variance, weight, bias, running_mean, running_var, tracked,
        mean_to, rstd_to, scale_to, shift_to, columns, inside, rows, epsilon, momentum, tl.program_id(0) == 0,
    )  # fmt: skip


@triton.jit
def _concluded(
    sums, weight, bias, running_mean, running_var, tracked, mean_to, rstd_to, scale_to, shift_to,
    columns, inside, rows, channels, epsilon, momentum, writes, counts,
):  # fmt: skip
    """Return scale and shift from the sums; the programs with ``writes`` store what ``conclude_kernel`` does."""
    mean, variance = _of_sums(sums, columns, inside, rows, channels)
    scale = tl.load(weight + columns, mask=inside, other=0.0) * tl.rsqrt(variance + epsilon)
    shift = tl.load(bias + columns, mask=inside, other=0.0) - mean * scale
    if writes:
        _conclude(
            mean, variance, weight, bias, running_mean, running_var, tracked,
            mean_to, rstd_to, scale_to, shift_to, columns, inside, rows, epsilon, momentum, counts,
        )  # fmt: skip
    return scale, shift


@triton.jit
def apply_kernel(
    x, scale, shift, other, other_scale, other_shift, y, kept,
    sums, weight, bias, running_mean, running_var, tracked, mean, rstd,
    other_sums, other_weight, other_bias, other_running_mean, other_running_var, other_tracked, other_mean,
    other_rstd, rows, channels, epsilon, momentum,
    ADDED: tl.constexpr, NORMED: tl.constexpr, SUMMED: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """y = max(0, x * scale + shift), with the other branch added before the cut; ``NORMED``: that has a norm too.

    Where there was another branch, ``kept`` (rows, channels / 8) gets a bit for each value that was not cut: to
    find out anew, the backward pass would have to read the output or the branch. ``SUMMED``: scale and shift follow
    from sums that a convolution has made, in each program anew; the first of each column keeps what was found.
    """
    block, columns, index = tile_of(channels, ROWS, CHANNELS)
    inside = columns < channels
    there = (index < rows)[:, None] & inside[None, :]
    at = index.to(tl.int64)[:, None] * channels + columns[None, :]
    value = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
    writes = tl.num_programs(0) - 1 - tl.program_id(0) == block
    if SUMMED:
        factor, addend = _concluded(
            sums, weight, bias, running_mean, running_var, tracked, mean, rstd, scale, shift,
            columns, inside, rows, channels, epsilon, momentum, writes, block == 0,
        )  # fmt: skip
    else:
        factor = tl.load(scale + columns, mask=inside, other=0.0)
        addend = tl.load(shift + columns, mask=inside, other=0.0)
    value = value * factor[None, :] + addend[None, :]
    if ADDED:
        more = tl.load(other + at, mask=there, other=0.0).to(tl.float32)
        if NORMED:
            if SUMMED:
                factor, addend = _concluded(
                    other_sums, other_weight, other_bias, other_running_mean, other_running_var, other_tracked,
                    other_mean, other_rstd, other_scale, other_shift,
                    columns, inside, rows, channels, epsilon, momentum, writes, block == 0,
                )  # fmt: skip
            else:
                factor = tl.load(other_scale + columns, mask=inside, other=0.0)
                addend = tl.load(other_shift + columns, mask=inside, other=0.0)
            more = more * factor[None, :] + addend[None, :]
        value += more
        bits = (
            tl.reshape((value > 0).to(tl.int32), (ROWS, CHANNELS // 8, 8)) << tl.arange(0, 8)[None, None, :]
        )
        bytes_at, bytes_there = _bytes(index, rows, channels, block, CHANNELS)
        tl.store(kept + bytes_at, tl.sum(bits, 2).to(tl.uint8), mask=bytes_there)
    # What is not a number stays that, so that the loss shows it.
    cut = tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(y + at, cut.to(y.dtype.element_ty), mask=there)


@triton.jit
def coefficients(
    total, product, mean, rstd, weight, weight_to, bias_to, slope_to, lean_to, offset_to, columns, inside, rows
):  # fmt: skip
    """Store dw, db, and a, b, c of dx = a * dz + b * x + c."""
    centre = tl.load(mean + columns, mask=inside, other=0.0)
    inverse = tl.load(rstd + columns, mask=inside, other=0.0)
    slope = tl.load(weight + columns, mask=inside, other=0.0) * inverse
    product = product * inverse
    lean = -slope * inverse * product / rows
    tl.store(weight_to + columns, product, mask=inside)
    tl.store(bias_to + columns, total, mask=inside)
    tl.store(slope_to + columns, slope, mask=inside)
    tl.store(lean_to + columns, lean, mask=inside)
    tl.store(offset_to + columns, -slope * total / rows - lean * centre, mask=inside)


@triton.jit
def _of_quarter(quarter, index, rows, columns, inside, channels, height, width):
    """Return the values at positions of which every second row and column is stored; zero at the others."""
    across, line = index % width, index // width
    down, grid = line % height, line // height
    stored = (index < rows) & (across % 2 == 0) & (down % 2 == 0)
    position = (grid * ((height + 1) // 2) + down // 2) * ((width + 1) // 2) + across // 2
    at = position.to(tl.int64)[:, None] * channels + columns[None, :]
    return tl.load(quarter + at, mask=stored[:, None] & inside[None, :], other=0.0).to(tl.float32)


@triton.jit
def sums_kernel(  # noqa: PLR0912  (branches of constants, which are no branches)
    dy, dy_more, kept, x, other, dz, partial, counters,
    mean, rstd, weight, scale, shift, out, other_mean, other_rstd, other_weight, other_out, rows, channels,
    height, width,
    FORKED: tl.constexpr, QUARTER: tl.constexpr, ADDED: tl.constexpr, NORMED: tl.constexpr,
    ROWS: tl.constexpr, CHANNELS: tl.constexpr, FINISH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The backward pass' sums: dz = dy behind the cut, sum(dz) and sum(dz * (x - mean)), and what follows from them.

    ``out`` is (5, channels): dw, db, and the a, b, c of dx = a * dz + b * x + c; ``other_out`` the other norm's.
    ``QUARTER``: of ``dy_more`` there is every second row and column of grids of ``height`` and ``width``; it is zero
    elsewhere.
    """
    block, program, programs = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    columns = block * CHANNELS + tl.arange(0, CHANNELS)
    inside = columns < channels
    centre = tl.load(mean + columns, mask=inside, other=0.0)[None, :]
    if ADDED:
        if NORMED:
            other_centre = tl.load(other_mean + columns, mask=inside, other=0.0)[None, :]
            other_products = tl.zeros((ROWS, CHANNELS), tl.float32)
    else:
        factor = tl.load(scale + columns, mask=inside, other=0.0)[None, :]
        addend = tl.load(shift + columns, mask=inside, other=0.0)[None, :]
    sums = tl.zeros((ROWS, CHANNELS), tl.float32)
    products = tl.zeros((ROWS, CHANNELS), tl.float32)
    for start in tl.range(program * ROWS, rows, programs * ROWS, num_stages=STAGES):
        index = start + tl.arange(0, ROWS)
        there = (index < rows)[:, None] & inside[None, :]
        at = index.to(tl.int64)[:, None] * channels + columns[None, :]
        gradient = tl.load(dy + at, mask=there, other=0.0).to(tl.float32)
        if QUARTER:
            gradient += _of_quarter(dy_more, index, rows, columns, inside, channels, height, width)
        if FORKED:
            gradient += tl.load(dy_more + at, mask=there, other=0.0).to(tl.float32)
        value = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
        if ADDED:
            bytes_at, bytes_there = _bytes(index, rows, channels, block, CHANNELS)
            bits = tl.load(kept + bytes_at, mask=bytes_there, other=0).to(tl.int32)
            bits = (bits[:, :, None] >> tl.arange(0, 8)[None, None, :]) & 1
            alive = tl.reshape(bits, (ROWS, CHANNELS)) > 0
        else:
            alive = value * factor + addend > 0
        gradient = tl.where(alive & there, gradient, 0.0)
        if ADDED:
            rounded = gradient.to(dz.dtype.element_ty)
            tl.store(dz + at, rounded, mask=there)
            gradient = rounded.to(tl.float32)
            if NORMED:
                more = tl.load(other + at, mask=there, other=0.0).to(tl.float32)
                other_products += gradient * (more - other_centre)
        sums += gradient
        products += gradient * (value - centre)
    own = program * channels + columns
    area = programs * channels
    tl.store(partial + own, tl.sum(sums, 0), mask=inside)
    tl.store(partial + area + own, tl.sum(products, 0), mask=inside)
    if NORMED:
        tl.store(partial + 2 * area + own, tl.sum(other_products, 0), mask=inside)
    if finished(counters + block, programs):
        total = total_of(partial, columns, inside, programs, channels, FINISH, CHANNELS)
        product = total_of(partial + area, columns, inside, programs, channels, FINISH, CHANNELS)
        coefficients(
            total, product, mean, rstd, weight,
            out, out + channels, out + 2 * channels, out + 3 * channels, out + 4 * channels, columns, inside, rows,
        )  # fmt: skip
        if NORMED:
            product = total_of(partial + 2 * area, columns, inside, programs, channels, FINISH, CHANNELS)
            coefficients(
                total, product, other_mean, other_rstd, other_weight,
                other_out, other_out + channels, other_out + 2 * channels, other_out + 3 * channels,
                other_out + 4 * channels, columns, inside, rows,
            )  # fmt: skip


@triton.jit
def gradient_kernel(
    dz, x, scale, shift, out, dx, other, other_out, other_dx, rows, channels,
    CUT: tl.constexpr, NORMED: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """dx = a * dz + b * x + c; ``CUT``: dz is still what came from above, and is cut here where ReLU cut."""
    _, columns, index = tile_of(channels, ROWS, CHANNELS)
    inside = columns < channels
    there = (index < rows)[:, None] & inside[None, :]
    at = index.to(tl.int64)[:, None] * channels + columns[None, :]
    gradient = tl.load(dz + at, mask=there, other=0.0).to(tl.float32)
    value = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
    if CUT:
        factor = tl.load(scale + columns, mask=inside, other=0.0)[None, :]
        addend = tl.load(shift + columns, mask=inside, other=0.0)[None, :]
        gradient = tl.where(value * factor + addend > 0, gradient, 0.0)
    slope = tl.load(out + 2 * channels + columns, mask=inside, other=0.0)[None, :]
    lean = tl.load(out + 3 * channels + columns, mask=inside, other=0.0)[None, :]
    offset = tl.load(out + 4 * channels + columns, mask=inside, other=0.0)[None, :]
    tl.store(dx + at, (slope * gradient + lean * value + offset).to(dx.dtype.element_ty), mask=there)
    if NORMED:
        more = tl.load(other + at, mask=there, other=0.0).to(tl.float32)
        slope = tl.load(other_out + 2 * channels + columns, mask=inside, other=0.0)[None, :]
        lean = tl.load(other_out + 3 * channels + columns, mask=inside, other=0.0)[None, :]
        offset = tl.load(other_out + 4 * channels + columns, mask=inside, other=0.0)[None, :]
        tl.store(other_dx + at, (slope * gradient + lean * more + offset).to(dx.dtype.element_ty), mask=there)


# All of these were found on an H200, 2026-11-22, for the shapes of ResNet-50.
ROWS, CHANNELS = 64, 64  # of a tile: the channels are 128 bytes of a row in 16 bits
PROGRAMS = 264  # of a reduction: two for each multiprocessor of an H100 or H200
FINISH = 32  # partial sums that the last program reads at once
STAGES = 4  # tiles of a reduction on their way at once
# The same for the backward sums where there is another branch: up to six tensors, and as many registers.
ADDED_ROWS, ADDED_PROGRAMS, ADDED_STAGES = 32, 528, 3
# Up to so many tiles each of them finds its moments itself: that costs less than a launch of its own.
FOLDED_TILES = 48 * 132


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

    _of: ClassVar[dict[Any, tuple[Any, Any]]] = {}

    @classmethod
    def on(cls, device: Any, elements: int, blocks: int) -> tuple[Any, Any]:
        """Return room for at least so many partial sums (FP32), and that many counters at zero."""
        there = cls._of.get(device)
        if there is None or there[0].numel() < elements or there[1].numel() < blocks:
            there = (
                torch.empty(max(elements, 1 << 21), dtype=torch.float32, device=device),
                torch.zeros(max(blocks, 1024), dtype=torch.int32, device=device),
            )
            cls._of[device] = there
        return there


def tiles(rows: int, channels: int, tile_rows: int = ROWS) -> tuple[int]:
    """Return the grid of a pass that reads each tile once."""
    return (triton.cdiv(channels, CHANNELS) * triton.cdiv(rows, tile_rows),)


def reduction(
    x: Any, sums: int, programs: int = PROGRAMS, tile_rows: int = ROWS
) -> tuple[tuple[int, int], Any, Any]:
    """Return the grid of a reduction over the rows, and room for its partial sums and counters."""
    rows, channels = x.shape
    blocks = triton.cdiv(channels, CHANNELS)
    programs = max(1, min(programs // blocks, triton.cdiv(rows, tile_rows)))
    partial, counters = Scratch.on(x.device, sums * programs * x.shape[1], blocks)
    return (blocks, programs), partial, counters


class Unfinished(NamedTuple):
    """What a norm's moments are to be found from, and what that changes: running mean, variance and count of batches.

    ``sums`` (2, channels) in FP32 are those of the values and of their squares, if they are known.
    """

    sums: Any | None
    weight: Any
    bias: Any
    running: tuple[Any, Any, Any]
    epsilon: float
    momentum: float


def normed(x: Any, given: Unfinished) -> Normed:
    """Return what is found of ``x`` (rows, channels), which is not read where its sums are known."""
    norm, (rows, channels) = to_be_found(x, given), x.shape
    sums, *vectors, running, epsilon, momentum = given
    common = (*vectors, *running, *norm[2:], rows, channels, epsilon, momentum)
    if sums is not None:
        conclude_kernel[(triton.cdiv(channels, CHANNELS),)](sums, *common, CHANNELS=CHANNELS, num_warps=2)
    else:
        grid, partial, counters = reduction(x, 2)
        moments_kernel[grid](
            x, partial, counters, *common,
            ROWS=ROWS, CHANNELS=CHANNELS, FINISH=FINISH, STAGES=STAGES, num_warps=8,
        )  # fmt: skip
    return norm


def is_small(x: Any) -> bool:
    """Return whether the moments of ``x`` are better found in each tile of the pass that applies them."""
    return tiles(*x.shape)[0] <= FOLDED_TILES


def to_be_found(x: Any, unfinished: Unfinished) -> Normed:
    """Return room for what ``applied`` finds of ``x`` (rows, channels), given ``unfinished`` too."""
    rows, channels = x.shape
    if rows < 2:
        reason = f"batch norm in training needs more than one value for each of {channels} channels"
        raise RunError(INVALID, reason)
    found = torch.empty((4, channels), dtype=torch.float32, device=x.device)
    return Normed(x, unfinished.weight, *found.unbind())


def applied(
    norm: Normed,
    other: "Any | Normed | None" = None,
    unfinished: Unfinished | None = None,
    other_unfinished: Unfinished | None = None,
) -> tuple[Any, Any | None]:
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
    d_other: Any | None
    vectors: tuple[Any, Any]
    other_vectors: tuple[Any, Any] | None


def back(
    norm: Normed,
    dy: Any,
    dy_more: Any | None = None,
    kept: Any | None = None,
    other: Normed | None = None,
    quartered: tuple[int, int] | None = None,
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
