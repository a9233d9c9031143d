"""One kernel that crops, scales, mirrors and normalises a batch of decoded images of different sizes."""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from ...tasks.image_classification.images import DEVIATION, MEAN

PIXELS = 512  # the number of pixels of a tile
# The columns of the table: an image's address, its strides by channel, row and column, and its crop (5 values).
COLUMNS = 9


@triton.jit
def _corners(plane, top, low, left, right, there):
    return (
        tl.load(plane + top + left, mask=there, other=0).to(tl.float32),
        tl.load(plane + top + right, mask=there, other=0).to(tl.float32),
        tl.load(plane + low + left, mask=there, other=0).to(tl.float32),
        tl.load(plane + low + right, mask=there, other=0).to(tl.float32),
    )


@triton.jit
def _resample_kernel(
    table, y, size, of_image, of_channel, of_pixel,
    red, green, blue, red_scale, green_scale, blue_scale, COLUMNS: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    row = table + tl.program_id(1) * COLUMNS
    image = tl.load(row).to(tl.pointer_type(tl.uint8))
    by_channel, by_row, by_column = tl.load(row + 1), tl.load(row + 2), tl.load(row + 3)
    from_top, from_left = tl.load(row + 4), tl.load(row + 5)
    rows, columns = tl.load(row + 6), tl.load(row + 7)
    mirrored = tl.load(row + 8)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    there = pixel < size * size
    across = pixel % size
    # Pixels are squares around their centres, as in torch's interpolate without align_corners.
    across = tl.where(mirrored != 0, size - 1 - across, across).to(tl.float32)
    x = tl.maximum((across + 0.5) * (columns.to(tl.float32) / size) - 0.5, 0.0)
    down = tl.maximum(((pixel // size).to(tl.float32) + 0.5) * (rows.to(tl.float32) / size) - 0.5, 0.0)
    left, top = x.to(tl.int64), down.to(tl.int64)
    right, low = tl.minimum(left + 1, columns - 1), tl.minimum(top + 1, rows - 1)
    x, down = x - left.to(tl.float32), down - top.to(tl.float32)
    left, right = (left + from_left) * by_column, (right + from_left) * by_column
    top, low = (top + from_top) * by_row, (low + from_top) * by_row
    out = y + tl.program_id(1).to(tl.int64) * of_image + pixel.to(tl.int64) * of_pixel
    for channel in tl.static_range(3):
        a, b, c, d = _corners(image + channel * by_channel, top, low, left, right, there)
        value = (1 - down) * ((1 - x) * a + x * b) + down * ((1 - x) * c + x * d)
        mean = red if channel == 0 else green if channel == 1 else blue
        scale = red_scale if channel == 0 else green_scale if channel == 1 else blue_scale
        tl.store(out + channel * of_channel, ((value - mean) * scale).to(y.dtype.element_ty), mask=there)


def resampled(images: list[Any], crops: Sequence[Sequence[int]], size: int, dtype: Any, nhwc: bool) -> Any:
    """Return the network's input (batch, 3, size, size) from decoded images: bytes (3, height, width) of any size.

    Each image may have its own memory layout. ``crops`` has (top, left, height, width, mirrored) for each image; the
    crop is scaled to ``size`` by ``size``, bilinearly between its own pixels. The kernel computes in FP32 and rounds
    once, like ``Normalise``.
    """
    device = images[0].device
    rows = [[image.data_ptr(), *image.stride(), *crop] for image, crop in zip(images, crops)]
    table = torch.tensor(rows, dtype=torch.int64)
    if device.type == "cuda":
        table = table.pin_memory().to(device, non_blocking=True)
    y = torch.empty(
        (len(images), 3, size, size),
        dtype=dtype,
        device=device,
        memory_format=torch.channels_last if nhwc else torch.contiguous_format,
    )
    means = [255 * mean for mean in MEAN]
    scales = [1 / (255 * deviation) for deviation in DEVIATION]
    grid = (triton.cdiv(size * size, PIXELS), len(images))
    _resample_kernel[grid](
        table, y, size, y.stride(0), y.stride(1), y.stride(3), *means, *scales,
        COLUMNS=COLUMNS, PIXELS=PIXELS, num_warps=4,
    )  # fmt: skip
    return y
