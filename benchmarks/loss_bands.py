r"""Equal work of FP8 and FSDP2 shown by loss curves: 300 steps on the same tokens, beside BF16 and beside mistakes.

    PYTHON benchmarks/loss_bands.py --json bands.json
    PYTHON benchmarks/loss_bands.py --model llama_tiny --length 64 --device cpu --precision fp32 --only …

Every run begins with the same weights (of its seed) and reads the same batches of a made text: a word is one of a few
that follow the one before, or any of 256 by Zipf's law, so that the loss falls early and evenly. A curve is the mean
loss of each 25 steps. Its deviation from BF16's curve of the same seed is the mean over the parts, relative; the first
25 steps do not count.

The band is three times the largest deviation of a run that is known to be right and rounds differently (BF16 without a
compiler, BF16 by FSDP2), but at least 0.2 %. FP8 must be inside for each seed, and every planted mistake outside:

``rate``: the learning rate 20 % higher; ``momentum``: 0.8 instead of 0.9; ``unscaled``: numbers are cast to FP8 without
scales; ``unscaled-gradient``: the gradient of a product's input has one scale for all rows; ``repeated``: every second
batch is the one before.
"""

import argparse
import gc
import importlib
import json
import math
import runpy
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from overhead import START

PART, LEAST, TIMES = 25, 0.002, 3.0
WORDS, NEXT, FREE = 256, 4, 0.3

HONEST = ("bf16-eager", "bf16-fsdp2")

MISTAKES = ("rate", "unscaled", "repeated", "unscaled-gradient", "momentum")


def main() -> int:
    """Train, and return 1 if a run is on the wrong side of the band."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="llama3.2_1b")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only", nargs="*", help="of the runs besides bf16")
    parser.add_argument("--minutes", type=float, default=60, help="start no run after that")
    parser.add_argument("--json", type=Path)
    own = parser.parse_args()
    runpy.run_path(str(START))
    curves: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        own.data = write_text(own, Path(folder))
        begun = time.monotonic()
        for name, seed in runs(own):
            started = time.monotonic()
            if started - begun > 60 * own.minutes:
                print(f"{name}-{seed}: no time is left for it")
                continue
            curves[f"{name}-{seed}"] = parts(trained(own, name, seed))
            print(
                f"{name}-{seed}: {time.monotonic() - started:.0f} s",
                [round(x, 4) for x in curves[f"{name}-{seed}"]],
                flush=True,
            )
    return tell(own, curves)


def runs(own: argparse.Namespace) -> list[tuple[str, int]]:
    """Return the runs by name and seed: those that matter for several seeds, the others for the first."""
    first, *others = own.seeds
    names = ["bf16", *HONEST, "fp8", *MISTAKES, "fp8-fsdp2"]
    wanted = [(name, first) for name in names]
    wanted[6:6] = [(name, seed) for seed in others for name in ("bf16", "fp8")]
    return [one for one in wanted if own.only is None or one[0] in (*own.only, "bf16")]


def write_text(own: argparse.Namespace, folder: Path) -> str:
    """Write tokens for all steps, in which each word is followed by one of a few others."""
    import numpy as np

    described = importlib.import_module("trainmark_worker.tasks.causal_lm.architectures").ARCHITECTURES[
        own.model
    ]
    random = np.random.default_rng(7)
    words = min(WORDS, described.vocabulary)
    names = random.permutation(described.vocabulary)[:words]
    follows = random.integers(words, size=(words, NEXT))
    odds = np.cumsum(1 / np.arange(1, NEXT + 1))
    count = (own.steps + 8) * own.batch * own.length + 1
    draws = np.searchsorted(odds / odds[-1], random.random(count))
    zipf = np.cumsum(1 / np.arange(1, words + 1))
    others, free = np.searchsorted(zipf / zipf[-1], random.random(count)), random.random(count) < FREE
    tokens, word = np.empty(count, np.uint32), 0
    for index, draw in enumerate(draws):
        word = others[index] if free[index] else follows[word, draw]
        tokens[index] = names[word]
    tokens.tofile(folder / "train.bin")
    told = {"type": "uint32", "vocabulary": described.vocabulary, "spec": {"tokens": len(tokens)}}
    (folder / "dataset.json").write_text(json.dumps(told), encoding="utf-8")
    return str(folder)


def trained(own: argparse.Namespace, name: str, seed: int) -> list[float]:
    """Return the losses of a run."""
    import torch
    import torch.distributed as dist

    scaled = importlib.import_module("trainmark_worker.pytorch_fast.scaled_linear")
    place = importlib.import_module("trainmark_worker.core.place").place_from({})
    torch._dynamo.reset()
    fp8 = name.startswith("fp8") or name.startswith("unscaled")
    compiled = own.device == "cuda" and name != "bf16-eager"
    flags = [
        "--framework=pytorch", f"--model={own.model}", f"--sequence-length={own.length}", f"--device={own.device}",
        f"--batch-per-device={own.batch}", f"--steps={own.steps}", "--warmup-steps=1", f"--seed={seed}",
        f"--data={own.data}", "--loader-workers=0", "--warmup-updates=30",
        f"--precision={'fp8' if fp8 else 'amp-bf16'}", f"--compiler={'torch.compile-fused' if compiled else 'none'}",
        *(["--parallel=fsdp2"] if name.endswith("fsdp2") else []),
        *(["--learning-rate=3.6e-4"] if name == "rate" else []),
        *(["--momentum=0.8"] if name == "momentum" else []),
    ]  # fmt: skip
    settings = importlib.import_module("trainmark_worker.core.arguments").parse(flags, 1)
    restore = plant(scaled, name)
    try:
        trainer = importlib.import_module("trainmark_worker.models.pytorch_causal_lm")
        training = trainer.open_training(settings, place)
        for index in range(own.steps):
            before = training.batch
            training.step(index)
            if name == "repeated" and index % 2 == 0:
                training.batch = before
        training.synchronize()
        losses: list[float] = training.own_losses()[: own.steps]
        training.feed.close()
        if training._captured is not None:
            training._captured.release()
    finally:
        restore()
    del training
    gc.collect()
    if dist.is_initialized():
        dist.destroy_process_group()
    if own.device == "cuda":
        torch.cuda.empty_cache()
    return losses


def plant(scaled: Any, name: str) -> Callable[[], None]:
    """Plant a mistake in FP8's products, and return what takes it out again."""
    import torch

    both, multiply = scaled.quantize_both, scaled.multiply
    if name == "unscaled":

        def unscaled(x: Any) -> tuple[Any, ...]:
            rows, columns = x.shape
            first = torch.ones(rows, 1, device=x.device)
            second = torch.ones(columns, 1, device=x.device)
            limited = x.float().clamp(-448, 448)
            return limited.to(scaled.OPERAND), first, limited.t().contiguous().to(scaled.OPERAND), second

        scaled.quantize_both = unscaled
    if name == "unscaled-gradient":
        backward = scaled._Product.backward

        def wrong(ctx: Any, *gradients: Any) -> Any:
            columns, column_scales, turned, turned_scales = ctx.saved_tensors
            rows, row_scales, across, across_scales = both(gradients[0].contiguous())
            # Each row's scale replaced by the mean of all.
            mean = row_scales.mean().expand_as(row_scales).contiguous()
            of_input = multiply(rows, mean, turned, turned_scales)
            return of_input, multiply(across, across_scales, columns, column_scales), None

        scaled._Product.backward = staticmethod(wrong)

        def restore_backward() -> None:
            scaled._Product.backward = backward

        return restore_backward

    def restore() -> None:
        scaled.quantize_both = both

    return restore


