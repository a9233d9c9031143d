"""Does ``trainmark run --against`` find a planted slowdown on a noisy machine, and call equal programs equal?

    python benchmarks/paired_blocks.py --python ENV/bin/python [--tries 20 10] [--block-seconds 1] [--rounds 12]

Two small PyTorch programs train in turn on 2 cores while a hog takes both of them for random parts of each second.
In the first tries both programs are equal; in the others, A does 10 % more steps for each line that it prints. With
``--truth`` no hog runs, and the rate in blocks is compared with the rate of the same program that is never paused.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time

STEPS_OF_LINE = 10


def train(extra: int, stop_s: float) -> None:
    """Train a small perceptron on one thread; print a line after each ``STEPS_OF_LINE`` steps and ``extra`` ones."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    sizes = (64, 128, 128, 10)
    layers = [torch.nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))
    line, end = 0, time.monotonic() + stop_s
    while time.monotonic() < end:
        for _ in range(STEPS_OF_LINE + extra):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(samples), labels)
            loss.backward()
            optimizer.step()
        line += 1
        print(f"step {line} loss {loss.item():.4f}", flush=True)


def hog(seed: int, parent: int) -> None:
    """Take a core for random parts of a second, until the parent ends."""
    draws = random.Random(seed)
    while os.getppid() == parent:
        end = time.monotonic() + draws.expovariate(1 / 0.3)
        while time.monotonic() < end:
            pass
        time.sleep(draws.expovariate(1 / 0.3))


def program(python: str, extra: int, stop_s: float = 1e9) -> list[str]:
    return [python, __file__, "train", str(extra), str(stop_s)]


def compare(options: argparse.Namespace, extra: int, seed: int) -> dict[str, object]:
    """Return the document of one comparison of two programs."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(
                sys.executable,
                "-m",
                "trainmark.cli.main",
                "run",
                "--json",
                "--out",
                folder,
                "--seed",
                str(seed),
            ),
            *("--block-seconds", str(options.block_seconds), "--rounds", str(options.rounds)),
            *("--against", shlex.join(program(options.python, 0)), "--", *program(options.python, extra)),
        ]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if not ended.stdout:
            raise SystemExit(ended.stderr)
        found: dict[str, object] = json.loads(ended.stdout)
        return found


def unpaused(options: argparse.Namespace, stop_s: float) -> float:
    """Return the lines per second of a program that is never paused, after its first lines."""
    log = subprocess.Popen(program(options.python, 0, stop_s), stdout=subprocess.PIPE, text=True)
    assert log.stdout is not None
    times = [time.monotonic() for _ in log.stdout][20:]
    return (len(times) - 1) / (times[-1] - times[0])


def report_truth(options: argparse.Namespace) -> None:
    """Compare the rate in blocks with the rate of unpaused runs, in turn."""
    ratios = []
    for seed in range(options.tries[0]):
        before = unpaused(options, 12.0)
        found = compare(options, 0, seed)
        after = unpaused(options, 12.0)
        rates = found["rates"]
        assert isinstance(rates, dict)
        ratios.append((rates["a"] + rates["b"]) / (before + after))
        print(
            f"blocks / unpaused: {ratios[-1]:.4f} (unpaused before and after: {before:.1f}, {after:.1f})",
            flush=True,
        )
    print(f"median {sorted(ratios)[len(ratios) // 2]:.4f} of {len(ratios)}")


def report_calls(options: argparse.Namespace) -> None:
    """Print how often equal programs are called equal, and how often a slowdown of 10 % is found."""
    for extra, tries, right in ((0, options.tries[0], "indistinguishable"), (1, options.tries[1], "slower")):
        calls = []
        for seed in range(tries):
            found = compare(options, extra, seed)
            calls.append(found["change"])
            print(
                f"{'equal' if not extra else '10 % more steps'}: A/B {found['ratio']:.4f} {found['interval']} "
                f"{found['change']}; {found['disturbance']}, {found['disturbance_slopes']}, as they are "
                f"{found['unadjusted']}",
                flush=True,
            )
        print(f"{calls.count(right)} of {tries}: {right}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", required=True, help="the Python of an environment with PyTorch")
    parser.add_argument(
        "--tries", type=int, nargs=2, default=[20, 10], help="of equal programs, with the slowdown"
    )
    parser.add_argument("--block-seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--truth", action="store_true", help="compare with unpaused runs, without a hog")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    print(
        f"CPUs {cores}, blocks of {options.block_seconds:g} s, {options.rounds} rounds, load {os.getloadavg()}"
    )
    if options.truth:
        report_truth(options)
        return
    hogs = [
        multiprocessing.Process(target=hog, args=(seed, os.getpid()), daemon=True)
        for seed in range(len(cores))
    ]
    for one in hogs:
        one.start()
    try:
        report_calls(options)
    finally:
        for one in hogs:
            one.terminate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(int(sys.argv[2]), float(sys.argv[3]))
    else:
        main()
