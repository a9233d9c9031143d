"""``adaptive`` against ``dlperf``'s 5 x 120 on real cases: what interval each gives, and in how much time.

    python benchmarks/trust_adaptive.py                       four CPU cases, 10 runs of 120 steps each, in random order
    python benchmarks/trust_adaptive.py --results DIR         of a result directory that is there

Both rules look at the same runs: ``dlperf`` at the first five, ``adaptive`` at as many as it asks for, in their order.
Nothing but the rule differs. ``adaptive`` is asked for its usual 1 %; and, as ``same``, for the width of those five.
A run's time is the whole of it, start and end too. ``holds``: whether the interval holds the median of all the case's
runs, in the last line.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from trainmark.measure import estimate, narrow_enough
from trainmark.schema.measurement import Estimate, Sampling
from trainmark.schema.results import CaseResult, pooled
from trainmark.store.document import read_results

FIVE, LEAST, TARGET = 5, 3, 0.01

VARIANTS = {
    "pytorch": {"layout": "nhwc", "compiler": "none"},
    "tensorflow": {"layout": "nhwc", "compiler": "graph"},
    "paddle": {"layout": "nchw", "compiler": "to_static"},
    "jax": {"layout": "nhwc", "compiler": "xla"},
}


class Spent(NamedTuple):
    """The result of a rule for a case: runs, their seconds, and the estimate."""

    runs: int
    seconds: float
    estimate: Estimate


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, help="a result directory, or its results.json")
    parser.add_argument("--framework", nargs="+", choices=tuple(VARIANTS), default=tuple(VARIANTS))
    parser.add_argument("--model", default="mobilenet_v1")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--image-size", type=int, default=96)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_args()
    if given.results is not None:
        return tell(given.results)
    with tempfile.TemporaryDirectory() as folder:
        measure(given, Path(folder))
        return tell(Path(folder) / "out")


def measure(given: argparse.Namespace, folder: Path) -> None:
    """Run the cases, all of them as often."""
    suite = {
        "name": "adaptive",
        "protocol": {"name": "dlperf", "steps": given.steps, "repeats": given.runs},
        # The frameworks are not compared.
        "equivalence": False,
        "defaults": {
            "model": given.model, "precision": "fp32", "batch_per_device": given.batch,
            "image_size": given.image_size, "device": "cpu",
        },
        "zip": [{
            "framework": [*given.framework],
            **{key: [VARIANTS[name][key] for name in given.framework] for key in ("layout", "compiler")},
        }],
    }  # fmt: skip
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(suite), encoding="utf-8")
    trainmark = Path(sys.executable).with_name("trainmark")
    # 1 if a run failed: the remaining runs are still compared.
    subprocess.run([trainmark, "run", path, "--out", folder / "out"], stdout=sys.stderr, check=False)


def tell(results: Path) -> int:
    """Print a line a case; return 1 where there is no case that both rules can judge."""
    cases = read_results(results / "results.json" if results.is_dir() else results).cases
    print(
        "| case | rule | runs | s | median | half width | holds |\n| --- | --- | ---: | ---: | ---: | ---: | --- |"
    )
    spent = {"dlperf": 0.0, "adaptive": 0.0, "same": 0.0}
    for case in cases:
        runs = sound(case)
        whole = estimate([rate for rate, _ in runs])
        if len(runs) < FIVE or whole is None:
            continue
        five = by_five(runs)
        same = by_waiting(runs, five.estimate.half_width or TARGET)
        for rule, found in (("dlperf", five), ("adaptive", by_waiting(runs, TARGET)), ("same", same)):
            spent[rule] += found.seconds
            interval, half = found.estimate.interval, found.estimate.half_width
            held = interval is not None and interval.low <= whole.median <= interval.high
            holds = "-" if interval is None else "yes" if held else "no"
            cells = (
                case.id, rule, found.runs, f"{found.seconds:.0f}", f"{found.estimate.median:.2f}",
                "-" if half is None else f"{half:.2%}", holds,
            )  # fmt: skip
            print("| " + " | ".join(map(str, cells)) + " |")
        print(f"| {case.id} | all | {len(runs)} | | {whole.median:.2f} | "
              f"{'-' if whole.half_width is None else f'{whole.half_width:.2%}'} | |")  # fmt: skip
    if not spent["dlperf"]:
        print("no case has five sound runs", file=sys.stderr)
        return 1
    for rule, target in (
        ("adaptive", f"asked for {TARGET:.0%}"),
        ("same", "asked for the width of the five runs"),
    ):
        print(f"\nadaptive, {target}: {spent[rule] / spent['dlperf']:.2f} of dlperf's time over all cases.")
    return 0


def sound(case: CaseResult) -> list[tuple[float, float]]:
    """Return throughput and seconds of the runs that a campaign pools, in the order in which they ran."""
    runs = sorted(pooled(case.runs), key=lambda run: str(run.started_at))
    return [
        (run.measurement.throughput, run.duration_s)
        for run in runs
        if run.measurement is not None and run.duration_s is not None
    ]


def by_five(runs: Sequence[tuple[float, float]]) -> Spent:
    """Return the runs and the estimate of ``dlperf``."""
    return _spent(runs[:FIVE], Sampling.FIXED)


def by_waiting(runs: Sequence[tuple[float, float]], target: float) -> Spent:
    """Return the runs and the estimate of ``adaptive``; all runs if they do not suffice."""
    enough = (n for n in range(LEAST, len(runs) + 1) if narrow_enough([rate for rate, _ in runs[:n]], target))
    return _spent(runs[: next(enough, len(runs))], Sampling.WAITED)


def _spent(runs: Sequence[tuple[float, float]], sampling: Sampling) -> Spent:
    found = estimate([rate for rate, _ in runs], sampling)
    assert found is not None
    return Spent(len(runs), sum(seconds for _, seconds in runs), found)


if __name__ == "__main__":
    sys.exit(main())
