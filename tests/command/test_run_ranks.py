"""The ranks of a program are read by their tags or logs, and a slow one is named in terminal, results and report."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fakes import PROGRAMS
from trainmark.campaign.log_measurement import LoggedRun, measure_run
from trainmark.cli.main import main
from trainmark.cli.run_options import CommandOptions
from trainmark.cli.run_output import print_command_results
from trainmark.cli.suite_input import command_suite
from trainmark.logs.events import read_events
from trainmark.measure import NotMeasurable
from trainmark.schema.results import Results
from trainmark.suite import load_suite
from trainmark.workload import load_workloads

pytestmark = pytest.mark.process

PROGRAM = PROGRAMS / "command" / "ranks.py"


def measured(folder: Path, *words: str) -> dict[str, Any]:
    """Measure two ranks of the program in ``folder``; return the one run."""
    command = [sys.executable, str(PROGRAM), "--fork", "2", *words]
    main(["run", "--out", str(folder / "out"), "--repeats", "1", "--devices", "2", "--", *command])
    results = json.loads((folder / "out" / "results.json").read_text())
    (run,) = results["cases"][0]["runs"]
    found: dict[str, Any] = run
    return found


def codes(run: dict[str, Any]) -> dict[str, str]:
    return {doubt["code"]: doubt["sentence"] for doubt in run["suspicions"]}


@pytest.fixture(autouse=True)
def back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_rank_that_waits_for_its_data_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = measured(tmp_path, "--slow", "1", "--times")

    assert "samples/s" not in run["measurement"]["unit"], "nothing states the work of a step"
    fast, slow = run["rank_logs"]["ranks"]
    assert (fast["rank"], slow["rank"]) == (0, 1)
    assert slow["data_time_s"] > 2 * fast["data_time_s"] > 0
    assert (fast["waits_for_data"], slow["waits_for_data"]) == (False, True)
    sentence = codes(run)["rank-waits-for-data"]
    assert sentence.startswith("rank 1 waits ")
    printed = capsys.readouterr().out
    assert "ranks       rank 0: step " in printed
    assert f"doubt       {sentence} (rank-waits-for-data)" in printed
    main(["report", str(tmp_path / "out"), "--to", "md", "--out", str(tmp_path)])
    report = capsys.readouterr().out + "".join(path.read_text() for path in tmp_path.rglob("report.md"))
    assert sentence in report
    assert "wait for data in a step" in report


def test_a_slow_rank_is_found_by_the_arrival_of_its_lines(tmp_path: Path) -> None:
    run = measured(tmp_path, "--slow", "0", "--own-pace")

    assert codes(run)["rank-slower"].startswith("rank 0 is ")
    assert [one["is_slower"] for one in run["rank_logs"]["ranks"]] == [True, False]


def test_each_rank_may_write_a_log_of_its_own_below_the_folder_of_the_run(tmp_path: Path) -> None:
    run = measured(tmp_path, "--slow", "1", "--times", "--logs", "{run}/ranks")

    assert run["outcome"] == "ok", run["reason"]
    assert run["measurement"]["measured_steps"] > 40
    assert codes(run)["rank-waits-for-data"].startswith("rank 1 waits ")
    logs = [one["log"] for one in run["rank_logs"]["ranks"]]
    assert [Path(log).parent.name for log in logs] == ["0", "1"]


def test_output_that_torchrun_redirects_elsewhere_is_the_reason_and_the_way_out(tmp_path: Path) -> None:
    words = ["torchrun", "--nproc-per-node=2", "--redirects", "3", "--log-dir", "logs", "train.py"]
    suite = load_suite(command_suite(words, CommandOptions(), tmp_path).write(tmp_path / "out"))
    (case,) = suite.cases
    card = load_workloads(Path(path) for path in suite.cards).find(case).card
    (tmp_path / "train.log").write_text("")

    with pytest.raises(NotMeasurable, match=r"torchrun writes .* \(--log-dir \{run\}/node\{node\}\)"):
        measure_run(LoggedRun(case, card, tmp_path), read_events(tmp_path / "events.jsonl"))


def test_clocks_that_differ_are_named_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(tmp_path, "--times")
    results = Results.model_validate_json((tmp_path / "out" / "results.json").read_text())
    case = results.cases[0]
    run = case.runs[0]
    nodes = [
        run.telemetry[0].model_copy(update={"node": at, "host": f"node0{at + 1}", "clock_ahead_s": ahead_s})
        for at, ahead_s in enumerate((0.0, 3600.0))
    ]
    run = run.model_copy(update={"telemetry": tuple(nodes)})
    capsys.readouterr()
    print_command_results(
        results.model_copy(update={"cases": (case.model_copy(update={"runs": (run,)}),)}),
        tmp_path,
        command_suite(["python", str(PROGRAM)], CommandOptions(), tmp_path),
    )

    line = "clocks      node02 is 3600 s ahead of the first node; its window is corrected for that\n"
    assert line in capsys.readouterr().out
