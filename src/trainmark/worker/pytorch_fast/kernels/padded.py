"""Images with a fourth channel of zeros: with three, cuDNN pads them itself, anew for each pass, in slower kernels."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch.nn import functional

CHANNELS = 4

PIXELS = 1024
"""Of a tile."""


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
