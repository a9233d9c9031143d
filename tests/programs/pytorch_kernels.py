"""Our kernels against plain PyTorch in FP64, at many shapes: run by a Python that has PyTorch and Triton.

Exit code 0: alike. With TRITON_INTERPRET=1 on a CPU, else on the GPU.
"""

import os
import statistics
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "src" / "trainmark"))

import torch
from torch.nn import functional
from worker.backends.pytorch.collectives import Sent  # type: ignore[import-not-found]
from worker.backends.pytorch.loading import Normalise  # type: ignore[import-not-found]
from worker.core.outcomes import RunError  # type: ignore[import-not-found]
from worker.models.pytorch_image_classification import build_model  # type: ignore[import-not-found]
from worker.pytorch_fast.half_grad_sgd import FusedCheckScaler, HalfGradSGD  # type: ignore[import-not-found]
from worker.pytorch_fast.images import fused_resnet as fused  # type: ignore[import-not-found]
from worker.pytorch_fast.kernels.positions import (  # type: ignore[import-not-found]
    quarter_of,
    whole_of,
)
from worker.pytorch_fast.kernels.resample import resampled  # type: ignore[import-not-found]
from worker.pytorch_fast.kernels.update import has_copy  # type: ignore[import-not-found]

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


def with_sums(tensor: Any) -> Any:
    """Return a tensor that has come out of a convolution which sums up: an alias, so that gradients go on."""
    alias, rows = tensor.view_as(tensor), tensor.detach().float().transpose(0, 1).flatten(1)
    alias.sums = torch.stack([rows.sum(1), (rows * rows).sum(1)])
    return alias


def check(
    kind: str, shape: tuple[int, ...], dtype: Any, seed: int, summed: str = "", quartered: bool = False
) -> bool:
    """``summed``: the convolutions' sums are there, and are concluded "apart" or "folded" into the next pass."""
    generator = torch.Generator(DEVICE).manual_seed(seed)

    def draw(*size: int) -> Any:
        return torch.randn(*size, generator=generator, device=DEVICE)

    channels = shape[1]
    modules = [KINDS[kind](channels).to(DEVICE)] + (
        [fused.NormLater(channels).to(DEVICE)] if kind == "add-normed" else []
    )
    modules[0].folded, modules[0].quartered = summed == "folded", quartered
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
    inputs = [with_sums(tensor) for tensor in own] if summed else own
    if summed and kind == "add":
        inputs[1] = own[1]
    found = ours(kind, inputs, modules)
    twice = isinstance(found, tuple)
    y = found[0] if twice else found
    # Where ReLU or the maximum is decided by rounding alone the two may rightly differ: leave those positions out.
    outputs = list(found) if twice else [found]
    gradients = given if twice else given[:1]
    if quartered:
        # Elsewhere nothing comes from the shortcut.
        given[1] = quarter_of(given[1]).contiguous(memory_format=torch.channels_last)
        assert outputs[1].shape == given[1].shape, outputs[1].shape
        assert torch.equal(whole_of(outputs[1]), outputs[0])
    torch.autograd.backward(outputs, gradients)
    if quartered:
        given[1], small = torch.zeros_like(given[0]), given[1]
        given[1][:, :, ::2, ::2] = small
    mine = [tensor.grad for tensor in own] + [p.grad.clone() for m in modules for p in m.parameters()]
    for module in modules:
        module.zero_grad()
    total = sum(gradient.double() for gradient in gradients)
    wanted.backward(total)
    right = [tensor.grad for tensor in exact] + [p.grad.clone() for m in modules for p in m.parameters()]
    limit = TOLERANCE[dtype]
    distances = {"y": apart(y, wanted)}
    distances.update({f"gradient {i}": apart(a, b) for i, (a, b) in enumerate(zip(mine, right, strict=True))})
    for module, tensor in zip(modules, drawn, strict=False):
        rows = tensor.double().transpose(0, 1).flatten(1)
        distances[f"running mean {len(distances)}"] = apart(module.running_mean, 0.1 * rows.mean(1))
        distances[f"running var {len(distances)}"] = apart(module.running_var, 0.9 + 0.1 * rows.var(1))
        assert int(module.num_batches_tracked) == 1
    # Within a rounding of zero ReLU may cut one and not the other: some positions of a million, each wholly apart.
    allowed = {name: max(10 * limit, 2e-3) if "gradient" in name else limit for name in distances}
    wrong = {name: value for name, value in distances.items() if not value <= allowed[name]}
    print(
        kind,
        shape,
        str(dtype)[6:],
        summed,
        "quartered" if quartered else "",
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


def check_resample(dtype: Any, nhwc: bool) -> bool:
    """Cropping, scaling, mirroring and normalising a batch of images of several sizes, bit for bit where it can be."""
    torch.manual_seed(2)
    sizes = ((37, 53), (20, 90), (640, 480), (64, 64), (5, 9))
    crops = [(3, 5, 30, 40, 0), (0, 10, 20, 21, 1), (1, 2, 630, 470, 1), (0, 0, 64, 64, 1), (2, 3, 1, 1, 0)]
    images = [torch.randint(0, 256, (3, *size), dtype=torch.uint8, device=DEVICE) for size in sizes]
    # As a GPU decodes them, and in part as a CPU does: a pixel's colours beside each other.
    images[1:4] = [image.permute(1, 2, 0).contiguous().permute(2, 0, 1) for image in images[1:4]]
    wanted = torch.empty((len(sizes), 3, 24, 24), device=DEVICE)
    for row, (image, (top, left, height, width, mirrored)) in enumerate(zip(images, crops, strict=True)):
        part = image[None, :, top : top + height, left : left + width].float()
        scaled = functional.interpolate(part, size=(24, 24), mode="bilinear", antialias=False)[0]
        wanted[row] = scaled.flip(2) if mirrored else scaled
    wanted = Normalise(torch.device(DEVICE), dtype, "nhwc" if nhwc else "nchw").planes(wanted)
    found = resampled(images, crops, 24, dtype, nhwc)
    distance = apart(found, wanted)
    wrong = "" if distance <= TOLERANCE[dtype] and found.stride() == wanted.stride() else "WRONG"
    print("resample", "nhwc" if nhwc else "nchw", str(dtype)[6:], "max", f"{distance:.1e}", wrong)
    return not wrong


def check_refusal() -> bool:
    """What cuDNN has no kernel for is a run's outcome, which says what was asked for."""
    conv = fused.SummedConv(3, 5, 1, bias=False).to(DEVICE, torch.float16)
    conv = conv.to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 5, 5, device=DEVICE, dtype=torch.float16).contiguous(
        memory_format=torch.channels_last
    )
    try:
        conv(x)
        said = "it was computed"
    except RunError as error:
        said = f"{error.outcome}: {error}"
    right = said.startswith("unsupported") and "(5, 3, 1, 1)" in said
    print("refused:", said, "" if right else "WRONG")
    return right


