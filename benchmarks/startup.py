"""The response time of the command line: ``--help``, and ``plan`` of a matrix of 10,000 cases.

    python benchmarks/startup.py [--repeats 11]

Each command runs as a whole process, in turn with the bare interpreter (``python -c pass``), so that the ratio
holds on a noisy machine. Budgets: ``--help`` < 0.25 s; ``plan`` of 10,000 cases < 2 s.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE = [sys.executable, "-c", "pass"]
TRAINMARK = [sys.executable, "-m", "trainmark.cli.main"]
MATRIX = f"""\
name: matrix
environment: system
axes:
  precision: [fp32, tf32, amp-fp16, amp-bf16, bf16]
  layout: [nchw, nhwc]
  devices_per_node: {list(range(1, 11))}
  batch_per_device: {list(range(1, 101))}
"""


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=11)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder) / "matrix.yaml"
        suite.write_text(MATRIX)
        commands = {
            "--help": ([*TRAINMARK, "--help"], 0.25),
            "plan of 10,000 cases": ([*TRAINMARK, "plan", str(suite)], 2.0),
        }
        for name, (command, budget_s) in commands.items():
            seconds(command)
            pairs = [(seconds(command), seconds(BARE)) for _ in range(repeats)]
            ours = statistics.median(ours for ours, _ in pairs)
            ratio = statistics.median(ours / bare for ours, bare in pairs)
            verdict = "within" if ours < budget_s else "OVER"
            print(
                f"{name}: median {ours:.3f} s of {repeats} ({verdict} {budget_s:g} s), {ratio:.1f} x the interpreter"
            )


if __name__ == "__main__":
    main()
