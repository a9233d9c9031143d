"""The time of a comparison in a database of 100,000 runs.

    python benchmarks/store.py [--runs 100000]

A SQLite file is filled with the runs of many campaigns through the store's own tables; a comparison reads the runs of
two cases in all campaigns and computes the ratio of their medians with its interval. Each comparison opens the
database anew, as a command does. Budget: < 1 s. For scale, the same rows are also counted by one full scan.
"""

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

from sqlalchemy import insert, text

from trainmark.measure import estimate, ratio
from trainmark.store.database import Store, sqlite_url
from trainmark.store.tables import campaigns, runs

CASES = 200
REPEATS = 5
BUDGET_S = 1.0


def fill(path: Path, count: int) -> None:
    """Write ``count`` runs: campaigns of 200 cases with 5 repeats each, every 50th run without a number."""
    store, dice = Store(sqlite_url(path)), random.Random(0)
    with store._engine.begin() as connection:
        for campaign in range(1, count // (CASES * REPEATS) + 1):
            row = {
                "id": campaign,
                "suite": "bench",
                "directory": f"/{campaign}",
                "suite_yaml": "",
                "trainmark_version": "0",
            }
            connection.execute(insert(campaigns).values(row))
            connection.execute(
                insert(runs),
                [a_run(campaign, case, n, dice) for case in range(CASES) for n in range(REPEATS)],
            )
    store.close()


def a_run(campaign: int, case: int, repeat: int, dice: random.Random) -> dict[str, object]:
    failed = dice.random() < 0.02
    return {
        "campaign_id": campaign, "case_id": f"case-{case}", "repeat": repeat, "workload": "trainmark",
        "framework": "pytorch", "model": "resnet50_v1.5", "precision": "fp32", "batch_per_device": "256",
        "nodes": 1, "devices_per_node": 1, "data": "synthetic", "outcome": "oom" if failed else "ok",
        "reason": None, "started_at": None, "throughput": None if failed else dice.gauss(1000 + case, 5),
        "unit": "images/s", "fingerprint": None, "result": {"padding": "x" * 1500},
    }  # fmt: skip


def compare(path: Path) -> float:
    """Compare two cases over all campaigns; return the seconds that it took."""
    began = time.perf_counter()
    store = Store(sqlite_url(path))
    sides = [
        [t for all_of in store.throughputs(case).values() for t in all_of] for case in ("case-3", "case-7")
    ]
    store.close()
    assert ratio(*(estimate(side) for side in sides)) is not None
    return time.perf_counter() - began


def scan(path: Path) -> float:
    """Read the outcome of every run; return the seconds that it took."""
    began = time.perf_counter()
    store = Store(sqlite_url(path))
    with store._engine.begin() as connection:
        connection.execute(text("SELECT count(*), max(length(result)) FROM runs")).all()
    store.close()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100_000)
    count = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.sqlite"
        began = time.perf_counter()
        fill(path, count)
        print(
            f"{count} runs written in {time.perf_counter() - began:.1f} s, {path.stat().st_size / 1e6:.0f} MB"
        )
        pairs = [(compare(path), scan(path)) for _ in range(7)]
        ours = statistics.median(compared for compared, _ in pairs)
        share = statistics.median(compared / scanned for compared, scanned in pairs)
        verdict = "within" if ours < BUDGET_S else "OVER"
        print(
            f"a comparison: median {ours:.3f} s of 7 ({verdict} {BUDGET_S:g} s), {share:.2f} of one full scan"
        )


if __name__ == "__main__":
    main()
