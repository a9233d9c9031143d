r"""The worker's step beside the public programs of the same step, in turn on one machine: who is how fast.

Run it with a Python that has PyTorch; what else it lacks (torchvision, timm, JAX) is said and left out:

    PYTHON benchmarks/peers.py --device cuda --precision amp-fp16 --batch 256 --rounds 10 --json peers.json
    PYTHON benchmarks/peers.py --device cpu --precision fp32 --batch 8 --image-size 64 --steps 2 \
        --only trainmark-none trainmark-compile

Each contestant is a process of its own, which builds its network, compiles, warms up and then waits; all stay on the
device together. In each round each of them trains one block of steps while the others wait, in an order drawn anew from
``--seed``. Printed are each one's median rate and the median of its ratios to the reference round by round, with 95 %
intervals by order statistics (see ``overhead.py``). The networks have the same number of parameters, or the
contestant is left out. torchvision and timm train as their own documentation and scripts write it: SGD with momentum,
label smoothing as the worker's recipe, ``channels_last``, autocast with a gradient scaler in FP16; beside that with
torch's fused SGD, and with the whole step as one CUDA graph.
"""

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import random
import runpy
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from overhead import START, measured_block, median_interval

PARAMETERS = 25_557_032
"""Of ResNet-50 v1.5 with 1000 classes."""

WARM_UP_BLOCKS = 2
LEAST_ROUNDS = 6
"""For an interval of a median with 95 % confidence."""


class Step(NamedTuple):
    """A contestant's steps in blocks; ``parameters`` are the network's, ``memory`` tells the most bytes in use."""

    block: Callable[[int], float]
    parameters: int
    versions: Mapping[str, str]
    memory: Callable[[], int]


class Contestant(NamedTuple):
    """A program of the step; ``reference`` is what it is called in other tables."""

    opened_by: Callable[[argparse.Namespace], Step]
    needs: tuple[str, ...] = ()
    device: str | None = None
    precisions: tuple[str, ...] = ()


def ours(framework: str, compiler: str) -> Callable[[argparse.Namespace], Step]:
    """Return what opens a worker of trainmark's."""

    def opened(own: argparse.Namespace) -> Step:
        runpy.run_path(str(START))
        arguments = importlib.import_module("trainmark_worker.core.arguments")
        place = importlib.import_module("trainmark_worker.core.place").place_from({})
        flags = [
            f"--framework={framework}", f"--compiler={compiler}", f"--precision={own.precision}", "--layout=nhwc",
            "--model=resnet50_v1.5", f"--batch-per-device={own.batch}", f"--image-size={own.image_size}",
            f"--device={own.device}", f"--steps={own.steps + 1}", "--warmup-steps=1", "--seed=0",
        ]  # fmt: skip
        room = importlib.import_module(f"trainmark_worker.{framework}.image_classification")
        training = room.open_training(arguments.parse(flags, 1), place)
        told = training.describe()
        return Step(
            lambda steps: measured_block(training, steps),
            told["parameters"],
            {framework: told["framework_version"], "device": told["device_name"]},
            training.peak_memory_bytes,
        )

    return opened


