"""``trainmark run`` from outside: exit codes, standard output, standard error."""

import json
import os
import subprocess
import sys

import pytest

from fakes import Bench, behaving


@pytest.mark.process
def test_a_suite_that_holds_prints_its_table_and_exits_0(bench: Bench) -> None:
    bench.write(name="well")
    # As a user starts it; the others run in copies of a process that has imported trainmark.
    done = subprocess.run(
        [sys.executable, "-m", "trainmark.cli.main", *bench.words()],
        capture_output=True,
        text=True,
        env={**os.environ, **bench.environment()},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Suite well: ")
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == f"report: {bench.out}/report.html"
    names = {path.name for path in bench.out.iterdir()}
    assert {"suite.yaml", "results.json", "results.sqlite", "report.md", "report.html", "runs"} <= names
    assert {path.name for path in bench.out.glob("runs/*/1/*")} == {
        "train.log", "events.jsonl", "manifest.json", "telemetry.jsonl", "outcome.json", "pids",
    }  # fmt: skip


def test_only_runs_the_chosen_cases_and_json_prints_the_results_alone(bench: Bench) -> None:
    bench.write({}, {"batch_per_device": 8})
    done = bench.call("--only", "batch_per_device=8", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document == json.loads((bench.out / "results.json").read_text())
    reported = {
        case["case"]["batch_per_device"]: (case["outcome"], len(case["runs"])) for case in document["cases"]
    }
    assert reported == {4: ("skipped", 0), 8: ("ok", 1)}
    assert document["complete"] is False


def test_a_doubtful_or_missing_result_exits_1(bench: Bench) -> None:
    bench.write(behaving("nan-loss"), behaving("needs-3"))
    done = bench.call("--json")
    assert done.returncode == 1
    first, second = json.loads(done.stdout)["cases"]
    assert first["runs"][0]["suspicions"][0]["code"] == "loss-not-finite"
    assert first["estimate"]["n"] == 1
    assert (second["outcome"], second["estimate"]) == ("oom", None)


def test_input_that_cannot_be_used_exits_2_with_one_line(bench: Bench) -> None:
    bench.write()
    bench.suite.write_text(bench.suite.read_text().replace("protocol:", "protocoll:"))
    done = bench.call()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "protocoll: is not a key of a suite; did you mean 'protocol'?" in done.stderr
