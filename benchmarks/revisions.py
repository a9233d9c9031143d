r"""The worker's steps of two checkouts, in turn on one machine: how fast is the second one beside the first?

    PYTHON benchmarks/revisions.py BEFORE AFTER trainmark-fused-cudnn --device cuda --precision amp-fp16 --batch 256
    PYTHON benchmarks/revisions.py BEFORE AFTER lm:trainmark-compile-fused --device cuda --precision amp-bf16 \
        --model gpt2_124m --batch 12 --each 2

Each side is a process of its own, or ``--each`` of them, which ``peers.py`` (``lm:``: ``peers_lm.py``) of that checkout
builds, compiles and warms up. All stay on the device; in each round each trains a block of steps, in a random order.
Two processes of one revision show by how much a pair differs for no reason. The ratio is that of the rates, AFTER over
BEFORE, of the medians of a round's blocks; its interval is by bootstrap over the rounds.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import IO

RESAMPLED = 2000


class Side:
    """A resident process that trains a block of steps when it is told to."""

    def __init__(self, checkout: Path, name: str, words: list[str]) -> None:
        kind, _, contestant = name.rpartition(":")
        program = checkout / "benchmarks" / ("peers_lm.py" if kind == "lm" else "peers.py")
        command = [sys.executable, str(program), f"--contestant={contestant}", *words]
        self.name = f"{program} {contestant}"
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self, key: str) -> float:
        """Return the value of ``key`` in the next line that is an object; end the program if it tells of an error."""
        output: IO[str] | None = self.process.stdout
        for line in output or ():
            if line.startswith("{"):
                values = json.loads(line)
                if key in values:
                    return float(values[key])
                raise SystemExit(f"revisions: {self.name}: {values}")
        raise SystemExit(f"revisions: {self.name}: it ended with exit code {self.process.wait()}")

    def block(self) -> float:
        """Return the seconds of a block."""
        assert self.process.stdin is not None
        print("block", file=self.process.stdin, flush=True)
        return self.read("seconds")


def ratio_of(rounds: list[tuple[list[float], list[float]]]) -> float:
    """Return BEFORE's seconds over AFTER's: medians over the rounds of the mean of a round's blocks."""
    before, after = (statistics.median(statistics.fmean(one[side]) for one in rounds) for side in (0, 1))
    return before / after


def main() -> int:
    """Hold the rounds, and print the ratio with its interval."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("name", help="a contestant of peers.py, or lm: and one of peers_lm.py")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--each", type=int, default=1, help="processes of each checkout")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    own, words = parser.parse_known_args()

    sides = [Side(tree, own.name, words) for tree in (own.before, own.after) for _ in range(own.each)]
    for side in sides:
        side.read("prepared_s")
    order, rounds = random.Random(own.seed), []
    for _ in range(own.rounds):
        seconds = [0.0] * len(sides)
        for index in order.sample(range(len(sides)), len(sides)):
            seconds[index] = sides[index].block()
        rounds.append((seconds[: own.each], seconds[own.each :]))
    for side in sides:
        side.process.communicate()
    drawn = sorted(ratio_of(order.choices(rounds, k=len(rounds))) for _ in range(RESAMPLED))
    columns = [zip(*(one[side] for one in rounds), strict=True) for side in (0, 1)]
    found = {
        "contestant": own.name,
        "words": words,
        "rounds": own.rounds,
        "ratio": round(ratio_of(rounds), 5),
        "interval": [round(drawn[int(RESAMPLED * at)], 5) for at in (0.025, 0.975)],
        "medians_s": [[statistics.median(column) for column in side] for side in columns],
    }
    print(json.dumps(found))
    if own.json:
        own.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
