"""The worker against the public program of the same step: torchvision's ResNet-50 in the loop of its documentation.

Run it with the Python of an environment that has PyTorch and torchvision; it needs nothing else:

    PYTHON benchmarks/peer.py --device cuda --batch-per-device 256 --precision amp-bf16 --layout nhwc

The worker builds its own network, so a mistake in it could make it slow, or make it fast by leaving work out. Here
torchvision's model trains beside it in one process, on the same batch, in the same precision, layout and compiler,
with ``torch.optim.SGD`` as a user would write it. Both have the same parameters, or the benchmark ends. Blocks of steps
alternate as worker, peer, peer, worker; each round gives one ratio of their throughputs. Printed are the median ratio
and its 95 % interval (see ``overhead.py``). There is no budget: a ratio far from 1 asks for an explanation.
"""

import argparse
import gc
import importlib
import json
import runpy
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from overhead import START, measured_block, median_interval


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30, help="of worker, peer, peer, worker (default: 30)")
    parser.add_argument("--block-steps", type=int, default=20, help="steps of one block (default: 20)")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    own, worker_flags = parser.parse_known_args()

    runpy.run_path(str(START))
    arguments = importlib.import_module("trainmark_worker.core.arguments")
    place = importlib.import_module("trainmark_worker.core.place").place_from({})
    flags = ["--framework=pytorch", *worker_flags, f"--steps={own.block_steps + 1}", "--warmup-steps=1"]
    settings = arguments.parse(flags, 1)
    if settings.model != "resnet50_v1.5":
        raise SystemExit("peer: torchvision has the same network for --model resnet50_v1.5 alone")
    training = importlib.import_module("trainmark_worker.models.pytorch_image_classification").open_training(
        settings, place
    )
    step_of_peer = open_peer(training, settings)

    for _ in range(2):
        measured_block(training, own.block_steps)
        peer_block(training, step_of_peer, own.block_steps)
    training.actual()
    gc.collect()
    gc.freeze()
    gc.disable()
    ratios, worker_s, peer_s = [], [], []
    for _ in range(own.rounds):
        first = measured_block(training, own.block_steps)
        second = peer_block(training, step_of_peer, own.block_steps)
        third = peer_block(training, step_of_peer, own.block_steps)
        fourth = measured_block(training, own.block_steps)
        ratios.append((second + third) / (first + fourth))
        worker_s += [first, fourth]
        peer_s += [second, third]
    tell(own, settings, training, ratios, worker_s, peer_s)
    return 0


def open_peer(training: Any, settings: Any) -> Callable[[], None]:
    """Return one step of torchvision's network on the worker's batch."""
    import torch
    import torchvision

    images, labels = training.batch
    model = torchvision.models.resnet50(num_classes=settings.classes).to(images.device)
    if settings.layout == "nhwc":
        model = model.to(memory_format=torch.channels_last)
    theirs = sum(parameter.numel() for parameter in model.parameters())
    ours = training.describe()["parameters"]
    if theirs != ours:
        raise SystemExit(f"peer: torchvision's network has {theirs} parameters, the worker's {ours}")
    if settings.compiler == "torch.compile":
        model = torch.compile(model)
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=settings.recipe.label_smoothing)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=1e-3, momentum=settings.recipe.momentum, weight_decay=1e-4
    )
    scaler, autocast = training.scaler, training.autocast

    def step() -> None:
        with autocast:
            loss = loss_of(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    return step


def peer_block(training: Any, step: Callable[[], None], steps: int) -> float:
    """Return the seconds of ``steps`` steps of the peer."""
    training.synchronize()
    started = time.perf_counter()
    for _ in range(steps):
        step()
    training.synchronize()
    return time.perf_counter() - started


def tell(
    own: argparse.Namespace,
    settings: Any,
    training: Any,
    ratios: list[float],
    worker_s: list[float],
    peer_s: list[float],
) -> None:
    import torchvision

    low, high = median_interval(ratios)
    described = training.describe()
    images = settings.batch_per_device * own.block_steps
    result = {
        "ratio": statistics.median(ratios),
        "interval_95": [low, high],
        "worker_images_per_s": images / statistics.median(worker_s),
        "peer_images_per_s": images / statistics.median(peer_s),
        "peer": f"torchvision {torchvision.__version__}",
        "rounds": own.rounds,
        "block_steps": own.block_steps,
        "device_name": described["device_name"],
        "framework_version": described["framework_version"],
        "precision": settings.precision,
        "layout": settings.layout,
        "compiler": settings.compiler,
        "batch_per_device": settings.batch_per_device,
    }
    if own.json:
        print(json.dumps(result))
        return
    print(
        f"{settings.model}, {settings.precision}, {settings.layout}, {settings.compiler}, "
        f"batch {settings.batch_per_device}, {result['device_name']}, PyTorch {described['framework_version']}"
    )
    print(f"worker       {result['worker_images_per_s']:.1f} images/s")
    print(f"{result['peer']:<12} {result['peer_images_per_s']:.1f} images/s")
    print(f"worker/peer  {result['ratio']:.4f}, 95 % interval {low:.4f} to {high:.4f} ({own.rounds} rounds)")


if __name__ == "__main__":
    sys.exit(main())
