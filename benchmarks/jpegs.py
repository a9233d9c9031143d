r"""The bottleneck of the loader ``nvjpeg``: reading, decoding, and both next to the recorded step, in one process.

Run it with a Python that has PyTorch on an NVIDIA GPU, over a folder of JPEGs (``trainmark data make``):

    PYTHON benchmarks/jpegs.py photos/train --variant workers=14 --variant workers=14,by_host=0.0 \
        --variant workers=14,pinned=0 --json jpegs.json --trace trace.json
    CUDA_DEVICE_MAX_CONNECTIONS=8 PYTHON benchmarks/jpegs.py photos/train --variant workers=14

A variant is the loader of today but for what is named: ``ready`` batches that wait, ``workers`` processes that decode
the share ``by_host``, files in ``pinned`` memory or not. All train with the same recorded graph. CUDA's hardware queues
are those of the loader, or what the variable says. Printed of each: images/s of the loader alone, and beside the
training, and how long the host is in one call of the decoder; before them the images/s of the graph alone, and of the
processes alone. ``--trace`` keeps what the GPU and the driver did in six steps of the last variant.
"""

import argparse
import dataclasses
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contest import ours
from overhead import measured_block

LOADER = "trainmark_worker.pytorch_fast.images.nvjpeg_loader"
UNCHANGED = {"workers": 14, "by_host": None, "ready": 1, "pinned": 1}
FILL, DRAIN, STEPS = 15, 25, 110

AS_IT_IS: dict[tuple[Any, str], Any] = {}
"""The loader's own functions, which variants put others in the place of."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="a folder of JPEGs with a folder for each class")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--compiler", default="fused-cudnn", choices=("fused-cudnn", "fused", "cuda-graph"))
    parser.add_argument("--variant", action="append", type=variant, metavar="NAME=VALUE,…")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="for a viewer of Chrome's traces")
    own = parser.parse_args()
    own.device, own.steps = "cuda", 2 * STEPS

    flags = [
        f"--compiler={own.compiler}", "--precision=amp-fp16", "--layout=nhwc", "--model=resnet50_v1.5",
        f"--data={own.data}", "--loader=nvjpeg", "--loader-workers=8",
    ]  # fmt: skip
    training = ours("pytorch", "image_classification", flags, own)
    measured_block(training, 20)
    print(f"the graph alone: {graph_alone(training, own.batch):.0f} images/s", flush=True)
    for workers in (8, 14):
        print(f"{workers} processes alone: {reading_alone(training, workers):.0f} files/s", flush=True)
    found = []
    for requested in own.variant or [UNCHANGED]:
        training.feed.close()
        loader = Loader()
        training.feed = loader.opened(training, requested)
        found.append({**requested, **measured(training, own.batch, loader)})
        print(found[-1], flush=True)
        if own.json:
            own.json.write_text(json.dumps(found, indent=1) + "\n")
    if own.trace:
        keep_trace(training, own.trace)
    training.close()
    return 0


def variant(text: str) -> dict[str, Any]:
    """Return the settings of a variant: the current loader with the given changes."""
    found: dict[str, Any] = dict(UNCHANGED)
    for word in text.split(","):
        name, _, value = word.partition("=")
        if name not in found:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(found)}")
        found[name] = float(value) if name == "by_host" else int(value)
    if found["by_host"] == 1:
        raise argparse.ArgumentTypeError("by_host=1 leaves the decoder nothing to do")
    return found


def graph_alone(training: Any, batch: int) -> float:
    """Return the images/s of replays with nothing around them."""
    graph, _ = training._captured.recording

    def replays(count: int) -> float:
        training.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            graph.replay()
        training.synchronize()
        return time.perf_counter() - began

    replays(20)
    return batch * STEPS / replays(STEPS)


def reading_alone(training: Any, workers: int) -> float:
    """Return the files/s of the reading processes, of which nothing is decoded."""
    files = importlib.import_module(LOADER)
    queues = importlib.import_module("trainmark_worker.core.queues")
    read_images = importlib.import_module("trainmark_worker.tasks.image_classification.images").read_images
    settings = training.settings
    images = read_images(settings.data, settings.classes)
    share = queues.in_parts(settings.batch_per_device, workers, ahead=2)
    slots, batches = files.read_in_processes(images, settings, training.ranks.place, share, 0.0)
    for _ in range(30):
        files.unpack_parts(next(batches), slots)
    began = time.perf_counter()
    for _ in range(80):
        files.unpack_parts(next(batches), slots)
    return float(80 * settings.batch_per_device / (time.perf_counter() - began))


class Loader:
    """Opens the loader in a variant."""

    def __init__(self) -> None:
        self.decoding: list[float] = []
        """Seconds that the host spent in each call of the decoder."""
        self._feeds: Any = importlib.import_module(LOADER)
        self._decoder: Any = importlib.import_module("trainmark_worker.pytorch_fast.images.nvjpeg").Decoder
        self._slots: Any = importlib.import_module(LOADER).Slots
        for where, name in (
            (self._feeds, "by_processes"), (self._slots, "pin"), (self._slots, "unpin"), (self._decoder, "_call"),
        ):  # fmt: skip
            setattr(where, name, AS_IT_IS.setdefault((where, name), getattr(where, name)))

    def opened(self, training: Any, variant: dict[str, Any]) -> Any:
        """Return a feed."""
        self._feeds.READY = variant["ready"]
        if variant["by_host"] is not None:
            self._feeds.by_processes = lambda _: variant["by_host"]
        if not variant["pinned"]:
            self._slots.pin = self._slots.unpin = lambda _: None
        self._decoder._call = self._timed(self._decoder._call)
        return training.open_feed(dataclasses.replace(training.settings, loader_workers=variant["workers"]))

    def _timed(self, call: Callable[..., int]) -> Callable[..., int]:
        """Record the host's seconds in each decoding call."""

        def called(decoder: Any, name: str, *arguments: Any) -> int:
            began = time.perf_counter()
            status = call(decoder, name, *arguments)
            if name == "DecodeBatched":
                self.decoding.append(time.perf_counter() - began)
            return status

        return called


