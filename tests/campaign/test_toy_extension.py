"""A task and a framework of another tree, from the command line to the report, beside a program that counts images."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fakes import CARD, SUITE
from trainmark.tasks import TASKS

pytestmark = pytest.mark.process

TOY = Path(__file__).parents[1] / "toy"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the result directory of a suite whose cases are counted in two units."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "card.yaml").write_text(yaml.safe_dump(CARD))
    toy = {"framework": "toy", "model": "linear", "device": "cpu"}
    fake = {"workload": "fake", "framework": "fake", "model": "good", "batch_per_device": 4, "device": "cpu"}
    cases = [toy, {**toy, "features": 3}, fake, {**fake, "batch_per_device": 8}]
    suite = {**SUITE, "equivalence": False, "cases": cases}
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    done = trainmark("run", str(folder / "suite.yaml"), "--out", str(folder / "out"))
    assert done.returncode == 0, done.stderr
    return folder / "out"


def trainmark(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "trainmark.cli.main", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "TRAINMARK_EXTENSIONS": str(TOY)},
    )


def test_a_task_of_another_tree_is_measured_in_its_own_unit(out: Path) -> None:
    results = json.loads((out / "results.json").read_text())
    units = {run["measurement"]["unit"] for case in results["cases"][:2] for run in case["runs"]}
    assert units == {"values/s"}
    for case in results["cases"][:2]:
        measured, features = case["runs"][0]["measurement"], case["case"]["features"]
        assert measured["work"] == {"values": features * measured["samples"], "samples": measured["samples"]}
        assert measured["throughput"] == measured["work"]["values"] / measured["window_s"]
    assert [case["case"]["features"] for case in results["cases"][:2]] == [8, 3]
    assert [case["case"]["image_size"] for case in results["cases"][2:]] == [224, 224]


def test_the_units_of_two_tasks_never_share_a_table_or_a_plot(out: Path) -> None:
    text = (out / "report.md").read_text()
    tables = [line for line in text.splitlines() if line.startswith("### workload")]
    assert [line.rpartition(", ")[2] for line in tables] == ["values/s", "images/s"]
    plots = {path.name for path in (out / "plots").glob("throughput*.svg")}
    assert plots == {"throughput-values-s.svg", "throughput-images-s.svg"}


def test_the_axes_of_another_trees_task_are_in_the_csv_and_can_be_chosen_by(out: Path) -> None:
    done = trainmark("report", str(out), "--to", "csv")
    header, *rows = done.stdout.splitlines()
    assert {"features", "image_size", "layout"} <= set(header.split(","))
    assert len(rows) == 4
    planned = trainmark("plan", str(out / "suite.yaml"), "--only", "features=3", "--json")
    assert [json.loads(line)["id"] for line in planned.stdout.splitlines()] == [
        "toy-linear-fp32-b32-1n1g-synthetic-none-features3-cpu"
    ]


def test_without_its_folder_the_task_is_reported_as_unknown(out: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trainmark.cli.main", "plan", str(out / "suite.yaml")],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 2
    assert "suite.yaml:" in done.stderr
    known = ", ".join(TASKS)
    assert f"unknown task 'toy-regression' (known: {known})" in done.stderr