def check_parts() -> bool:
    """A batch whose tensors are too large for cuDNN's indexes goes through in parts."""
    from worker.pytorch_fast.kernels import summed  # type: ignore[import-not-found]

    most, summed.MOST_ELEMENTS = summed.MOST_ELEMENTS, 10 * 28 * 28 * 256
    try:
        conv = fused.SummedConv(64, 256, 1, bias=False)
        return check_convolution("summed in parts", conv, (32, 64, 28, 28), torch.float16)
    finally:
        summed.MOST_ELEMENTS = most


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


def check_quarter(dtype: Any) -> list[bool]:
    """A shortcut of stride 2 that is given the positions it reads."""
    right = []
    for summed in (False, True) if find_spec("cudnn") is not None and dtype == torch.float16 else (False,):
        for shape in ((2, 64, 7, 5), (3, 32, 8, 6)) + (() if DEVICE == "cpu" else ((64, 256, 56, 56),)):
            torch.manual_seed(2)
            kind = fused.SummedConv if summed else fused.NarrowConv
            conv = (
                kind(shape[1], 128, 1, stride=2, bias=False)
                .to(DEVICE, dtype)
                .to(memory_format=torch.channels_last)
            )
            conv.quarter = True
            x = torch.randn(*shape, device=DEVICE).to(dtype).contiguous(memory_format=torch.channels_last)
            given = quarter_of(x.clone(memory_format=torch.preserve_format)).detach().requires_grad_()
            exact, weight = x.double().requires_grad_(), conv.weight.detach().double().requires_grad_()
            wanted = functional.conv2d(exact, weight, stride=2)
            found = conv(given)
            dy = (
                torch.randn(wanted.shape, device=DEVICE)
                .to(dtype)
                .contiguous(memory_format=torch.channels_last)
            )
            found.backward(dy)
            wanted.backward(dy.double())
            distances = {
                "y": apart(found, wanted),
                "weight": apart(conv.weight.grad, weight.grad),
                "x": apart(given.grad, quarter_of(exact.grad)),
            }
            wrong = {name: value for name, value in distances.items() if not value <= TOLERANCE[dtype]}
            print(
                "quarter",
                shape,
                str(dtype)[6:],
                "summed" if summed else "",
                "WRONG" if wrong else "",
                wrong or "",
            )
            right.append(not wrong)
    return right


