r"""What bounds the loader ``nvjpeg``: reading, decoding, and both beside the recorded step, in one process.

Run it with a Python that has PyTorch on an NVIDIA GPU, over a folder of JPEGs (``trainmark data make``):

    PYTHON benchmarks/jpegs.py photos/train --variant workers=14 --variant workers=14,by_host=0.0 \
        --variant workers=14,by_host=0.0,makers=1,lanes=1 --json jpegs.json --trace trace.json

A variant is the loader of today but for what is named: ``makers`` batches in the making, each in ``lanes`` parts,
``ready`` of them waiting, ``workers`` processes that decode the share ``by_host``; and by 0 or 1 whether files lie in
``pinned`` memory, memory is made ahead (``room``), ``crops`` alone are decoded, lanes come ``first`` on the GPU, and
nvJPEG takes memory from pools (``pooled``, which the loader does not). All train with the same recorded graph.
Printed of each: images/s of the loader alone, and beside the training; before them those of the graph alone, and of the
processes alone. ``--trace`` keeps what the GPU and the driver did in six steps of the last variant.
"""

import argparse
import ctypes
import dataclasses
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contest import ours
from overhead import measured_block

ROOM = "trainmark_worker.pytorch.image_classification"
UNCHANGED = {
    "makers": 2, "lanes": 4, "ready": 1, "workers": 14, "by_host": None, "pinned": 1, "room": 1, "crops": 1,
    "first": 1, "pooled": 0,
}  # fmt: skip
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
    for asked in own.variant or [UNCHANGED]:
        training.feed.close()
        loader = Loader()
        training.feed = loader.opened(training, asked)
        found.append({**asked, **measured(training, own.batch), "taken_from_pools": loader.taken})
        print(found[-1], flush=True)
        if own.json:
            own.json.write_text(json.dumps(found, indent=1) + "\n")
    if own.trace:
        keep_trace(training, own.trace)
    training.close()
    return 0


def variant(text: str) -> dict[str, Any]:
    """Return the loader of today but for what is named."""
    found: dict[str, Any] = dict(UNCHANGED)
    for word in text.split(","):
        name, _, value = word.partition("=")
        if name not in found:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(found)}")
        found[name] = float(value) if name == "by_host" else int(value)
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
    files = importlib.import_module(f"{ROOM}.loaders.nvjpeg_files")
    queues = importlib.import_module("trainmark_worker.core.queues")
    read_images = importlib.import_module("trainmark_worker.tasks.image_classification.images").read_images
    settings = training.settings
    images = read_images(settings.data, settings.classes)
    share = queues.in_parts(settings.batch_per_device, workers, ahead=2)
    slots, batches = files.read_in_processes(images, settings, training.ranks.place, share, 3, 0.0)
    for _ in range(30):
        files.taken_apart(next(batches), slots)
    began = time.perf_counter()
    for _ in range(80):
        files.taken_apart(next(batches), slots)
    return float(80 * settings.batch_per_device / (time.perf_counter() - began))


