"""The error of a process's CPU time in a short window: counters interpolated to its ends, against counters read there.

    python benchmarks/trust_windows.py [--windows 40]

A sampler runs as next to a run, ten times a second, on a process that computes and sleeps in turns. The reference reads
the counters of this process at both ends of each window. Other load does not matter: both sides see the same.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from trainmark.node.processes import ProcessTree
from trainmark.node.telemetry import Telemetry
from trainmark.node.telemetry_summary import summarise

LENGTHS_S = (0.2, 0.3, 0.5, 1.0, 3.0)
SEED = 20261126
# A process that computes and sleeps in turns, of different lengths.
LOAD = """
import random, time
print(flush=True)
while True:
    end = time.time() + random.random() * 0.4
    while time.time() < end: pass
    time.sleep(random.random() * 0.4)
"""


def windows(length_s: float, count: int, path: Path, pid: int) -> list[float]:
    """Return the errors of the CPU time over this many windows of a length, as a share of the window, in percent."""
    chance, tree = random.Random(SEED), ProcessTree(pid)
    found = []
    with Telemetry(path, pid):
        time.sleep(0.3)
        for _ in range(count):
            time.sleep(chance.random() * 0.1)
            begin, before = time.time(), tree.read().cpu_s
            time.sleep(length_s)
            end, after = time.time(), tree.read().cpu_s
            found.append((begin, end, after - before))
        time.sleep(0.2)
    summaries = ((summarise(path, (begin, end)), end - begin, truth) for begin, end, truth in found)
    return [
        100 * abs(summary.cpu_tree_s - truth) / window_s
        for summary, window_s, truth in summaries
        if summary.cpu_tree_s is not None
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--windows", type=int, default=40)
    count = parser.parse_args().windows
    load = subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE)
    print("| window | error, median | error, 9 of 10 | largest |\n| --- | ---: | ---: | ---: |")
    try:
        assert load.stdout is not None
        load.stdout.readline()
        for length_s in LENGTHS_S:
            with tempfile.TemporaryDirectory() as folder:
                errors = sorted(windows(length_s, count, Path(folder) / "telemetry.jsonl", load.pid))
            high = errors[int(0.9 * (len(errors) - 1))]
            print(f"| {length_s:g} s | {median(errors):.1f} | {high:.1f} | {errors[-1]:.1f} |", flush=True)
    finally:
        load.kill()
        load.wait()


if __name__ == "__main__":
    main()
