"""The changes of a built-in worker that its witnesses detect: a table of changes and frameworks, in Markdown.

    python benchmarks/trust_sabotage.py                          every framework whose environment is made
    python benchmarks/trust_sabotage.py --framework pytorch --change none frozen-stem

Each change begins at step 3, behind the look at the first step, or is in the data. The table of them is in
``tests/worker/worker_changes.py``, what they do in ``tests/programs/changes/``. A cell has the doubts of the run.
``none`` is the worker as it is, ``none-real`` on real pictures and ``none-ranks`` on two ranks: they must be in no
doubt. ReLU6 for ReLU is not here: the certificate of equal work sees it (``tests/worker/test_equal_work.py``).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from trust_loader import FLAGS, make_pictures, python_of

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "worker"), str(TESTS)]
from worker_changes import CHANGES, Change, flags_of, word_of  # noqa: E402

CHANGED = TESTS / "programs" / "changed_worker.py"
SOUND = {
    "none": Change(frozenset()),
    "none-real": Change(frozenset(), real=True),
    "none-ranks": Change(frozenset(), ranks=2),
}


def main() -> int:
    """Return 1 if a change was not detected, or an unchanged run was doubted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--framework", nargs="+", choices=tuple(FLAGS), default=tuple(FLAGS))
    changes = {**SOUND, **CHANGES}
    parser.add_argument("--change", nargs="+", choices=tuple(changes), default=tuple(changes))
    given = parser.parse_args()
    print("| change | " + " | ".join(given.framework) + " |\n| --- |" + " --- |" * len(given.framework))
    unseen = 0
    with tempfile.TemporaryDirectory() as folder:
        pictures = make_pictures(Path(folder) / "pictures")
        for name in given.change:
            cells = [
                witnessed(framework, name, changes[name], Path(folder), pictures)
                for framework in given.framework
            ]
            unseen += sum((cell == "nothing") != (name in SOUND) for cell in cells if cell != "-")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return int(bool(unseen))


def witnessed(framework: str, name: str, change: Change, folder: Path, pictures: Path) -> str:
    """Return the doubts of a run with the change; ``-`` for one that cannot be made in the framework."""
    if framework in change.cannot:
        return "-"
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    flags: dict[str, Any] = {
        "framework": framework, "model": "mobilenet_v1", "batch-per-device": 4, "image-size": 32, "steps": 8,
        "warmup-steps": 2, "threads": 1, "events": events, **flags_of(framework, name, change),
    }  # fmt: skip
    if change.real:
        flags.update({"data": pictures, "loader-workers": 1})
    words = [python_of(framework), str(CHANGED), word_of(name), *(f"--{k}={v}" for k, v in flags.items())]
    rendezvous = {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29777",
        "OMP_WAIT_POLICY": "passive",
    }
    ranks = change.ranks
    started = [
        subprocess.Popen(
            words,
            env={
                **os.environ,
                **({**rendezvous, "RANK": str(r), "LOCAL_RANK": str(r)} if ranks == 2 else {}),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for r in range(ranks)
    ]
    for process in started:
        process.wait()
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    last = json.loads(lines[-1].removeprefix("DLLL "))["data"] if lines else {}
    if last.get("outcome") != "ok":
        return str(last.get("outcome", "no events"))
    doubts = [entry["code"] for entry in last["suspect"] if not entry["code"].startswith("queue-")]
    return ", ".join(f"`{code}`" for code in doubts) or "nothing"


if __name__ == "__main__":
    sys.exit(main())
