"""A small training program of nobody's format: a network of one hidden layer learns XOR, in plain Python.

It writes what its own clock says into ``clock.json`` in its working directory, for the tests to compare with.
"""

import argparse
import json
import math
import os
import random
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--block-size", type=int, default=1, help="tokens of a sample; only a name here")
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--style", choices=["nanogpt", "rate", "counter", "silent"], default="rate")
parser.add_argument("--fail", choices=["import", "refuse"])
parser.add_argument("--buffered", action="store_true")
options = parser.parse_args()

if options.fail == "import":
    import no_such_module_of_anybody  # type: ignore[import-not-found] # noqa: F401
if options.fail == "refuse":
    sys.stdout.write("train_mlp: the data set has no images\n")
    sys.exit(0)

generator = random.Random(1)
hidden = 8
into = [[generator.uniform(-1, 1) for _ in range(3)] for _ in range(hidden)]
out = [generator.uniform(-1, 1) for _ in range(hidden + 1)]
rate = float(os.environ.get("LEARNING_RATE", "0.5"))


def step() -> float:
    """Train on one batch and return its loss."""
    total = 0.0
    for _ in range(options.batch_size):
        one, other = generator.randint(0, 1), generator.randint(0, 1)
        inputs = [float(one), float(other), 1.0]
        active = [math.tanh(sum(w * x for w, x in zip(row, inputs, strict=True))) for row in into] + [1.0]
        guess = sum(w * x for w, x in zip(out, active, strict=True))
        error = guess - float(one ^ other)
        total += error * error
        for unit in range(hidden):
            slope = error * out[unit] * (1 - active[unit] * active[unit])
            for place in range(3):
                into[unit][place] -= rate / options.batch_size * slope * inputs[place]
        for unit in range(hidden + 1):
            out[unit] -= rate / options.batch_size * error * active[unit]
    return total / float(options.batch_size)


lines: list[str] = []


def show(line: str) -> None:
    """Print a line, or keep it back if the output is to be buffered."""
    lines.append(line)
    if not options.buffered or len(lines) >= 50:
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
        lines.clear()


if options.style == "nanogpt":
    show(f"tokens per iteration will be: {options.batch_size * 4:,}\n")
ends = []
for number in range(options.steps):
    began = time.perf_counter()
    loss = step()
    ends.append(time.perf_counter())
    took = ends[-1] - began
    if options.style == "nanogpt":
        show(f"iter {number}: loss {loss:.4f}, time {took * 1000:.2f}ms, mfu -100.00%\n")
    elif options.style == "rate":
        show(
            f"step {number} loss {loss:.4f} step_time {took:.6f} s {options.batch_size / took:.2f} samples/s\n"
        )
    elif options.style == "counter":
        show(f"step {number} loss {loss:.4f}\n")
sys.stdout.write("".join(lines))
Path("clock.json").write_text(json.dumps(ends), encoding="utf-8")
