"""Does ``trainmark run --against`` find a planted slowdown on a noisy machine, and call equal programs equal?

    python benchmarks/paired_blocks.py --python ENV/bin/python [--tries 20 10] [--block-seconds 1] [--rounds 12]

Two small PyTorch programs train in turn on 2 cores while a hog takes both of them for random parts of each second.
In the first tries both programs are equal; in the others, A does 10 % more steps for each line that it prints. With
``--truth`` no hog runs, and the rate in blocks is compared with the rate of the same program that is never paused.

With ``--asleep`` the steps sleep, so that no idle machine is needed: starts differ by 2 % (standard deviation), and a
made-up load that both programs meet makes the steps of half of all parts of 0.7 s longer, by up to 50 %. ``--power``
runs nothing: it draws the ratio of each start, and prints how often each slowdown is found.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time

STEPS_OF_LINE = 10
ASLEEP_S, START_SPREAD, STEP_SPREAD, LOAD, LOAD_S = 0.016, 0.02, 0.03, 0.5, 0.7
SLOWDOWNS = (0.0, 0.03, 0.05, 0.1)
STARTS, DRAWS = 16, 1000


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


def sleep_steps(slowdown: float, seed: int) -> None:
    """Sleep in each step, as long as this start and the load of this moment make it; print a line after each step."""
    own = random.Random()
    usual_s = ASLEEP_S * (1 + slowdown) * math.exp(own.gauss(0, START_SPREAD))
    for step in itertools.count(1):
        load = random.Random(f"{seed} {int(time.time() / LOAD_S)}")
        longer = LOAD * load.random() if load.random() < 0.5 else 0.0
        time.sleep(max(0.0, usual_s * (1 + longer) * (1 + own.gauss(0, STEP_SPREAD))))
        print(f"step {step} loss 0.5", flush=True)


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


def asleep(python: str, slowdown: float, seed: int) -> list[str]:
    return [python, __file__, "asleep", str(slowdown), str(seed)]


def compare(options: argparse.Namespace, a: list[str], b: list[str], seed: int) -> dict[str, object]:
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
            *("--against", shlex.join(b), "--", *a),
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
        equal = program(options.python, 0)
        found = compare(options, equal, equal, seed)
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
    kinds = (
        [(slowdown, options.tries[slowdown > 0]) for slowdown in SLOWDOWNS]
        if options.asleep
        else [(0.0, options.tries[0]), (1 / STEPS_OF_LINE, options.tries[1])]
    )
    for slowdown, tries in kinds:
        right = "slower" if slowdown else "indistinguishable"
        calls = []
        for seed in range(tries):
            if options.asleep:
                a, b = (asleep(options.python, each, seed) for each in (slowdown, 0.0))
            else:
                a, b = (program(options.python, extra) for extra in (round(slowdown * STEPS_OF_LINE), 0))
            found = compare(options, a, b, seed)
            calls.append(found["change"])
            print(
                f"{f'{slowdown:.0%} slower' if slowdown else 'equal'}: A/B {found['ratio']:.4f} {found['interval']} "
                f"{found['change']}; {found['disturbance']}, {found['disturbance_slopes']}, as they are "
                f"{found['unadjusted']}",
                flush=True,
            )
        print(f"{calls.count(right)} of {tries}: {right}", flush=True)


def report_power() -> None:
    """Print how often a slowdown is found, by how much the ratio of a start scatters (in logarithms)."""
    import numpy as np

    from trainmark.measure.paired_blocks import paired_ratio

    draws = np.random.default_rng(5)
    for scatter in (0.01, 0.02, 0.04, 0.08):
        found, widths = [], []
        for slowdown in SLOWDOWNS:
            logs = draws.normal(-math.log1p(slowdown), scatter, (DRAWS, STARTS))
            ratios = [paired_ratio(np.exp(each).tolist()) for each in logs]
            found.append(sum(one.change != "indistinguishable" for one in ratios if one) / DRAWS)
            widths += [(one.high - one.low) / 2 for one in ratios if one]
        shares = ", ".join(f"{s:.0%}: {share:.1%}" for s, share in zip(SLOWDOWNS, found, strict=True))
        print(
            f"scatter {scatter:.0%}, half the interval {np.median(widths):.1%}; called different at {shares}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", default=sys.executable, help="the Python of an environment with PyTorch; any for --asleep"
    )
    parser.add_argument(
        "--tries", type=int, nargs=2, default=[20, 10], help="of equal programs, with the slowdown"
    )
    parser.add_argument("--block-seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--truth", action="store_true", help="compare with unpaused runs, without a hog")
    parser.add_argument("--asleep", action="store_true", help="with steps that sleep, without a hog")
    parser.add_argument("--power", action="store_true", help="by drawn ratios of starts alone")
    options = parser.parse_args()
    if options.power:
        report_power()
        return
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
        for seed in range(0 if options.asleep else len(cores))
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
    elif sys.argv[1:2] == ["asleep"]:
        sleep_steps(float(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
