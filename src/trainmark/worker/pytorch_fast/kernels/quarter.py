"""A convolution of 1x1 and stride 2 reads a quarter of the positions, and has a gradient at those alone.

As torch computes it, that gradient is a tensor of all positions, three quarters of them zeros.
"""

from typing import Any

import torch


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