class Loader:
    """Opens the loader as a variant has it; ``taken``: how often nvJPEG took memory from pools, where it has some."""

    taken = 0

    def __init__(self) -> None:
        self._feeds: Any = importlib.import_module(f"{ROOM}.loaders.nvjpeg")
        self._nvjpeg: Any = importlib.import_module(f"{ROOM}.nvjpeg")
        self._makers: Any = importlib.import_module(f"{ROOM}.loaders.nvjpeg_batches")
        self._files: Any = importlib.import_module(f"{ROOM}.loaders.nvjpeg_files")
        lane, slots = self._nvjpeg._Lane, self._files.Slots
        for where, name in (
            (self._feeds, "by_processes"), (slots, "pin"), (slots, "unpin"),
            (lane, "__init__"), (lane, "_make_room"), (lane, "_call"),
        ):  # fmt: skip
            setattr(where, name, AS_IT_IS.setdefault((where, name), getattr(where, name)))

    def opened(self, training: Any, asked: dict[str, Any]) -> Any:
        """Return a feed."""
        feeds, lane = self._feeds, self._nvjpeg._Lane
        feeds.MAKERS, feeds.READY = asked["makers"], asked["ready"]
        self._nvjpeg.Decoder.__init__.__defaults__ = (asked["lanes"],)
        self._nvjpeg.FIRST = self._makers.FIRST = -1 if asked["first"] else 0
        if asked["by_host"] is not None:
            feeds.by_processes = lambda _: asked["by_host"]
        if not asked["pinned"]:
            self._files.Slots.pin = self._files.Slots.unpin = lambda _: None
        if not asked["room"]:
            lane._make_room = lambda *_: None
        if asked["pooled"]:
            lane._call = self._with_pools(lane._call)
        if not asked["crops"]:
            lane.__init__ = without_parts(lane.__init__)
        return training.open_feed(dataclasses.replace(training.settings, loader_workers=asked["workers"]))

    def _with_pools(self, call: Callable[..., int]) -> Callable[..., int]:
        """Have each lane's handle made with allocators of its own, which ask CUDA for nothing twice."""

        def called(lane: Any, name: str, *arguments: Any) -> int:
            if name == "CreateEx":
                lane.pools = [pool(self, where) for where in ("cuda", "cpu")]
                arguments = (arguments[0], *(ctypes.byref(table) for table, _ in lane.pools), *arguments[3:])
            return call(lane, name, *arguments)

        return called


def pool(loader: Loader, where: str) -> tuple[Any, Any]:
    """Return the pair of functions by which nvJPEG takes memory and gives it back, and what must outlive them."""
    import torch

    held: dict[int, Any] = {}
    free: dict[int, list[int]] = {}

    def take(at: Any, size: int, *_: int) -> int:
        loader.taken += 1
        # In powers of two, so that what was given back fits the next one.
        size = 1 << max(size - 1, 511).bit_length()
        waiting = free.setdefault(size, [])
        if not waiting:
            pinned = {"pin_memory": True} if where == "cpu" else {"device": "cuda"}
            memory = torch.empty(size, dtype=torch.uint8, **pinned)
            held[memory.data_ptr()] = (memory, size)
            waiting.append(memory.data_ptr())
        at[0] = waiting.pop()
        return 0

    def give_back(at: int | None) -> int:
        if at is not None:
            free[held[at][1]].append(at)
        return 0

    flags = [ctypes.c_uint] if where == "cpu" else []
    taking = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, *flags)(take)
    giving = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(give_back)
    table = (ctypes.c_void_p * 2)(*(ctypes.cast(one, ctypes.c_void_p).value for one in (taking, giving)))
    return table, (taking, giving, held)


def without_parts(begin: Callable[..., None]) -> Callable[..., None]:
    """Return a lane's beginning after which it decodes whole pictures."""

    def begun(lane: Any, *arguments: Any) -> None:
        begin(lane, *arguments)
        lane.parts = False

    return begun


def measured(training: Any, batch: int) -> dict[str, Any]:
    """Return images/s of the loader alone and beside the training, and the files that were left out."""
    feed = training.feed
    for _ in range(FILL):
        feed.next()
    began = time.perf_counter()
    for _ in range(60):
        feed.next()
    training.synchronize()
    alone = 60 * batch / (time.perf_counter() - began)
    measured_block(training, DRAIN)
    beside = STEPS * batch / measured_block(training, STEPS)
    return {"alone": round(alone), "beside_training": round(beside), "unreadable": len(feed.unreadable)}


def keep_trace(training: Any, path: Path) -> None:
    """Write what the GPU and the driver did in six steps, and print what took longest of either."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as kept:
        measured_block(training, 6)
    kept.export_chrome_trace(str(path))
    rows = kept.key_averages()
    for title, attribute in (
        ("on the GPU", "self_device_time_total"),
        ("on the host", "self_cpu_time_total"),
    ):
        print(f"{title}, us a step, calls a step:")
        for row in sorted(rows, key=lambda row: -getattr(row, attribute))[:25]:
            print(f"{getattr(row, attribute) / 6:10.0f} {row.count / 6:8.1f}  {row.key[:100]}")


if __name__ == "__main__":
    sys.exit(main())
