"""FP8 copies of a matrix by rows and by columns, from two passes over it.

A training step multiplies each operand along both of its axes. The first pass finds the largest magnitude of each row
and column, the second writes both copies: the matrix scaled by rows, and its transpose scaled by columns. That is 6
bytes of traffic per value, less than torch's separate passes and transposed copies need.
"""

# No postponed annotations: torch reads an operator's types from them.

from typing import Tuple

import torch
import triton
import triton.language as tl
from torch import Tensor

# The tile and the warps of a program: of twelve tried on an H200, the fastest in both passes.
TILE = {"ROWS": 128, "COLUMNS": 64, "num_warps": 4}

LARGEST, SMALLEST = tl.constexpr(448.0), tl.constexpr(1e-12)


@triton.jit
def find_largest(x, by_row, by_column, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Raise ``by_row`` and ``by_column``, which begin with zeros, to the largest magnitudes of a tile."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    values = tl.load(x + row.to(tl.int64)[:, None] * columns + column[None, :], mask=inside, other=0.0)
    sizes = tl.abs(values.to(tl.float32))
    tl.atomic_max(by_row + row, tl.max(sizes, 1), mask=row < rows, sem="relaxed")
    tl.atomic_max(by_column + column, tl.max(sizes, 0), mask=column < columns, sem="relaxed")


@triton.jit
def write_both(
    x, by_row, by_column, own, own_scales, turned, turned_scales, rows, columns,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write a tile of both copies; the first programs of each row and column of tiles also write the scales."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    place = row.to(tl.int64)[:, None] * columns + column[None, :]
    values = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    largest_of_row = tl.maximum(tl.load(by_row + row, mask=row < rows, other=1.0), SMALLEST)
    largest_of_column = tl.maximum(tl.load(by_column + column, mask=column < columns, other=1.0), SMALLEST)
    if tl.program_id(1) == 0:
        tl.store(own_scales + row, largest_of_row / LARGEST, mask=row < rows)
    if tl.program_id(0) == 0:
        tl.store(turned_scales + column, largest_of_column / LARGEST, mask=column < columns)
    of_row, of_column = LARGEST / largest_of_row, LARGEST / largest_of_column
    # The reciprocal is rounded, so a row's largest value may come out a little above the largest number.
    by_rows = tl.minimum(tl.maximum(values * of_row[:, None], -LARGEST), LARGEST)
    by_columns = tl.minimum(tl.maximum(values * of_column[None, :], -LARGEST), LARGEST)
    tl.store(own + place, by_rows.to(own.dtype.element_ty), mask=inside)
    other = column.to(tl.int64)[:, None] * rows + row[None, :]
    fits = (column[:, None] < columns) & (row[None, :] < rows)
    tl.store(turned + other, tl.trans(by_columns).to(turned.dtype.element_ty), mask=fits)


@torch.library.custom_op("trainmark::quantize_both", mutates_args=())
def quantize_both(x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return ``x`` (rows, columns) in FP8 with its rows' scales (rows, 1), and its transpose with its columns'."""
    x = x.contiguous()
    rows, columns = x.shape
    largest = torch.zeros(rows + columns, dtype=torch.float32, device=x.device)
    by_row, by_column = largest[:rows], largest[rows:]
    own = torch.empty_like(x, dtype=torch.float8_e4m3fn)
    turned, own_scales = own.new_empty(columns, rows), largest.new_empty(rows, 1)
    turned_scales = largest.new_empty(columns, 1)
    grid = triton.cdiv(rows, TILE["ROWS"]), triton.cdiv(columns, TILE["COLUMNS"])
    find_largest[grid](x, by_row, by_column, rows, columns, **TILE)
    write_both[grid](x, by_row, by_column, own, own_scales, turned, turned_scales, rows, columns, **TILE)
    return own, own_scales, turned, turned_scales


@quantize_both.register_fake
def _(x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    rows, columns = x.shape
    return (
        x.new_empty(rows, columns, dtype=torch.float8_e4m3fn),
        x.new_empty(rows, 1, dtype=torch.float32),
        x.new_empty(columns, rows, dtype=torch.float8_e4m3fn),
        x.new_empty(columns, 1, dtype=torch.float32),
    )