def check_update(
    kind: Any, scaled: bool, classes: int, copied: bool = True, read: str = "as autograd leaves them"
) -> bool:
    """Some steps of the update against torch's own SGD and scaler; in one of them a gradient overflows.

    ``copied``: weights have copies. Gradients that travelled are read from buffers, ``in 16 bits`` or in ``own types``.
    """
    torch.manual_seed(3)
    sizes = [(64, 3, 7, 7), (64, 32, 1, 1), (48, 16, 3, 3), (classes, 64)]
    narrow = [torch.randn(*size, device=DEVICE) for size in sizes]
    narrow = [w.contiguous(memory_format=torch.channels_last) if w.dim() == 4 else w for w in narrow]
    wide = [torch.randn(size, device=DEVICE) for size in (64, 7, classes, 5000)]
    own = [torch.nn.Parameter(w.clone(memory_format=torch.preserve_format)) for w in narrow + wide]
    theirs = [torch.nn.Parameter(w.clone(memory_format=torch.preserve_format)) for w in narrow + wide]
    recipe = SimpleNamespace(learning_rate=0.1, momentum=0.875)
    has = [p for p in own[: len(narrow)] if has_copy(p) and copied]
    groups = [(own[: len(narrow)], 0.05), (own[len(narrow) :], 0.0)]
    ours = HalfGradSGD(groups, recipe, has, kind)
    plain = torch.optim.SGD(
        [{"params": theirs[: len(narrow)], "weight_decay": 0.05}, {"params": theirs[len(narrow) :]}],
        lr=0.1,
        momentum=0.875,
    )
    options = {"init_scale": 1024.0, "growth_interval": 2, "enabled": scaled}
    ourscaler = FusedCheckScaler(DEVICE, **options)
    plainscaler = torch.amp.GradScaler(DEVICE, **options)
    copy_of = {id(weight): copy for weight, copy in zip(has, ours.copies, strict=True)}
    sent = None
    if read != "as autograd leaves them":
        sent = Sent(ours.leaves, 1, kind if read == "in 16 bits" else None)
        ours.read_always(sent.views)
    worst, equal = 0.0, True
    for step in range(6):
        lost = step in (2, 5) and scaled
        for rate in (ours.param_groups, plain.param_groups):
            for group in rate:
                group["lr"] = 0.1 / (step + 1)
        before = [p.detach().clone() for p in own]
        ourscaler.scale(torch.zeros((), device=DEVICE))
        scale = plainscaler.scale(torch.ones((), device=DEVICE))
        for number, (mine, other) in enumerate(zip(own, theirs, strict=True)):
            leaf = copy_of.get(id(mine), mine)
            arrives = leaf.dtype if sent is None else sent.views[number].dtype
            gradient = (torch.randn_like(leaf, dtype=torch.float32) * scale).to(arrives)
            # In a copy's last element, then in a parameter that has none.
            if lost and number == (1 if step == 2 else len(own) - 1):
                gradient.flatten()[-1] = float("inf") if step == 2 else float("nan")
                gradient.view(-1)[-1] = float("inf") if step == 2 else float("nan")
            other.grad = gradient.float()
            if sent is None:
                leaf.grad = gradient
            else:
                sent.views[number].copy_(gradient)
        ourscaler.step(ours)
        plainscaler.step(plain)
        ourscaler.update()
        plainscaler.update()
        ours.zero_grad()
        equal &= ourscaler.get_scale() == plainscaler.get_scale()
        if lost:
            equal &= all(torch.equal(mine, old) for mine, old in zip(own, before, strict=True))
        for mine, other in zip(own, theirs, strict=True):
            worst = max(
                worst,
                apart(mine, other),
                apart(ours.state[mine]["momentum_buffer"], momentum_of(plain, other)),
            )
            equal &= id(mine) not in copy_of or torch.equal(copy_of[id(mine)], mine.detach().to(kind))
    with torch.no_grad():
        own[0].fill_(0.3)
    ours.renew()
    equal &= not copied or torch.equal(ours.copies[0], own[0].detach().to(kind))
    right = equal and worst < 1e-6
    print(
        "update",
        str(kind)[6:],
        "scaled" if scaled else "",
        "copied" if copied else "",
        read,
        f"{worst:.1e}",
        "" if right else f"WRONG {equal}",
    )
    return right


