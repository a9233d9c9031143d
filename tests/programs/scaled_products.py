"""FP8's products with scales against those in BF16, on a CPU whose FP8 product is emulated; prints JSON."""

import importlib
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

START = Path(__file__).parents[2] / "src" / "trainmark" / "worker" / "start.py"


def emulated(a: Any, b: Any, scale_a: Any, scale_b: Any, out_dtype: Any, use_fast_accum: bool) -> Any:
    assert a.dtype == b.dtype == torch.float8_e4m3fn
    assert use_fast_accum
    assert scale_a.shape == (a.shape[0], 1)
    assert scale_b.shape == (1, b.shape[1])
    return ((a.float() @ b.float()) * scale_a * scale_b).to(out_dtype)


def off(found: Any, expected: Any) -> float:
    return float((found.float() - expected.float()).norm() / expected.float().norm())


def passed(layer: Any, x: Any, gradient: Any) -> dict[str, Any]:
    x.grad = layer.weight.grad = None
    output = layer(x)
    output.backward(gradient)
    return {"output": output.detach(), "of_input": x.grad.clone(), "of_weight": layer.weight.grad.clone()}


def main() -> None:
    runpy.run_path(str(START))
    scaled = importlib.import_module("trainmark_worker.pytorch_fast.scaled_linear")
    torch._scaled_mm = emulated
    torch.manual_seed(0)
    layer = nn.Linear(64, 48, bias=False, dtype=torch.bfloat16)
    # A row that is a million times smaller than the others, as of a token whose gradient is small.
    sizes = torch.ones(96, 1)
    sizes[5] = 1e-6
    x = (torch.randn(96, 64) * sizes).bfloat16().requires_grad_()
    gradient = torch.randn(96, 48).bfloat16()
    expected = passed(layer, x, gradient)
    scaled.scale_products(nn.ModuleList([layer]))
    found = passed(layer, x, gradient)
    scaled.set_plain(layer, plain=True)
    plain = passed(layer, x, gradient)
    whole = x.detach().float()
    size = whole.abs().max() / scaled.LARGEST
    by_tensor = (whole / size).to(scaled.OPERAND).float() * size
    rows, scales = scaled.quantize(x.detach())
    zeros = scaled.quantize(torch.zeros(2, 16))
    result = {
        "by_rows": {name: off(found[name], value) for name, value in expected.items()},
        "plain": max(off(plain[name], value) for name, value in found.items()),
        "small_row": {
            "by_rows": off((rows.float() * scales)[5], whole[5]),
            "by_tensor": off(by_tensor[5], whole[5]),
        },
        "zeros": float((zeros[0].float() * zeros[1]).abs().max()),
        "operand": str(layer.operand),
    }
    sys.stdout.write(json.dumps(result) + "\n")


main()