def theirs(
    package: str, compiled: str | None, fused: bool = False, recorded: bool = False
) -> Callable[[argparse.Namespace], Step]:
    """Return what opens the network of torchvision or timm in the loop that a user would write.

    ``fused``: with torch's fused SGD; ``recorded``: the whole step as one CUDA graph, as an expert would have it.
    """

    def opened(own: argparse.Namespace) -> Step:
        import torch

        device = torch.device(own.device)
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = own.precision == "tf32"
        if package == "timm":
            model = importlib.import_module("timm").create_model("resnet50")
        else:
            model = importlib.import_module("torchvision").models.resnet50()
        model = model.to(device, memory_format=torch.channels_last).train()
        network = model if compiled is None else torch.compile(model, mode=compiled)
        kind = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}.get(own.precision)
        size = (own.batch, 3, own.image_size, own.image_size)
        images = torch.randn(size, device=device, dtype=kind or torch.float32)
        images = images.contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (own.batch,), device=device)
        loss_of = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
        rate = torch.tensor(1e-3, device=device) if recorded else 1e-3
        optimizer = torch.optim.SGD(
            model.parameters(), lr=rate, momentum=0.875, weight_decay=1e-4, fused=fused or None
        )
        scaler = torch.amp.GradScaler(device.type, enabled=own.precision == "amp-fp16")

        def wait() -> None:
            if device.type == "cuda":
                torch.cuda.synchronize()

        def step() -> None:
            with torch.autocast(device.type, dtype=kind, enabled=kind is not None):
                loss = loss_of(network(images), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)

        if recorded:
            aside = torch.cuda.Stream()
            with torch.cuda.stream(aside):
                for _ in range(3):
                    step()
            wait()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=aside):
                step()
        once = graph.replay if recorded else step

        def block(steps: int) -> float:
            wait()
            started = time.perf_counter()
            for _ in range(steps):
                once()
            wait()
            return time.perf_counter() - started

        parameters = sum(parameter.numel() for parameter in model.parameters())
        versions = {package: importlib.metadata.version(package), "torch": torch.__version__}
        return Step(
            block,
            parameters,
            versions,
            lambda: torch.cuda.max_memory_allocated() if device.type == "cuda" else 0,
        )

    return opened


FP16 = ("amp-fp16", "fp16")

CONTESTANTS: dict[str, Contestant] = {
    "trainmark-fused-cudnn": Contestant(ours("pytorch", "fused-cudnn"), ("torch", "cudnn"), "cuda", FP16),
    "trainmark-fused": Contestant(ours("pytorch", "fused"), ("torch",), "cuda"),
    "trainmark-compile": Contestant(ours("pytorch", "torch.compile"), ("torch",)),
    "trainmark-none": Contestant(ours("pytorch", "none"), ("torch",)),
    "trainmark-jax": Contestant(ours("jax", "xla"), ("jax", "flax")),
    "torchvision-eager": Contestant(theirs("torchvision", None), ("torchvision",)),
    "torchvision-compile": Contestant(theirs("torchvision", "default"), ("torchvision",)),
    "torchvision-reduce-overhead": Contestant(
        theirs("torchvision", "reduce-overhead"), ("torchvision",), "cuda"
    ),
    "torchvision-fused-sgd": Contestant(theirs("torchvision", "default", fused=True), ("torchvision",)),
    "torchvision-graph": Contestant(
        theirs("torchvision", "default", fused=True, recorded=True), ("torchvision",), "cuda"
    ),
    "timm-compile": Contestant(theirs("timm", "default"), ("timm",)),
}


def main() -> int:
    own = _arguments()
    if own.contestant:
        return _contend(own)
    ends = time.monotonic() + 60 * own.minutes
    running: dict[str, Running] = {}
    for name in own.only or CONTESTANTS:
        absent = _cannot(CONTESTANTS[name], own)
        if absent:
            print(f"{name}: left out, {absent}", flush=True)
            continue
        # One after the other: what compiles beside others is measured by nobody, but memory would not do.
        contestant = Running(name, own)
        if contestant.told.get("parameters") != PARAMETERS:
            print(
                f"{name}: left out, {contestant.told.get('error') or 'its network is another one'}",
                flush=True,
            )
            contestant.end()
            continue
        running[name] = contestant
        print(f"{name}: ready, {contestant.told['versions']}", flush=True)
    seconds = _rounds(running, own, ends)
    for contestant in running.values():
        contestant.end()
    return _tell(seconds, {name: one.told for name, one in running.items()}, own)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--precision", default="amp-fp16", help="fp32, tf32, amp-fp16 or amp-bf16")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=40, help="of one block")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no further round begins")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, metavar="NAME", help=", ".join(CONTESTANTS))
    parser.add_argument("--reference", help="what the ratios are to; the fastest that is not trainmark's")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the result goes too")
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    return parser.parse_args()


