"""Convolutions' inputs in other shapes: a fourth channel of zeros, or a quarter of the positions.

With three channels cuDNN pads images itself, anew for each pass, in slower kernels.

A convolution of 1x1 and stride 2 reads a quarter of the positions, and has a gradient at those alone.
As torch computes it, that gradient is a tensor of all positions, three quarters of them zeros.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch.nn import functional


def quarter_of(images: Any) -> Any:
    """Return every second row and column of (batch, channels, h, w), in the same memory."""
    return images[:, :, ::2, ::2]


def whole_of(quarter: Any) -> Any:
    """Return the dense channels-last images that ``quarter_of`` was given; the last row and column may lack."""
    batch, channels, _, _ = quarter.shape
    over_images, _, over_rows, over_columns = quarter.stride()
    width = over_rows // over_columns
    height = over_images // (channels * width)
    # By its strides a quarter of one row cannot say how wide the images are.
    assert over_columns == 2 * channels, quarter.stride()
    assert height * width * channels == over_images, quarter.stride()
    return quarter.as_strided((batch, channels, height, width), (over_images, 1, channels * width, channels))


def quarter_gradients(quarter: Any, weight: Any, dy: Any) -> tuple[Any, Any]:
    """Return the gradients of the quarter, dense, and of the weight (outputs, inputs, 1, 1)."""
    rows = dy.permute(0, 2, 3, 1).flatten(0, 2)
    narrow = weight.to(dy.dtype)
    dx = torch.mm(rows, narrow.flatten(1))
    dx = dx.view(*(dy.shape[i] for i in (0, 2, 3)), weight.shape[1]).permute(0, 3, 1, 2)
    _, dw, _ = torch.ops.aten.convolution_backward(
        dy, whole_of(quarter), narrow, None, [2, 2], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]
    )
    return dx, dw.to(weight.dtype)


CHANNELS, PIXELS = 4, 1024  # of a tile


@triton.jit
def _padded_kernel(x, y, pixels, CHANNELS: tl.constexpr, PIXELS: tl.constexpr):
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    channel = tl.arange(0, CHANNELS)
    there = (pixel < pixels)[:, None] & (channel < 3)[None, :]
    value = tl.load(x + pixel.to(tl.int64)[:, None] * 3 + channel[None, :], mask=there, other=0.0)
    tl.store(
        y + pixel.to(tl.int64)[:, None] * CHANNELS + channel[None, :], value, mask=(pixel < pixels)[:, None]
    )


def padded(x: Any) -> Any:
    """Map channels-last images (batch, 3, h, w) to (batch, 4, h, w), the last channel zero."""
    batch, _, height, width = x.shape
    rows = x.permute(0, 2, 3, 1).view(-1, 3)
    y = torch.empty((batch, height, width, CHANNELS), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(rows.shape[0], PIXELS),)
    _padded_kernel[grid](rows, y, rows.shape[0], CHANNELS=CHANNELS, PIXELS=PIXELS, num_warps=8)
    return y.permute(0, 3, 1, 2)


def padded_weight(weight: Any) -> Any:
    """Map a weight (outputs, 3, h, w) to (outputs, 4, h, w), channels last; gradients go through it."""
    return functional.pad(weight, (0, 0, 0, 0, 0, 1)).contiguous(memory_format=torch.channels_last)
