"""The overhead of measuring: the worker's measured loop against a bare loop of the same step, in one process.

Run it with the Python of a framework's environment; it needs nothing else:

    PYTHON benchmarks/overhead.py --device cuda --batch-per-device 256 --precision amp-bf16 --layout nhwc
    PYTHON benchmarks/overhead.py --device cpu --model mobilenet_v1 --batch-per-device 8 --image-size 64

Both loops use the same model, optimizer, batch and device. The bare loop does nothing but forward, backward, update
and zeroing; where the step is one CUDA graph it fetches a batch, sets the rate and replays the graph. The measured
one also sets the learning rate, keeps the loss, marks the step, reads the clock and prints heartbeats. Blocks of
steps alternate as measured, bare, bare, measured, so that a slow drift of the clocks cancels; each round gives one
ratio. Printed are their median and a distribution-free 95 % interval of it (from the binomial distribution of the
ranks; https://www.itl.nist.gov/div898/handbook/prc/section2/prc263.htm and, for any distribution, order statistics).
The exit code is 0 if the whole interval is below the budget, else 1.

``--telemetry PYTHON`` has telemetry taken of this process by one of that Python, which has trainmark: as beside a
run, ten times a second while measured blocks train, and not while bare ones do. ``--only-telemetry`` lets both be
measured, so that telemetry is all the difference. Blocks are then of 100 steps, so that there are samples in each.
"""

import argparse
import gc
import importlib
import json
import math
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START = Path(__file__).resolve().parents[1] / "src" / "trainmark" / "worker" / "start.py"
BUDGET = {"cuda": 0.002, "cpu": 0.01}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help="of measured, bare, bare, measured; 40, on a CPU 400")
    parser.add_argument("--block-steps", type=int, help="steps of one block; 20, on a CPU 1")
    parser.add_argument("--telemetry", metavar="PYTHON", help="take telemetry of measured blocks")
    parser.add_argument("--only-telemetry", action="store_true", help="let it be all that differs")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    own, worker_flags = parser.parse_known_args()
    if own.only_telemetry and not own.telemetry:
        parser.error("--only-telemetry wants --telemetry PYTHON")
    # A GPU is filled anew at the start of each block, so that its blocks must be long; on a CPU, which others
    # disturb, many short ones tell more.
    on_cpu = "cpu" in worker_flags or "--device=cpu" in worker_flags
    own.rounds = own.rounds or (400 if on_cpu and not own.telemetry else 40)
    own.block_steps = own.block_steps or (100 if own.telemetry else 1 if on_cpu else 20)

    runpy.run_path(str(START))
    arguments = importlib.import_module("trainmark_worker.core.arguments")
    place = importlib.import_module("trainmark_worker.core.place").place_from({})
    flags = ["--framework=pytorch", *worker_flags, f"--steps={own.block_steps + 1}", "--warmup-steps=1"]
    settings = arguments.parse(flags, 1)
    training = importlib.import_module("trainmark_worker.models.pytorch_image_classification").open_training(
        settings, place
    )
    device = training.describe()["device"]

    # A step that is one CUDA graph is recorded in the third.
    for block in (*[measured_block] * 3, *[bare_block] * 2):
        block(training, own.block_steps)
    training.actual()

    gc.collect()
    gc.freeze()
    gc.disable()
    ratios, bare_s = [], []
    other = measured_block if own.only_telemetry else bare_block
    with telemetry_of_this(own.telemetry) as watch:
        for _ in range(own.rounds):
            watch(True)
            first = measured_block(training, own.block_steps)
            watch(False)
            second = other(training, own.block_steps)
            watch(False)
            third = other(training, own.block_steps)
            watch(True)
            fourth = measured_block(training, own.block_steps)
            ratios.append((first + fourth) / (second + third))
            bare_s += [second, third]
    return tell(own, settings, training, device, ratios, statistics.median(bare_s) / own.block_steps)


SAMPLING = """
import sys, threading
from pathlib import Path
from trainmark.node.machine import open_nvml
from trainmark.node.telemetry import INTERVAL_S, Sampler, allowed_cpus, to_line
wanted, stopping = threading.Event(), threading.Event()
taken = 0
def work(sampler):
    global taken
    with Path(sys.argv[2]).open("wb", buffering=0) as file:
        while not stopping.wait(INTERVAL_S):
            if wanted.is_set():
                file.write(to_line(sampler.take()))
                taken += 1
with open_nvml() as nvml:
    thread = threading.Thread(target=work, args=(Sampler(int(sys.argv[1]), nvml, cpus=allowed_cpus()),), daemon=True)
    thread.start()
    for line in sys.stdin:
        wanted.set() if line == "on\\n" else wanted.clear()
        print(taken if thread.is_alive() else "it has stopped", flush=True)
"""