def _cannot(contestant: Contestant, own: argparse.Namespace) -> str | None:
    missing = [name for name in contestant.needs if importlib.util.find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed here"
    if contestant.device not in (None, own.device):
        return f"it needs {contestant.device}"
    if contestant.precisions and own.precision not in contestant.precisions:
        return f"it has no {own.precision}"
    return None


class Running:
    """A contestant's process: ready once it is made; ``block`` lets it train."""

    def __init__(self, name: str, own: argparse.Namespace) -> None:
        self.name = name
        words = [sys.executable, __file__, f"--contestant={name}"]
        words += [f"--{key}={vars(own)[key.replace('-', '_')]}" for key in ("device", "precision", "batch")]
        words += [f"--image-size={own.image_size}", f"--steps={own.steps}"]
        # All are on the device together, and JAX would take three quarters of it.
        share = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.2"}
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=share | os.environ
        )
        self.told: dict[str, Any] = self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Frameworks print what they like.
            if line.startswith("{"):
                told: dict[str, Any] = json.loads(line)
                return told
        return {"error": f"it ended with exit code {self._process.wait()}"}

    def block(self) -> float:
        """Return the seconds of one block."""
        assert self._process.stdin is not None
        print("block", file=self._process.stdin, flush=True)
        told = self._line()
        if "seconds" not in told:
            raise SystemExit(f"peers: {self.name}: {told['error']}")
        return float(told["seconds"])

    def end(self) -> None:
        """Let the process end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _contend(own: argparse.Namespace) -> int:
    step = CONTESTANTS[own.contestant].opened_by(own)
    for _ in range(WARM_UP_BLOCKS):
        step.block(own.steps)
    told = {"parameters": step.parameters, "versions": dict(step.versions), "memory_bytes": step.memory()}
    print(json.dumps(told), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"seconds": step.block(own.steps)}), flush=True)
    return 0


def _rounds(running: dict[str, Running], own: argparse.Namespace, ends: float) -> dict[str, list[float]]:
    """Return the seconds of each one's blocks, a block a round."""
    order = random.Random(own.seed)
    seconds: dict[str, list[float]] = {name: [] for name in running}
    for number in range(own.rounds):
        if number and time.monotonic() > ends:
            print(f"{number} of {own.rounds} rounds: the time is over", flush=True)
            break
        for name in order.sample(list(running), len(running)):
            seconds[name].append(running[name].block())
    return seconds


def _tell(seconds: dict[str, list[float]], told: dict[str, dict[str, Any]], own: argparse.Namespace) -> int:
    if not seconds:
        print("peers: nobody can train here", file=sys.stderr)
        return 1
    images = own.batch * own.steps
    others = [name for name in seconds if not name.startswith("trainmark")] or list(seconds)
    reference = own.reference or min(others, key=lambda name: statistics.median(seconds[name]))
    rows = []
    for name, blocks in sorted(seconds.items(), key=lambda item: statistics.median(item[1])):
        ratios = [theirs_s / own_s for theirs_s, own_s in zip(seconds[reference], blocks, strict=True)]
        rates = [images / block for block in blocks]
        rows.append(
            {
                "name": name,
                "images_per_s": statistics.median(rates),
                "interval_95": _interval(rates),
                "ratio": statistics.median(ratios),
                "ratio_interval_95": _interval(ratios),
                "memory_bytes": told[name]["memory_bytes"],
                "versions": told[name]["versions"],
            }
        )
    result = {
        "reference": reference,
        **{key: getattr(own, key) for key in ("precision", "batch", "image_size", "steps", "seed")},
        "rounds": len(seconds[reference]),
        "rows": rows,
    }
    if own.json:
        own.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(
        f"{own.precision}, batch {own.batch}, {result['rounds']} rounds of {own.steps} steps; ratio to {reference}"
    )
    for row in rows:
        print(
            f"{row['name']:<28} {row['images_per_s']:9.1f} {_spoken(row['interval_95'], 1)} images/s   "
            f"{row['ratio']:.3f} {_spoken(row['ratio_interval_95'], 3)}   {row['memory_bytes'] / 2**30:6.2f} GiB"
        )
    return 0


def _interval(values: list[float]) -> tuple[float, float] | None:
    return median_interval(values) if len(values) >= LEAST_ROUNDS else None


def _spoken(interval: tuple[float, float] | None, digits: int) -> str:
    if interval is None:
        return "[too few rounds for an interval]"
    return f"[{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"


if __name__ == "__main__":
    sys.exit(main())