def parts(losses: list[float]) -> list[float]:
    """Return the mean loss of each ``PART`` steps."""
    return [
        statistics.fmean(losses[start : start + PART]) for start in range(0, len(losses) - PART + 1, PART)
    ]


def deviation(curve: list[float], reference: list[float]) -> float:
    """Return the mean deviation of the parts from the reference's, relative; NaN counts as infinite."""
    offs = [abs(one / other - 1) for one, other in zip(curve[1:], reference[1:], strict=True)]
    mean = statistics.fmean(offs)
    return math.inf if math.isnan(mean) else mean


def tell(own: argparse.Namespace, curves: dict[str, list[float]]) -> int:
    """Print the band and each run's deviation; return 1 if a run is on the wrong side."""
    import torch

    seed = own.seeds[0]
    references = {f"bf16-{one}" for one in own.seeds}
    offs = {
        name: deviation(curve, curves[f"bf16-{name.rpartition('-')[2]}"])
        for name, curve in curves.items()
        if name not in references
    }
    band = max([LEAST, *(TIMES * offs[f"{name}-{seed}"] for name in HONEST if f"{name}-{seed}" in offs)])
    wrong = []
    for name, off in offs.items():
        kind = name.rpartition("-")[0]
        inside = off <= band
        if inside == (kind in MISTAKES):
            wrong.append(name)
        print(f"{name:24} {off:8.3%} {'inside' if inside else 'outside'} the band of {band:.3%}")
    between = None
    if len(own.seeds) > 1 and f"bf16-{own.seeds[1]}" in curves:
        between = deviation(curves[f"bf16-{own.seeds[1]}"], curves[f"bf16-{seed}"])
        print(f"BF16 of another seed     {between:8.3%}")
    if own.json:
        result = {
            "model": own.model, "length": own.length, "batch": own.batch, "steps": own.steps, "band": band,
            "deviations": offs, "between_seeds": between, "wrong": wrong, "curves": curves,
            "torch": torch.__version__, "date": time.strftime("%Y-%m-%d"), "command": " ".join(sys.argv),
            "device": torch.cuda.get_device_name() if own.device == "cuda" else "cpu",
        }  # fmt: skip
        own.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