@contextmanager
def telemetry_of_this(python: str | None) -> Iterator[Callable[[bool], None]]:
    """Yield a function that turns telemetry of this process on or off before a block; a no-op without a Python."""
    if python is None:
        yield lambda _: None
        return
    with (
        tempfile.NamedTemporaryFile() as samples,
        subprocess.Popen(
            [python, "-c", SAMPLING, str(os.getpid()), samples.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as sampler,
    ):
        count = ""

        def watch(wanted: bool) -> None:
            nonlocal count
            assert sampler.stdin is not None
            assert sampler.stdout is not None
            try:
                sampler.stdin.write("on\n" if wanted else "off\n")
                sampler.stdin.flush()
            except BrokenPipeError:
                raise SystemExit(f"overhead: telemetry by {python} ended; it needs trainmark there") from None
            count = sampler.stdout.readline().strip()
            if not count.isdigit():
                raise SystemExit(f"overhead: no telemetry by {python}: {count or 'it needs trainmark there'}")

        yield watch
        watch(False)
        print(f"telemetry      {count} samples", file=sys.stderr)


def measured_block(training: Any, steps: int) -> float:
    """Return the seconds of ``steps`` steps of the worker's own loop, the very code of its window."""
    window = importlib.import_module("trainmark_worker.core.window")
    training.synchronize()
    started = time.perf_counter()
    window.run_steps(training, 0, steps, heartbeat, time.perf_counter_ns)
    training.synchronize()
    return time.perf_counter() - started


def bare_block(training: Any, steps: int) -> float:
    """Return the seconds of ``steps`` steps with nothing around them.

    Of a step that is one CUDA graph: the next batch where the graph reads it, the rate, and the graph's replay.
    """
    if getattr(training, "_captured", None) is not None:
        return bare_replays(training, steps)
    network, loss_of, optimizer, scaler = training.network, training.loss, training.optimizer, training.scaler
    autocast = training.autocast
    images, labels = training.batch
    training.synchronize()
    started = time.perf_counter()
    for _ in range(steps):
        with autocast:
            loss = loss_of(network(images).float(), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    training.synchronize()
    return time.perf_counter() - started


def bare_replays(training: Any, steps: int) -> float:
    """Return the seconds of ``steps`` replays in a hand-written loop over this graph."""
    graph, inputs = training._captured.recording
    rates = [group["lr"] for group in training.optimizer.param_groups]
    feed, rate = training.feed, training.rates[0]
    training.synchronize()
    started = time.perf_counter()
    for _ in range(steps):
        for at, given in zip(inputs, feed.next(), strict=True):
            if at is not given:
                at.copy_(given)
        for at in rates:
            at.fill_(rate)
        graph.replay()
    training.synchronize()
    return time.perf_counter() - started


def heartbeat(done: int) -> None:
    """Cost what the worker's heartbeat costs, without filling the terminal."""
    os.write(NOWHERE, f"step {done}\n".encode())


NOWHERE = os.open(os.devnull, os.O_WRONLY)


def median_interval(values: list[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return the narrowest symmetric order statistics that hold the median with at least ``confidence``.

    The chance that fewer than k of n values lie below the median is binomial with p = 1/2, for any distribution.
    """
    ordered = sorted(values)
    n = len(ordered)
    outside, k = 0.0, 0
    while k < n // 2:
        outside += math.comb(n, k) / 2**n
        if 2 * outside > 1 - confidence:
            break
        k += 1
    if k == 0:
        raise SystemExit("overhead: at least 6 rounds are needed for an interval")
    return ordered[k - 1], ordered[n - k]


def tell(
    own: argparse.Namespace, settings: Any, training: Any, device: str, ratios: list[float], step_s: float
) -> int:
    middle = statistics.median(ratios) - 1
    low, high = (ratio - 1 for ratio in median_interval(ratios))
    budget = BUDGET[device]
    result = {
        "overhead": middle,
        "interval_95": [low, high],
        "budget": budget,
        "holds": high < budget,
        "bare_step_s": step_s,
        "telemetry": "alone" if own.only_telemetry else "too" if own.telemetry else None,
        "rounds": own.rounds,
        "block_steps": own.block_steps,
        "device_name": training.describe()["device_name"],
        "framework_version": training.describe()["framework_version"],
        "model": settings.model,
        "precision": settings.precision,
        "layout": settings.layout,
        "compiler": settings.compiler,
        "batch_per_device": settings.batch_per_device,
        "image_size": settings.image_size,
    }
    if own.json:
        print(json.dumps(result))
    else:
        print(
            f"{settings.model}, {settings.precision}, batch {settings.batch_per_device}, {result['device_name']}"
        )
        print(
            f"bare step      {step_s * 1e3:.3f} ms ({own.rounds} rounds of 4 blocks of {own.block_steps} steps)"
        )
        what = "telemetry adds" if own.only_telemetry else "measuring adds"
        print(f"{what} {middle:+.3%}, 95 % interval {low:+.3%} to {high:+.3%}")
        print(f"budget         {budget:.1%}: {'holds' if high < budget else 'not shown to hold'}")
    return 0 if high < budget else 1


if __name__ == "__main__":
    sys.exit(main())
