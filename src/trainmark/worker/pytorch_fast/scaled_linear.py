"""Matrix products in FP8: each row of both operands has its own scale, and results are BF16.

This is the rowwise recipe of torchao: forward and both backward products multiply E4M3 numbers, and each operand is
scaled along the axis that the product sums over. Weights stay in FP32 or BF16; the scales follow from the current
values.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

OPERAND, LARGEST = torch.float8_e4m3fn, 448.0  # the type of both operands, and its largest number
SMALLEST = 1e-12  # the smallest value that a row is scaled by, so that a row of zeros stays one


def quantize(x: Any) -> tuple[Any, Any]:
    """Return the rows (rows, columns) of ``x`` in FP8, and their scales (rows, 1) in FP32."""
    wide = x.float()
    scales = wide.abs().amax(dim=1, keepdim=True).clamp(min=SMALLEST) / LARGEST
    return (wide / scales).to(OPERAND), scales


def quantize_both(x: Any) -> tuple[Any, Any, Any, Any]:
    """Return ``x`` in FP8 with the scales of its rows, and its transpose with the scales of the columns of ``x``."""
    if x.is_cuda:
        from .kernels import quantize as kernel

        return kernel.quantize_both(x)
    return quantize_plainly(x)


def multiply_plainly(a: Any, a_scales: Any, b: Any, b_scales: Any) -> Any:
    """Return what ``multiply`` returns, by a BF16 product of the FP8 numbers: a check of it, and not fast."""
    numbers = a.to(torch.bfloat16) @ b.to(torch.bfloat16).t()
    return (numbers.float() * a_scales * b_scales.t()).to(torch.bfloat16)


def quantize_plainly(x: Any) -> tuple[Any, Any, Any, Any]:
    """Return what ``quantize_both`` returns, by torch's operations."""
    return (*quantize(x), *quantize(x.t().contiguous()))


def multiply(a: Any, a_scales: Any, b: Any, b_scales: Any) -> Any:
    """Return ``a @ b.T`` in BF16, for operands (rows, columns) in FP8 and the scales of their rows."""
    return torch._scaled_mm(
        a, b.t(), scale_a=a_scales, scale_b=b_scales.t(), out_dtype=torch.bfloat16, use_fast_accum=True
    )


class _Product(torch.autograd.Function):
    """``x @ weight.T`` for ``x`` (rows, inputs) and ``weight`` (outputs, inputs), both BF16."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, plain: bool) -> Any:
        split, product = (quantize_plainly, multiply_plainly) if plain else (quantize_both, multiply)
        rows, row_scales, columns, column_scales = split(x)
        own, own_scales, turned, turned_scales = split(weight)
        ctx.save_for_backward(columns, column_scales, turned, turned_scales)
        ctx.plain = plain
        return product(rows, row_scales, own, own_scales)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, Any, None]:
        split, product = (quantize_plainly, multiply_plainly) if ctx.plain else (quantize_both, multiply)
        columns, column_scales, turned, turned_scales = ctx.saved_tensors
        rows, row_scales, across, across_scales = split(gradients[0].contiguous())
        of_x = product(rows, row_scales, turned, turned_scales)
        of_weight = product(across, across_scales, columns, column_scales)
        return of_x, of_weight, None


class ScaledLinear(nn.Linear):
    """A linear layer without bias whose three products are in FP8."""

    # Whether torch's operations quantize and multiply; the verification of a run checks FP8's kernels with them.
    plain = False

    operand: Any | None = None  # the type of the operands of the last forward product

    def forward(self, x: Any) -> Any:
        """Map (…, inputs) to (…, outputs) in BF16."""
        rows = x.to(torch.bfloat16).reshape(-1, x.shape[-1])
        with torch.autocast(x.device.type, enabled=False):
            found = _Product.apply(rows, self.weight.to(torch.bfloat16), self.plain)
        self.operand = OPERAND
        return found.view(*x.shape[:-1], -1)


def scale_products(module: nn.Module) -> None:
    """Make every linear layer below ``module`` a ``ScaledLinear``, with the same weight."""
    for layer in module.modules():
        if type(layer) is nn.Linear:
            assert layer.bias is None, "a product in FP8 has no bias"
            layer.__class__ = ScaledLinear


def set_plain(module: nn.Module, plain: bool) -> None:
    """Compute the products in FP8 below ``module`` by torch's operations, or by the fast kernels."""
    for layer in module.modules():
        if isinstance(layer, ScaledLinear):
            layer.plain = plain


def operand_type(layer: Any, output: Any) -> Any:
    """Return the type that a linear layer multiplied in, from the layer and its output."""
    operand = layer.operand if isinstance(layer, ScaledLinear) else None
    return output.dtype if operand is None else operand


def products_in_fp8(size: int, device: Any) -> Callable[[], Any]:
    """Return a function that multiplies two square matrices of ``size`` rows in FP8, to measure the device's peak."""
    one, other = (quantize(torch.randn(size, size, device=device)) for _ in range(2))
    return lambda: multiply(*one, *other)
