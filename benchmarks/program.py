"""A third-party program in a contest: each of its blocks is a complete run through its card."""

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
    temporary_folder = tempfile.TemporaryDirectory(prefix="program-")
    folder = Path(temporary_folder.name)
    versions: dict[str, str] = {}
    runs: list[dict[str, Any]] = []

    def block(steps: int) -> float:
        out = folder / str(len(runs))
        words = [own.trainmark, "-m", "trainmark.cli.main", "run", own.suite, "--out", str(out)]
        # The exit code is nonzero for warnings too, such as other processes' memory on the device.
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        if not (out / "results.json").exists():
            raise RuntimeError(f"{own.suite}: {(ran.stderr or ran.stdout).strip().splitlines()[-1:]}")
        result = json.loads((out / "results.json").read_text(encoding="utf-8"))
        if len(result["cases"]) != 1:
            raise ValueError(f"{own.suite} has {len(result['cases'])} cases, and one contends")
        (case,) = result["cases"]
        run_case, wanted = case["case"], _work(own)
        different = {
            key: (run_case.get(key), value) for key, value in wanted.items() if run_case.get(key) != value
        }
        if different:
            raise ValueError(f"{own.suite} asks for other work (its own, the contest's): {different}")
        if case["estimate"] is None:
            raise RuntimeError(f"{case['outcome']}: {case['reason'] or case['runs'][-1]['reason']}")
        versions.update(
            {run_case["workload"]: run_case["framework"], "trainmark": result["trainmark_version"]}
        )
        runs.append(case)
        return float(own.batch * steps / case["estimate"]["median"])

    def facts() -> dict[str, Any]:
        last = runs[-1]["runs"][-1]
        return {
            "case": runs[-1]["id"],
            "measured_steps": last["measurement"]["measured_steps"],
            "command": last["commands"],
        }

    # A run has its own warm-up. Its log contains neither the network's size nor the memory use.
    return Step(block, None, versions, lambda: None, facts, warm_up=1)


def _work(own: argparse.Namespace) -> dict[str, Any]:
    """Return the contest's settings as axes of a case."""
    return {
        "precision": own.precision,
        "image_size": own.image_size,
        "device": own.device,
        "batch_per_device": own.batch,
        "nodes": 1,
        "devices_per_node": 1,
    }
