"""The steps of another project's program: what the suite states, what was left out, and what the report says of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from foreign_cards import written
from trainmark.cli.main import main

STYLE = ["{source}/train_mlp.py", "--style=nanogpt", "--steps=240"]


def measured(folder: Path, suite: dict[str, Any], **card: Any) -> tuple[dict[str, Any], str]:
    path = written(folder, suite, command=STYLE, **card)
    assert main(["run", str(path), "--out", str(folder / "out")]) in (0, 1)
    (case,) = json.loads((folder / "out" / "results.json").read_text())["cases"]
    return case["runs"][0]["measurement"], (folder / "out" / "report.md").read_text()


@pytest.mark.process
@pytest.mark.parametrize(
    ("protocol", "card", "skipped"),
    [
        ({}, {}, 20),
        ({"steps": 100, "warmup_steps": 50}, {}, 50),
        ({"steps": 100, "warmup_steps": 50}, {"skip": 30}, 30),
        ({"steps": 100, "warmup_steps": 50}, {"rule": "median-skip-10"}, 10),
    ],
)
def test_the_report_states_what_was_measured(
    protocol: dict[str, Any], card: dict[str, Any], skipped: int, tmp_path: Path
) -> None:
    suite = {"protocol": {"name": "adaptive", "repeats": 1, **protocol}}
    measurement, report = measured(tmp_path, suite, **card)

    assert measurement["warmup_steps"] == skipped
    assert f"{skipped} left out as warm-up, {measurement['measured_steps']} measured." in report
    assert "A run has" not in report


def test_a_plan_of_other_programs_states_no_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(written(tmp_path, command=STYLE))]) == 0

    heading = capsys.readouterr().out.splitlines()[0]
    assert "as many steps per run as the command requests" in heading
    assert "not measured" not in heading


def test_a_rule_with_its_own_number_of_records_and_skip_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(written(tmp_path, rule="median-skip-10", skip=5))]) == 2

    assert "card.yaml:" in (printed := capsys.readouterr().err)
    assert "rule:" in printed
