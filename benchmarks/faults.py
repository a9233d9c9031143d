"""Inject every fault of a cluster many times: the reported culprit, the delay, the leftovers, and the other cases.

    python benchmarks/faults.py --out FILE.jsonl [--times 20] [--only KIND,KIND] [--lanes 3]
    python benchmarks/faults.py --out FILE.jsonl --table

As root, on a cluster of its own as `scripts/cluster` makes it, two hosts a lane. A trial is two cases of a campaign:
one on two hosts of which the second (or the controller) goes wrong, and one that is to be measured all the same. The
program trains nothing: two ranks exchange a number at every step, by sockets, or by torch.distributed over gloo where
it says so. FILE gains a line a trial, and what stands in it is not done again. The kernel counts what it ends for want
of memory for all hosts of this machine together: `memory` is to be tried by itself.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Manager
from pathlib import Path
from statistics import median
from typing import Any

from faults_kinds import KINDS
from faults_trial import ENVIRONMENT, OK, PROGRAMS, Lane, tried

from clusters import Cluster


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of docs/appendix/cluster-faults.md."""
    rows = [
        "| what happens to the second host | times | outcome | culprit named | seconds to outcome: median, most "
        "| other case measured | left behind |"
    ]
    rows.append("| --- | ---: | --- | ---: | ---: | ---: | ---: |")
    for kind in KINDS:
        of = [line for line in lines if line["kind"] == kind.name]
        if not of:
            continue
        times = [line["seconds"] for line in of if line["seconds"] is not None] or [float("nan")]
        outcomes = ", ".join(sorted({line["outcome"] for line in of}))
        named = f"{sum(line['named'] for line in of)}" if kind.named else "none to name"
        others = sum(bool(line.get("other_measured")) for line in of)
        left = sum(bool(line["left"]) for line in of)
        took = f"{median(times):.1f}, {max(times):.1f}" if kind.outcome is not OK or kind.trial else "-"
        rows.append(f"| {kind.says} | {len(of)} | `{outcomes}` | {named} | {took} | {others} | {left} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--lanes", type=int, default=3)
    parser.add_argument("--state", type=Path, help="a cluster that is up, with the shares; else one is made")
    parser.add_argument("--table", action="store_true", help="print the table of what stands in FILE")
    words = parser.parse_args()
    done = [json.loads(line) for line in words.out.read_text().splitlines()] if words.out.exists() else []
    if words.table:
        print(table(done))
        return
    only = words.only.split(",") if words.only else [kind.name for kind in KINDS]
    wanted = []
    for name in only:
        (kind,) = [kind for kind in KINDS if kind.name == name]
        missing = words.times - sum(line["kind"] == name for line in done)
        wanted += [
            (number, name, min(kind.at_once, missing - number)) for number in range(0, missing, kind.at_once)
        ]
    # All kinds as often as each other, however soon this is ended.
    wanted.sort(key=lambda one: one[0])
    state = words.state or Path(tempfile.mkdtemp(prefix="tmf"))
    if words.state is None:
        shares = [f"{PROGRAMS}:/opt/programs", f"{ENVIRONMENT}:{ENVIRONMENT}"]
        Cluster(state).do(
            *("up", "--while", str(os.getpid()), "--python", sys.executable, "--hosts", str(2 * words.lanes)),
            *(word for share in shares for word in ("--share", share)),
        )
    try:
        with Manager() as manager, ProcessPoolExecutor(words.lanes, max_tasks_per_child=None) as pool:
            lanes = manager.Queue()
            for number in range(words.lanes):
                lanes.put(number)
            for made in [pool.submit(one, state, lanes, name, count, words.out) for _, name, count in wanted]:
                made.result()
    finally:
        if words.state is None:
            Cluster(state).do("down")


def one(state: Path, lanes: Any, name: str, count: int, out: Path) -> None:
    """Try one kind on a lane that is free, and keep what became of it."""
    number = lanes.get()
    try:
        cluster = Cluster(state)
        hosts = (f"node{2 * number + 1:02d}", f"node{2 * number + 2:02d}")
        lane = Lane(cluster, hosts, Path(tempfile.mkdtemp(prefix="tmft")) / "trial")
        (kind,) = [kind for kind in KINDS if kind.name == name]
        lines = tried(lane, kind, count)
        lane.folder.parent.rmdir()
        with out.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
        for line in lines:
            print(json.dumps(line)[:600], flush=True)
    finally:
        lanes.put(number)


if __name__ == "__main__":
    main()
