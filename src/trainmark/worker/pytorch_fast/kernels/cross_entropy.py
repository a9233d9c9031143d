"""The classifier and its cross entropy with one copy of the logits: the forward pass leaves their gradient there.

Plain torch reads the logits for the loss, reads them again backward and writes their gradient beside them. Here one
program a row reads it twice, the second time mostly from the cache, and writes the gradient over it. All arithmetic is
in FP32, as it is there, and the gradient is rounded to the logits' type, as it is there.
"""

# No postponed annotations: torch reads an operator's types from them.

from typing import Any, Optional, Tuple

import torch
import triton
import triton.language as tl
from torch import Tensor

# Columns that a program reads at once, and its warps: the fastest of ten pairs on an H200. docs/appendix/performance.md
# has the measurements.
BLOCK, WARPS = 8192, 16

TOGETHER = 16  # columns that share what they are taken relative to: an exponential less for each
Weights = Optional[Tensor]  # noqa: UP045 - torch reads an operator's types in this form

LOG2E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@triton.jit
def loss_and_gradient(logits, losses, targets, columns, BLOCK: tl.constexpr, TOGETHER: tl.constexpr):
    """Write the row's loss, and over the row the gradient of it: its softmax, less 1 at the target."""
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * columns
    target = tl.load(targets + row)
    at_target = tl.load(start + target).to(tl.float32)
    groups: tl.constexpr = BLOCK // TOGETHER
    offsets = tl.arange(0, groups)[:, None] * TOGETHER + tl.arange(0, TOGETHER)[None, :]
    # In powers of 2. Finite, so that a column without any value is no difference of infinities.
    highest = tl.full((groups,), -1e30, tl.float32)
    sums = tl.zeros((groups,), tl.float32)
    for first in range(0, columns, BLOCK):
        place = first + offsets
        x = tl.load(start + place, mask=place < columns, other=float("-inf")).to(tl.float32) * LOG2E
        higher = tl.maximum(highest, tl.max(x, 1))
        sums = sums * tl.exp2(highest - higher) + tl.sum(tl.exp2(x - higher[:, None]), 1)
        highest = higher
    most = tl.max(highest, 0)
    # Not added to the highest, beside which it may be too small to be seen.
    more = tl.log2(tl.sum(sums * tl.exp2(highest - most), 0))
    tl.store(losses + row, (most - at_target * LOG2E + more) * LN2)
    for first in range(0, columns, BLOCK):
        place = first + offsets
        x = tl.load(start + place, mask=place < columns, other=float("-inf")).to(tl.float32) * LOG2E
        found = tl.exp2(x - most - more) - tl.where(place == target, 1.0, 0.0)
        tl.store(start + place, found.to(logits.dtype.element_ty), mask=place < columns)


@torch.library.custom_op("trainmark::classified", mutates_args=())
def classified(x: Tensor, weight: Tensor, targets: Tensor, weights: Weights) -> Tuple[Tensor, Tensor]:
    """Return the cross entropy of ``x @ weight.T`` (rows, classes), and the gradient of the rows' sum.

    The mean of the rows, or with ``weights`` (rows) their weighted sum.
    """
    logits = x @ weight.t()
    losses = torch.empty(len(logits), dtype=torch.float32, device=x.device)
    loss_and_gradient[(len(logits),)](
        logits, losses, targets, logits.shape[1], BLOCK=BLOCK, TOGETHER=TOGETHER, num_warps=WARPS
    )
    return losses.mean() if weights is None else (losses * weights).sum(), logits


@classified.register_fake
def _(x: Tensor, weight: Tensor, _targets: Tensor, _weights: Weights) -> Tuple[Tensor, Tensor]:
    return x.new_empty((), dtype=torch.float32), x.new_empty(x.shape[0], weight.shape[0])


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, _, weights = inputs
    ctx.save_for_backward(x, weight, output[1], weights)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, of_loss: Tensor, _: Any) -> Tuple[Any, Any, None, None]:
    x, weight, gradient, weights = ctx.saved_tensors
    if weights is None:
        factor, of_x, rows = of_loss / len(x), gradient @ weight, x
    else:
        # On the narrow side of both products, as parts of the largest: 0 and 1 for most, which are exact in 16 bits.
        largest = weights.max()
        parts = (weights / largest)[:, None].to(x.dtype)
        factor, of_x, rows = of_loss * largest, (gradient @ weight) * parts, x * parts
    return (of_x * factor).to(x.dtype), ((gradient.t() @ rows) * factor).to(weight.dtype), None, None


classified.register_autograd(_backward, setup_context=_keep)


def cross_entropy(x: Tensor, weight: Tensor, targets: Tensor, weights: Weights = None) -> Tensor:
    """Return the mean cross entropy of the classes' logits of ``x`` (rows, width), of the weight's type.

    With ``weights`` (rows), the weighted sum. Each target is one of the weight's rows.
    """
    loss, _ = torch.ops.trainmark.classified(x, weight, targets, weights)
    return loss
