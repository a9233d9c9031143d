"""Cases that cannot end within the limit of time, by their earlier runs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from foreign_cards import planned, written
from trainmark.campaign import cases_over_limit
from trainmark.check.preflight_suite import check_suite
from trainmark.cli.main import main
from trainmark.files import default_home
from trainmark.node import LocalHost
from trainmark.schema.check import CheckFinding
from trainmark.suite import load_suite


@pytest.mark.process
def test_a_case_that_ran_into_its_limit_is_named_by_plan_and_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    endless = {"command": ["{source}/train_mlp.py", "--style=nanogpt", "--steps=1000000"]}
    suite = written(tmp_path, {"limits": {"timeout_s": 3}}, **endless)
    assert main(["run", str(suite)]) == 1
    capsys.readouterr()

    (case,) = planned(suite, capsys)
    assert "an earlier run had not ended after " in case["cannot_end"]
    assert "limits.timeout_s is 3: raise it" in case["cannot_end"]
    assert main(["plan", str(suite)]) == 0
    assert "# cannot end in time: an earlier run" in capsys.readouterr().out
    main(["check", str(suite)])
    assert "mlp-python-b32 cannot end in time: an earlier run" in capsys.readouterr().out

    written(tmp_path, {"limits": {"timeout_s": 60}}, **endless)
    assert planned(suite, capsys)[0]["cannot_end"] is None


def checked(suite: Path) -> list[CheckFinding]:
    """Return what a check finds about the time of the suite's cases."""
    out = suite.with_name("results")
    found = check_suite(load_suite(suite), (LocalHost(),), default_home(os.environ), out, 300)
    return [finding for finding in found.findings if finding.check == "time"]


@pytest.mark.process
@pytest.mark.parametrize(("timeout_s", "level"), [(30, "warning"), (10**7, "ok")])
def test_check_times_a_few_steps_where_the_suite_sets_a_limit(
    timeout_s: int, level: str, tmp_path: Path
) -> None:
    command = ["{source}/train_mlp.py", "--style=nanogpt", "--steps={steps}"]
    suite = written(
        tmp_path,
        {
            "limits": {"timeout_s": timeout_s},
            "protocol": {"name": "adaptive", "repeats": 1, "steps": 1_000_000},
        },
        command=command,
    )

    (finding,) = checked(suite)

    assert finding.level == level
    assert "in time: at " in finding.found
    assert "its 1000000 steps take about " in finding.found
    assert finding.found.endswith(f"limits.timeout_s is {timeout_s:g}")
    assert not (tmp_path / "results").exists()


@pytest.mark.process
def test_check_runs_no_program_without_a_limit_and_says_if_the_number_of_steps_is_unknown(
    tmp_path: Path,
) -> None:
    endless: dict[str, Any] = {"command": ["{source}/train_mlp.py", "--style=nanogpt", "--steps=1000000"]}

    assert checked(written(tmp_path, **endless)) == []
    (finding,) = checked(written(tmp_path, {"limits": {"timeout_s": 60}}, **endless))

    assert finding.level == "note"
    assert "its number of steps is unknown" in finding.found


@pytest.mark.process
def test_a_run_that_ended_in_time_shows_that_its_case_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    suite = written(tmp_path)
    assert main(["run", str(suite)]) in (0, 1)

    directory = tmp_path / "results" / "mlp"
    assert cases_over_limit(load_suite(suite), directory) == {}
    document = json.loads((directory / "results.json").read_text())
    document["cases"][0]["runs"][0]["duration_s"] = 4000.0
    (directory / "results.json").write_text(json.dumps(document))
    (reason,) = cases_over_limit(load_suite(suite), directory).values()
    assert reason == "an earlier run shows that it takes about 4000 s; limits.timeout_s is 3600"
