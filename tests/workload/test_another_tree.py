"""A program in a folder of another tree: its card is planned, its log read, its publisher's rule known."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOY = Path(__file__).parents[1] / "toy"
WRITE = """
import sys
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import synthetic_log
sys.stdout.write(synthetic_log("toy-trainer", SampleRun([0.25] * 40, gpus=4, batch_per_device=32)))
"""
SUITE = """
name: toy
cases: [{workload: toy-trainer, framework: toy, model: linear, batch_per_device: 16}]
"""


def python(*words: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "TRAINMARK_EXTENSIONS": str(TOY)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def trainmark(*words: str | Path) -> str:
    return python("-m", "trainmark.cli.main", *words)


@pytest.mark.process
def test_its_log_is_read_and_its_publishers_rule_is_known(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(python("-c", WRITE))
    row = json.loads(trainmark("parse", log, "--json"))
    assert (row["format"], row["gpus"], row["batch_per_device"]) == ("toy-trainer", 4, 32)
    assert row["throughput"] == pytest.approx(512)
    rules = [json.loads(line) for line in trainmark("parse", "--list-rules", "--json").splitlines()]
    (published,) = [rule for rule in rules if "toy-trainer" in rule["formats"]]
    assert (published["rule"], published["published_by"]) == (
        "mean-skip-3",
        "the toy's own page: toy-trainer",
    )


@pytest.mark.process
def test_its_card_is_planned(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    plan = trainmark("plan", tmp_path / "suite.yaml")
    assert "train.py --steps=" in plan
    assert "--model=linear --batch=16" in plan
