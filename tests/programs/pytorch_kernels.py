"""Our kernels against plain PyTorch in FP64, at many shapes: run by a Python that has PyTorch and Triton.

Exit code 0: alike. With TRITON_INTERPRET=1 on a CPU, else on the GPU.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "src" / "trainmark"))

import torch
from torch.nn import functional
from worker.pytorch.image_classification.models import fused  # type: ignore[import-not-found]

DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") else "cuda"
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
SMALL = [(2, 64, 7, 5), (3, 24, 9, 9), (1, 128, 4, 6), (2, 200, 3, 3)]
LARGE = [
    (256, 64, 56, 56),
    (256, 256, 56, 56),
    (37, 512, 28, 28),
    (256, 2048, 7, 7),
    (5, 96, 33, 31),
    (256, 64, 112, 112),
]


def reference(kind: str, tensors: list[Any], modules: list[Any], dtype: Any) -> Any:
    x, *others = tensors
    first, *second = modules
    y = functional.batch_norm(x, None, None, first.weight.double(), first.bias.double(), True, 0.1, first.eps)
    if kind == "add":
        y = y + others[0]
    if kind == "add-normed":
        (norm,) = second
        y = y + functional.batch_norm(
            others[0], None, None, norm.weight.double(), norm.bias.double(), True, 0.1, norm.eps
        )
    y = y.relu()
    if kind == "pool":
        # Which of two is the larger one is decided after the rounding.
        y = y + (y.to(dtype).double() - y).detach()
        return functional.max_pool2d(y, 3, stride=2, padding=1)
    return y


def ours(kind: str, tensors: list[Any], modules: list[Any]) -> Any:
    x, *others = tensors
    if kind == "cut":
        return modules[0](x)
    if kind == "pool":
        return modules[0](x)
    if kind == "add":
        return modules[0](x, others[0])
    return modules[0](x, modules[1](others[0]))


KINDS = {"cut": fused.NormCut, "add": fused.NormAdd, "add-normed": fused.NormAdd, "pool": fused.NormPool}


def apart(found: Any, wanted: Any) -> float:
    found, wanted = found.detach().double(), wanted.detach().double()
    return float((found - wanted).norm() / (wanted.norm() + 1e-30))


def check(kind: str, shape: tuple[int, ...], dtype: Any, seed: int) -> bool:
    generator = torch.Generator(DEVICE).manual_seed(seed)

    def draw(*size: int) -> Any:
        return torch.randn(*size, generator=generator, device=DEVICE)

    channels = shape[1]
    modules = [KINDS[kind](channels).to(DEVICE)] + (
        [fused.NormLater(channels).to(DEVICE)] if kind == "add-normed" else []
    )
    for module in modules:
        with torch.no_grad():
            module.weight.copy_(draw(channels) * 0.3 + 1)
            module.bias.copy_(draw(channels) * 0.3)
    # Far from zero, as the variance of differences has to bear.
    count = 1 if kind in ("cut", "pool") else 2
    drawn = [(draw(*shape) * (1 + index) + 3 * draw(1, channels, 1, 1)).to(dtype) for index in range(count)]
    drawn = [tensor.contiguous(memory_format=torch.channels_last) for tensor in drawn]
    own = [tensor.clone(memory_format=torch.preserve_format).requires_grad_() for tensor in drawn]
    exact = [tensor.double().requires_grad_() for tensor in drawn]
    wanted = reference(kind, exact, modules, dtype)
    given = [draw(*wanted.shape).to(dtype).contiguous(memory_format=torch.channels_last) for _ in range(2)]
    found = ours(kind, own, modules)
    twice = isinstance(found, tuple)
    y = found[0] if twice else found
    # Where ReLU or the maximum is decided by rounding alone the two may rightly differ: leave those positions out.
    outputs = list(found) if twice else [found]
    gradients = given if twice else given[:1]
    torch.autograd.backward(outputs, gradients)
    mine = [tensor.grad for tensor in own] + [p.grad.clone() for m in modules for p in m.parameters()]
    for module in modules:
        module.zero_grad()
    total = sum(gradient.double() for gradient in gradients)
    wanted.backward(total)
    right = [tensor.grad for tensor in exact] + [p.grad.clone() for m in modules for p in m.parameters()]
    limit = TOLERANCE[dtype]
    distances = {"y": apart(y, wanted)}
    distances.update({f"gradient {i}": apart(a, b) for i, (a, b) in enumerate(zip(mine, right, strict=True))})
    rows = drawn[0].double().transpose(0, 1).flatten(1)
    distances["running mean"] = apart(modules[0].running_mean, 0.1 * rows.mean(1))
    distances["running var"] = apart(modules[0].running_var, 0.9 + 0.1 * rows.var(1))
    assert int(modules[0].num_batches_tracked) == 1
    # Within a rounding of zero ReLU may cut one and not the other: some positions of a million, each wholly apart.
    allowed = {name: max(10 * limit, 2e-3) if "gradient" in name else limit for name in distances}
    wrong = {name: value for name, value in distances.items() if not value <= allowed[name]}
    print(
        kind,
        shape,
        str(dtype)[6:],
        "max",
        f"{max(distances.values()):.1e}",
        "WRONG" if wrong else "",
        wrong or "",
    )
    return not wrong


def check_stem(batch: int, height: int, width: int, dtype: Any) -> bool:
    """The stem's convolution with a fourth channel is the convolution, forward and in its weight's gradient."""
    conv = fused.StemConv(3, 64, 7, stride=2, padding=3, bias=False)
    return check_convolution("stem", conv, (batch, 3, height, width), dtype)


def check_convolution(kind: str, conv: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    torch.manual_seed(1)
    conv = conv.to(DEVICE, dtype).to(memory_format=torch.channels_last)
    x = torch.randn(*shape, device=DEVICE).to(dtype).contiguous(memory_format=torch.channels_last)
    own = x.clone(memory_format=torch.preserve_format).requires_grad_(kind != "stem")
    exact, weight = x.double().requires_grad_(), conv.weight.detach().double().requires_grad_()
    wanted = functional.conv2d(exact, weight, stride=conv.stride, padding=conv.padding)
    found = conv(own)
    given = torch.randn(wanted.shape, device=DEVICE).to(dtype).contiguous(memory_format=torch.channels_last)
    found.backward(given)
    wanted.backward(given.double())
    distances = {"y": apart(found, wanted), "weight": apart(conv.weight.grad, weight.grad)}
    if kind != "stem":
        distances["x"] = apart(own.grad, exact.grad)
        written = found.detach().double().transpose(0, 1).flatten(1)
        distances["sums"] = apart(found.sums[0] / written.shape[1], written.mean(1))
        distances["squares"] = apart(found.sums[1], (written * written).sum(1))
    wrong = {name: value for name, value in distances.items() if not value <= TOLERANCE[dtype]}
    print(
        kind,
        shape,
        str(dtype)[6:],
        "max",
        f"{max(distances.values()):.1e}",
        "WRONG" if wrong else "",
        wrong or "",
    )
    return not wrong


def check_summed(dtype: Any) -> list[bool]:
    """Convolutions that add up what they write."""
    shapes = [(64, 256, 1, 1), (256, 128, 1, 2), (128, 128, 3, 2), (512, 512, 3, 1)]
    return [
        check_convolution(
            "summed",
            fused.SummedConv(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
            (32, inputs, 28, 28),
            dtype,
        )
        for inputs, outputs, kernel, stride in shapes
    ]


def check_nan(kind: str) -> bool:
    """A value that is no number makes all of its channel so: a loss must not become finite again."""
    shape = (2, 64, 7, 5)
    modules = [KINDS[kind](64).to(DEVICE)] + (
        [fused.NormLater(64).to(DEVICE)] if kind == "add-normed" else []
    )
    tensors = [
        torch.randn(*shape, device=DEVICE, dtype=torch.float16) for _ in range(1 + kind.startswith("add"))
    ]
    tensors[0][1, 3, 2, 2] = float("nan")
    found = ours(kind, [tensor.contiguous(memory_format=torch.channels_last) for tensor in tensors], modules)
    y = found[0] if isinstance(found, tuple) else found
    lost = torch.isnan(y).flatten(2).all(2).all(0)
    right = bool(lost[3]) and int(lost.sum()) == 1
    print(kind, "not a number", "" if right else "WRONG")
    return right


def main() -> int:
    torch.backends.cudnn.allow_tf32 = False
    shapes = SMALL if DEVICE == "cpu" else SMALL + LARGE
    types = [torch.float32, torch.float16] if DEVICE == "cpu" else list(TOLERANCE)
    right = [
        check(kind, shape, dtype, seed)
        for kind in KINDS
        for seed, shape in enumerate(shapes)
        for dtype in types
    ]
    right += [check_nan(kind) for kind in KINDS]
    sizes = [(2, 12, 10), (1, 224, 224)] if DEVICE == "cpu" else [(2, 12, 10), (64, 224, 224), (3, 160, 96)]
    right += [check_stem(*size, dtype) for size in sizes for dtype in types]
    if find_spec("cudnn") is not None:
        right += check_summed(torch.float16)
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
