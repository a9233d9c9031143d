"""The benefit of the variables that an environment sets: the worker with and without them, alternating.

    python benchmarks/allocator.py                                       ResNet-50, batch 8, 224 pixels, both layouts
    python benchmarks/allocator.py --layout nhwc --rounds 10 --threads 2
    python benchmarks/allocator.py --framework tensorflow --set MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=68719476736

Each round runs both, the one that was second first in the next. A run is a process: glibc reads its variables when it
starts. Printed are the medians of the runs' throughputs and their ratio with its 95 % interval
(``trainmark.measure.ratio``). Without ``--set`` the variables are those of the framework's entry for a CPU.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from trust_loader import FLAGS, python_of

from trainmark.environment import find_entry
from trainmark.environment.entry import Variant
from trainmark.measure import ratio
from trainmark.measure.statistics import estimate

START = Path(__file__).resolve().parents[1] / "src" / "trainmark" / "worker" / "start.py"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--framework", choices=tuple(FLAGS), default="pytorch")
    parser.add_argument("--set", nargs="+", metavar="NAME=VALUE", help="the variables")
    parser.add_argument("--model", default="resnet50_v1.5")
    parser.add_argument("--layout", nargs="+", default=("nchw", "nhwc"))
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--compiler", default="none")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup-steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    entry = find_entry(given.framework)
    wanted = dict(word.split("=", 1) for word in given.set or ())
    wanted = wanted or dict(entry.variants[Variant.CPU].env_vars)
    print("set:", " ".join(f"{name}={value}" for name, value in wanted.items()), flush=True)
    if not wanted:
        return 2
    with tempfile.TemporaryDirectory() as folder:
        for layout in given.layout:
            sides: tuple[list[float], list[float]] = ([], [])
            for number in range(given.rounds):
                for side in (0, 1) if number % 2 else (1, 0):
                    variables = {**entry.env_vars, **(wanted if side else {})}
                    sides[side].append(throughput(given, layout, variables, Path(folder), without=wanted))
            without, with_them = (estimate(runs) for runs in sides)
            found = ratio(with_them, without)
            assert without is not None
            assert with_them is not None
            assert found is not None
            interval = (
                f"{found.interval.low:.3f} to {found.interval.high:.3f}" if found.interval else "no interval"
            )
            print(
                f"{layout}: without {without.median:.3f}, with {with_them.median:.3f} images/s; "
                f"ratio {found.value:.3f} ({interval}), {given.rounds} runs each",
                flush=True,
            )
    return 0


def throughput(
    given: argparse.Namespace,
    layout: str,
    variables: Mapping[str, str],
    folder: Path,
    without: Mapping[str, str],
) -> float:
    """Run the worker once, and return its images/s."""
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    flags = {
        "framework": given.framework, "model": given.model, "layout": layout, "precision": given.precision,
        "compiler": given.compiler, "batch-per-device": given.batch, "image-size": given.image_size,
        "steps": given.steps, "warmup-steps": given.warmup_steps, "threads": given.threads, "device": "cpu",
        "events": events,
    }  # fmt: skip
    clean = {name: value for name, value in os.environ.items() if name not in without}
    subprocess.run(
        [python_of(given.framework), str(START), *(f"--{name}={value}" for name, value in flags.items())],
        env={**clean, **variables},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    last = json.loads(events.read_text(encoding="utf-8").splitlines()[-1].removeprefix("DLLL "))
    return float(last["data"]["throughput"])


if __name__ == "__main__":
    sys.exit(main())
