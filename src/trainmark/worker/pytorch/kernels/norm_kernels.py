"""The passes of a batch norm over tiles of a matrix (rows, channels): ``norm.py`` says what they are for.

The last program of a reduction that finishes adds up what all have left (``finished``, ``total_of``).
"""

from __future__ import annotations

import triton
import triton.language as tl


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
