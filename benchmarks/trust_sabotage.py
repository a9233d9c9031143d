"""Which changes of a built-in worker its own witnesses see: a table of changes and frameworks, in Markdown.

    python benchmarks/trust_sabotage.py                          every framework whose environment is made
    python benchmarks/trust_sabotage.py --framework pytorch --change none frozen-stem

Each change (``tests/programs/changed_worker.py``) begins at step 3, behind the look at the first step, or is in the
data. A cell has the doubts of the run. ``none`` is the worker as it is, which must be in no doubt.
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

CHANGED = Path(__file__).resolve().parents[1] / "tests" / "programs" / "changed_worker.py"
OF_ANY = ("none", "half-size", "steps-left-out")
OF_REAL = ("one-batch", "no-normalisation")
OF_PYTORCH = (
    "batch-norm-evaluates", "forward-only", "frozen-stem", "bf16", "one-layer-in-bf16", "momentum", "decay",
)  # fmt: skip
OF_RANKS = ("gradients-summed", "no-all-reduce")


def main() -> int:
    """Return 1 where a change was not seen, or a sound run was doubted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--framework", nargs="+", choices=tuple(FLAGS), default=tuple(FLAGS))
    changes = (*OF_ANY, *OF_REAL, *OF_PYTORCH, *OF_RANKS)
    parser.add_argument("--change", nargs="+", choices=changes, default=changes)
    given = parser.parse_args()
    print("| change | " + " | ".join(given.framework) + " |\n| --- |" + " --- |" * len(given.framework))
    unseen = 0
    with tempfile.TemporaryDirectory() as folder:
        pictures = make_pictures(Path(folder) / "pictures")
        for change in given.change:
            cells = [seen(name, change, Path(folder), pictures) for name in given.framework]
            unseen += sum((cell == "nothing") != (change == "none") for cell in cells if cell != "-")
            print(f"| {change} | " + " | ".join(cells) + " |", flush=True)
    return int(bool(unseen))


def seen(framework: str, change: str, folder: Path, pictures: Path) -> str:
    """Return the doubts of a run with the change; ``-`` for one that is not made in the framework."""
    if change not in (*OF_ANY, *OF_REAL) and framework != "pytorch":
        return "-"
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    flags: dict[str, Any] = {
        "framework": framework, "model": "mobilenet_v1", "batch-per-device": 4, "image-size": 32, "steps": 8,
        "warmup-steps": 2, "threads": 1, "events": events, **FLAGS[framework], "compiler": compiler(framework),
    }  # fmt: skip
    loader = flags.pop("loader", None)
    if change in OF_REAL:
        flags.update({"data": pictures, **({"loader": loader} if loader else {})})
    if change == "one-layer-in-bf16":
        flags.update({"precision": "amp-fp16", "layout": "nhwc"})
    ranks = 2 if change in OF_RANKS else 1
    if ranks == 2:
        flags["gradients"] = "flat"
    words = [python_of(framework), str(CHANGED), change, *(f"--{k}={v}" for k, v in flags.items())]
    together = {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29777",
    }
    started = [
        subprocess.Popen(
            words,
            env={**os.environ, **({**together, "RANK": str(r), "LOCAL_RANK": str(r)} if ranks == 2 else {})},
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


def compiler(framework: str) -> str:
    """Return the compiler of the runs: none, where the framework shows more of itself without one."""
    return {"jax": "xla", "tensorflow": "graph"}.get(framework, "none")


if __name__ == "__main__":
    sys.exit(main())