def momentum_of(optimizer: Any, parameter: Any) -> Any:
    return optimizer.state[parameter].get("momentum_buffer", torch.zeros_like(parameter))


def check_network(dtype: Any) -> bool:
    """The whole network with all stages against the plain one of the same weights: logits, gradients, statistics."""
    torch.manual_seed(4)
    plain = build_model("resnet50_v1.5", 16).to(DEVICE).to(memory_format=torch.channels_last)
    network = fused.FusedResNet50(16, find_spec("cudnn") is not None)
    network = network.to(DEVICE).to(memory_format=torch.channels_last)
    for mine, other in zip(network.parameters(), plain.parameters(), strict=True):
        mine.data.copy_(other.data)
    batch, side = (3, 72) if DEVICE == "cpu" else (32, 96)
    images = torch.randn(batch, 3, side, side, device=DEVICE).contiguous(memory_format=torch.channels_last)
    exact = build_model("resnet50_v1.5", 16).to(DEVICE).double()
    for mine, other in zip(exact.parameters(), plain.parameters(), strict=True):
        mine.data.copy_(other.data)
    far = []
    for model in (plain, network):
        with torch.autocast(DEVICE, dtype=dtype, enabled=dtype != torch.float32):
            logits = model(images).float()
        (logits.square().mean() * 128).backward()
        far.append((model, logits))
    wanted = exact(images.double())
    (wanted.square().mean() * 128).backward()
    distances = {}
    for name, (model, logits) in zip(("plain", "fused"), far, strict=True):
        parts = zip(model.parameters(), exact.parameters(), strict=True)
        apart_by = [apart(mine.grad, other.grad) for mine, other in parts]
        stats = [
            apart(a, b)
            for a, b in zip(model.buffers(), exact.buffers(), strict=True)
            if a.is_floating_point()
        ]
        distances[name] = (apart(logits, wanted), statistics.median(apart_by), max(apart_by), max(stats))
    right = all(
        mine <= 2 * theirs + 1e-5 for mine, theirs in zip(distances["fused"], distances["plain"], strict=True)
    )
    told = {name: " ".join(f"{value:.1e}" for value in values) for name, values in distances.items()}
    print("network", str(dtype)[6:], told, "" if right else "WRONG")
    return right


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


def check_stages() -> list[bool]:
    """What ``stages.py`` names."""
    some = [((2, 64, 7, 5), 0), ((3, 24, 9, 9), 1), ((2, 200, 4, 3), 2)]
    some += [] if DEVICE == "cpu" else [((256, 256, 56, 56), 3), ((37, 512, 28, 28), 4)]
    right = [
        check(kind, shape, torch.float16, seed, summed, quartered)
        for kind in ("cut", "add", "add-normed")
        for shape, seed in some
        for summed in ("apart", "folded")
        for quartered in ((False, True) if kind != "cut" and summed == "folded" else (False,))
    ]
    # The interpreter rounds to BF16 as no GPU does.
    halves = [torch.float16] if DEVICE == "cpu" else [torch.float16, torch.bfloat16]
    right += [done for dtype in (torch.float32, *halves) for done in check_quarter(dtype)]
    right += [check_update(kind, scaled, 10) for kind in halves for scaled in (True, False)]
    right += [
        check_update(kind, True, 10, copied, read)
        for kind in halves
        for copied, read in ((True, "in 16 bits"), (True, "in own types"), (False, "in 16 bits"))
    ]
    right += [check_network(torch.float32)]
    return right + ([] if DEVICE == "cpu" else [check_network(dtype) for dtype in halves])


def check_kernels() -> list[bool]:
    """The kernels one by one, without the stages."""
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
    right += [check_resample(dtype, nhwc) for dtype in types for nhwc in (True, False)]
    if find_spec("cudnn") is not None:
        right += [*check_summed(torch.float16), check_parts(), check_refusal()]
    return right


def main() -> int:
    torch.backends.cudnn.allow_tf32 = False
    right = check_stages()
    if "stages" not in sys.argv[1:]:
        right += check_kernels()
    print(sum(right), "of", len(right), "right")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
