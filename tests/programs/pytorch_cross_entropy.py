"""Our cross entropy against plain PyTorch in FP64, eager and compiled: run by a Python that has PyTorch and Triton.

Exit code 0: alike. With TRITON_INTERPRET=1 on a CPU, else on the GPU.
"""

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "src" / "trainmark"))

import torch
from torch.nn import functional
from worker.pytorch_fast.kernels.cross_entropy import cross_entropy  # type: ignore[import-not-found]

DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") else "cuda"
SHAPES = [(6, 32, 512), (3, 64, 50304), (5, 32, 4099)]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
COMPILED = [False] if DEVICE == "cpu" else [False, True]
"""Triton's interpreter cannot be compiled into."""


def apart(found: Any, wanted: Any) -> float:
    found, wanted = found.detach().double(), wanted.detach().double()
    return float((found - wanted).norm() / wanted.norm())


def check(shape: tuple[int, int, int], kind: Any, compiled: bool, weighted: bool = False) -> bool:
    rows, width, classes = shape
    random = torch.Generator(DEVICE).manual_seed(1)
    x = torch.randn(rows, width, generator=random, device=DEVICE).to(kind)
    weight = torch.randn(classes, width, generator=random, device=DEVICE).to(kind)
    targets = torch.randint(classes, (rows,), generator=random, device=DEVICE)
    # As of packed documents: some rows do not count.
    weights = (torch.arange(rows, device=DEVICE) % 3 > 0).float() / 7 if weighted else None
    found = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    wanted = [tensor.double().requires_grad_() for tensor in (x, weight)]
    loss_of = torch.compile(cross_entropy) if compiled else cross_entropy
    # Divided, as a part of a batch is: what the loss is multiplied by reaches the gradients.
    loss = loss_of(*found, targets, weights) / 4
    loss.backward()
    # As rounded as the product is.
    logits = functional.linear(x, weight).double() + 0 * functional.linear(*wanted)
    logits = functional.linear(*wanted) + (logits - functional.linear(*wanted)).detach()
    losses = functional.cross_entropy(logits, targets, reduction="none")
    truth = (losses.mean() if weights is None else (losses * weights).sum()) / 4
    truth.backward()
    off = [
        apart(loss, truth),
        *(apart(one.grad, other.grad) for one, other in zip(found, wanted, strict=True)),
    ]
    alike = max(off) < TOLERANCE[kind]
    sys.stdout.write(
        f"{shape} {kind} compiled={compiled} weighted={weighted} max {max(off):.2e} {'' if alike else 'DIFFERS'}\n"
    )
    return alike


def main() -> int:
    told = [check(shape, kind, compiled) for shape in SHAPES for kind in TOLERANCE for compiled in COMPILED]
    told += [check(SHAPES[0], kind, compiled, weighted=True) for kind in TOLERANCE for compiled in COMPILED]
    x, weight = torch.ones(2, 16, device=DEVICE), torch.ones(512, 16, device=DEVICE)
    x[1, 0] = float("nan")
    told.append(bool(cross_entropy(x, weight, torch.zeros(2, dtype=torch.long, device=DEVICE)).isnan()))
    sys.stdout.write(f"{sum(told)} of {len(told)} right\n")
    return int(not all(told))


if __name__ == "__main__":
    sys.exit(main())
