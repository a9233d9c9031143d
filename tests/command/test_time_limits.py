"""Cases that cannot end within the limit of time, by their earlier runs."""

import json
from pathlib import Path

import pytest

from foreign_cards import planned, written
from trainmark.campaign import cases_over_limit
from trainmark.cli.main import main
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
