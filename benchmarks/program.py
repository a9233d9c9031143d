"""Somebody's unmodified program in a contest: each of its blocks is a whole run of it through its card."""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from contest import Step


def by_card(own: argparse.Namespace) -> Step:
    """Return the program of the one case of ``own.suite``, which ``own.trainmark`` measures, a Python that has it.

    Raises ``ValueError`` where the suite asks for other work than the contest is about, and ``RuntimeError`` where a
    run gives no number.
    """
    kept_until_the_end = tempfile.TemporaryDirectory(prefix="program-")
    folder = Path(kept_until_the_end.name)
    versions: dict[str, str] = {}
    runs: list[dict[str, Any]] = []

    def block(steps: int) -> float:
        words = [
            own.trainmark,
            "-m",
            "trainmark.cli.main",
            "run",
            own.suite,
            "--out",
            str(folder / str(len(runs))),
        ]
        # The exit code says that something speaks against the number too, as that others have memory on the device.
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        kept = folder / str(len(runs)) / "results.json"
        if not kept.exists():
            raise RuntimeError(f"{own.suite}: {(ran.stderr or ran.stdout).strip().splitlines()[-1:]}")
        result = json.loads(kept.read_text(encoding="utf-8"))
        ((case, asked),) = [(one, one["case"]) for one in result["cases"]]
        different = {
            key: (asked.get(key), wanted)
            for key, wanted in (
                *((key, getattr(own, key)) for key in ("precision", "image_size", "device")),
                ("batch_per_device", own.batch), ("nodes", 1), ("devices_per_node", 1),
            )
            if asked.get(key) != wanted
        }  # fmt: skip
        if different:
            raise ValueError(f"{own.suite} asks for other work (its own, the contest's): {different}")
        if case["estimate"] is None:
            raise RuntimeError(f"{case['outcome']}: {case['reason'] or case['runs'][-1]['reason']}")
        versions.update({asked["workload"]: asked["framework"], "trainmark": result["trainmark_version"]})
        runs.append(case)
        return float(own.batch * steps / case["estimate"]["median"])

    def told() -> dict[str, Any]:
        steps = [
            run["measurement"]["measured_steps"]
            for case in runs
            for run in case["runs"]
            if run["measurement"]
        ]
        return {
            "case": runs[-1]["id"],
            "measured_steps": steps[-1],
            "command": runs[-1]["runs"][-1]["commands"],
        }

    # A run warms itself up. What its network has is not in its log, nor what memory it took.
    return Step(block, None, versions, lambda: None, told, warm_up=1)
