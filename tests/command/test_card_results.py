"""A program that writes its number into a JSON file: the card's ``result``."""

import json
from pathlib import Path
from typing import Any

import pytest

from foreign_cards import written
from trainmark.cli.main import main
from trainmark.errors import InputError
from trainmark.workload import read_card

PROGRAM = """
import sys
with open("metrics.json", "w") as file:
    file.write(sys.argv[1])
print("done")
"""


def card(text: str) -> dict[str, Any]:
    return {
        "command": ["{source}/own.py", text],
        "result": {"file": "metrics.json", "path": "train.runs.-1.rate"},
        "unit": "samples/s",
    }


def run_of(folder: Path, text: str) -> dict[str, Any]:
    suite = written(folder, {"axes": {"devices_per_node": [1]}}, **card(text))
    (folder / "program" / "own.py").write_text(PROGRAM)
    document = (folder / "card.yaml").read_text().replace("log_format: nanogpt\n", "")
    (folder / "card.yaml").write_text(document)
    assert main(["run", str(suite), "--out", str(folder / "out")]) in (0, 1)
    (case,) = json.loads((folder / "out" / "results.json").read_text())["cases"]
    run: dict[str, Any] = case["runs"][0]
    return run


@pytest.mark.process
def test_a_value_in_a_json_file_is_the_number(tmp_path: Path) -> None:
    run = run_of(tmp_path, json.dumps({"train": {"runs": [{"rate": 1}, {"rate": 4425.5}]}}))

    found = run["measurement"]
    assert (run["outcome"], found["throughput"], found["unit"]) == ("ok", 4425.5, "samples/s")
    assert (found["rule"], found["window_s"]) == ("result", None)
    report = (tmp_path / "out" / "report.md").read_text()
    assert "its steps, warm-up and window are unknown" in report
    assert "A run has" not in report


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"train": {}}', "metrics.json has no 'train.runs'"),
        ('{"train": {"runs": [{"rate": "12"}]}}', "'train.runs.-1.rate' is \"12\", not a number"),
        ('{"train": {"runs": [{"rate": NaN}]}}', "is nan; expected a number above 0"),
        ("{", "metrics.json is not JSON"),
    ],
)
def test_a_file_without_the_number_makes_the_run_invalid(text: str, reason: str, tmp_path: Path) -> None:
    run = run_of(tmp_path, text)

    assert run["outcome"] == "invalid"
    assert reason in run["reason"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unit": None}, "the key 'unit' is missing"),
        ({"rule": "median"}, "'result' is the number: remove 'rule'"),
        ({"result": {"file": "../x.json", "path": "a"}}, "is not a path within the run's folder"),
        ({"result": {"file": "x.json"}}, r"result\.path: field required"),
    ],
)
def test_a_result_that_cannot_be_used_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    written(tmp_path, **(card("") | change))

    with pytest.raises(InputError, match=message):
        read_card(tmp_path / "card.yaml")