def measured(training: Any, batch: int, loader: Loader) -> dict[str, Any]:
    """Return images/s of the loader alone and beside the training, and the files that were left out.

    ``…call_ms``: how long the host is in one call of the decoder, in ms, a median.
    """
    feed = training.feed
    for _ in range(FILL):
        feed.next()
    loader.decoding.clear()
    began = time.perf_counter()
    for _ in range(60):
        feed.next()
    training.synchronize()
    alone, call_alone = 60 * batch / (time.perf_counter() - began), statistics.median(loader.decoding)
    measured_block(training, DRAIN)
    loader.decoding.clear()
    with_training = STEPS * batch / measured_block(training, STEPS)
    return {
        "alone": round(alone),
        "beside_training": round(with_training),
        "alone_call_ms": round(1e3 * call_alone, 2),
        "beside_call_ms": round(1e3 * statistics.median(loader.decoding), 2),
        "unreadable": len(feed.unreadable),
    }


def keep_trace(training: Any, path: Path) -> None:
    """Write what the GPU and the driver did in six steps, and print what took longest of either."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        measured_block(training, 6)
    profiler.export_chrome_trace(str(path))
    rows = profiler.key_averages()
    for title, attribute in (
        ("on the GPU", "self_device_time_total"),
        ("on the host", "self_cpu_time_total"),
    ):
        print(f"{title}, us a step, calls a step:")
        for row in sorted(rows, key=lambda row: -getattr(row, attribute))[:25]:
            print(f"{getattr(row, attribute) / 6:10.0f} {row.count / 6:8.1f}  {row.key[:100]}")


if __name__ == "__main__":
    sys.exit(main())
