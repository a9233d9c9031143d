"""The GitHub Action: its shell steps, run as a runner does, on two commits of a small repository."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
PROGRAM = """\
import time
import trainmark as tm

with tm.measure(unit="samples", warmup=3) as m:
    for _ in range(30):
        time.sleep({step_s})
        m.step(8)
"""
OPTIONS = "--repeats 3"
SUITE = """\
name: work
environment: system
gates: {off: [cpu-shared, two-levels, drift-over-runs]}
cards: [card.yaml]
protocol: {name: adaptive, repeats: 6, target_half_width: null}
cases: [{task: program, workload: work, framework: unknown}]
"""
CARD = """\
name: work
description: sleeps
framework: unknown
task: program
environment: system
source: {kind: files, files: [train.py]}
launcher: command
working_directory: source
log_format: auto
command: [python, train.py]
axes: {nodes: {}, devices_per_node: {}}
"""


@dataclass(frozen=True)
class JobRun:
    """A run of the action's steps: its exit code, what it printed, its outputs, its summary and its results."""

    code: int
    text: str
    outputs: Mapping[str, str]
    summary: str
    results: Path


def commit(folder: Path, message: str) -> None:
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *who, "commit", "-qm", message], cwd=folder, check=True)


def repository(folder: Path, *step_s: float | None) -> Path:
    """Return a repository with a commit for each time of a step; None is a program that fails."""
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    for number, step in enumerate(step_s):
        text = PROGRAM.format(step_s=step) if step is not None else "raise SystemExit('broken')\n"
        (folder / "train.py").write_text(text + f"# {number}\n")
        (folder / "suite.yaml").write_text(SUITE)
        (folder / "card.yaml").write_text(CARD)
        commit(folder, f"step {step}")
    return folder


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its expressions replaced; an expression that the test does not know raises ``KeyError``."""

    def value(expression: str) -> str:
        found = [part[1:-1] if part.startswith("'") else values[part] for part in expression.split(" || ")]
        return next((one for one in found if one), "")

    return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: value(match[1]), text)


def applies(condition: str | None, values: Mapping[str, str]) -> bool:
    """Return whether a step with this condition runs."""
    if condition is None:
        return True
    for part in condition.split(" && "):
        found = re.fullmatch(r"([\w.-]+)(?: (==|!=) '(\w*)')?", part)
        assert found, part
        value = values[found[1]]
        if not (bool(value) if found[2] is None else (value == found[3]) is (found[2] == "==")):
            return False
    return True


def run_action(place: Path, workspace: Path, number: str = "", api: str = "", **inputs: str) -> JobRun:
    """Run the steps until one fails, each as ``bash --noprofile --norc -eo pipefail`` runs it."""
    given = {name: one["default"] for name, one in ACTION["inputs"].items()} | {"install": ""}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    values = {f"inputs.{name}": value for name, value in given.items()}
    values |= {"github.event.pull_request.base.sha": "", "github.event.pull_request.number": number}
    temporary = place / "temporary"
    temporary.mkdir(exist_ok=True)
    files = {name: place / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    text, code = "", 0
    for step in ACTION["runs"]["steps"]:
        for path in files.values():
            path.touch()
        outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        if step.get("id") == "compare":
            files["GITHUB_OUTPUT"].write_text("")
        now = values | {f"steps.compare.outputs.{name}": value for name, value in outputs.items()}
        if code or not applies(step.get("if"), now):
            continue
        script = place / "step.sh"
        script.write_text(step["run"])
        ran = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=workspace,
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                **{name: filled(str(value), now) for name, value in step.get("env", {}).items()},
                **{name: str(path) for name, path in files.items()},
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "RUNNER_TEMP": str(temporary),
                "GITHUB_WORKSPACE": str(workspace),
                "GITHUB_ACTION_PATH": str(ROOT),
                "GITHUB_REPOSITORY": "owner/name",
                "GITHUB_API_URL": api,
            },
        )
        text += ran.stdout + ran.stderr
        code = ran.returncode
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    summary = files["GITHUB_STEP_SUMMARY"].read_text()
    return JobRun(code, text, outputs, summary, temporary / "trainmark" / "results")


@contextmanager
def github() -> Iterator[tuple[str, dict[int, str]]]:
    """Serve the part of GitHub's interface that comments need: yield its address and the comments."""
    comments: dict[int, str] = {1: "a person's comment"}

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, content: Any) -> None:
            if self.headers["Authorization"] != "Bearer secret":
                self.send_response(401)
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def _body(self) -> str:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            return str(json.loads(text)["body"])

        def do_GET(self) -> None:
            assert self.path.startswith("/repos/owner/name/issues/7/comments?")
            self._answer([{"id": number, "body": body} for number, body in comments.items()])

        def do_POST(self) -> None:
            assert self.path == "/repos/owner/name/issues/7/comments"
            comments[len(comments) + 1] = self._body()
            self._answer({})

        def do_PATCH(self) -> None:
            comments[int(self.path.rpartition("/")[2])] = self._body()
            self._answer({})

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", comments
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_slower_commit_fails_with_summary_junit_and_one_comment(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "work", 0.010, 0.020)
    with github() as (address, comments):
        given = {"suite": "suite.yaml", "comment": "true", "token": "secret"}
        found = run_action(tmp_path, workspace, number="7", api=address, **given)
        script = str(ROOT / "scripts" / "pull_request_comment.py")
        variables = {"TOKEN": "secret", "GITHUB_REPOSITORY": "owner/name", "GITHUB_API_URL": address}
        again = [sys.executable, script, "7", str(found.results / "summary.md")]
        subprocess.run(again, env={**os.environ, **variables}, check=True)

    assert found.code == 1, found.text
    assert "::error title=trainmark::slower than the baseline" in found.text
    assert found.outputs["verdict"] == "regression"
    assert "1 slower than the baseline" in found.summary
    ((test,),) = JUnitXml.fromfile(str(found.results / "junit.xml"))
    assert [one.type for one in test.result] == ["slower"]
    (case,) = json.loads((found.results / "comparison.json").read_text())["cases"]
    assert case["ratio"]["value"] < 0.7
    # The second comment replaced the first one, and the person's is untouched.
    assert sorted(comments) == [1, 2]
    assert comments[2] == f"<!-- trainmark -->\n{found.summary}"
    left = subprocess.run(
        ["git", "worktree", "list"], cwd=workspace, capture_output=True, text=True, check=True
    )
    assert left.stdout.count("\n") == 1


def test_an_equal_commit_passes_with_several_baselines(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "work", 0.010, 0.010)

    found = run_action(
        tmp_path, workspace, command="python train.py", options=OPTIONS, baseline_runs="2", within="30"
    )

    assert (found.code, found.outputs["verdict"]) == (0, "ok"), found.text
    assert found.text.index("baseline-2") < found.text.rindex("trainmark/results")
    comparison = json.loads((found.results / "comparison.json").read_text())
    assert len(comparison["baselines"]) == 2
    assert "none is slower than the baseline" in found.summary


def test_a_commit_that_no_longer_runs_is_a_regression_and_no_number(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "work", 0.010, None)

    found = run_action(tmp_path, workspace, command="python train.py", options=OPTIONS)

    assert (found.code, found.outputs["verdict"]) == (1, "regression"), found.text
    assert "0 of 1 case measured" in found.summary
    assert "failed: the baseline has a number" in found.summary


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "give either command or suite"),
        ({"command": "python train.py", "suite": "a.yaml"}, "give either command or suite"),
        (
            {"command": "python train.py", "baseline": "v9"},
            "the commit v9 is not in this clone (actions/checkout needs fetch-depth: 0)",
        ),
        ({"suite": "none.yaml"}, "trainmark run failed in "),
    ],
)
def test_inputs_that_cannot_be_used_are_one_error(
    inputs: dict[str, str], message: str, tmp_path: Path
) -> None:
    workspace = repository(tmp_path / "work", 0.010, 0.010)

    found = run_action(tmp_path, workspace, **inputs)

    assert found.code == 2
    assert f"::error title=trainmark::{message}" in found.text


def test_what_github_refuses_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "summary.md").write_text("text\n")
    with github() as (address, comments):
        ran = subprocess.run(
            [sys.executable, ROOT / "scripts" / "pull_request_comment.py", "7", tmp_path / "summary.md"],
            env={
                **os.environ,
                "TOKEN": "wrong",
                "GITHUB_REPOSITORY": "owner/name",
                "GITHUB_API_URL": address,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    assert (ran.returncode, sorted(comments)) == (1, [1])
    assert ran.stdout == (
        "::error title=trainmark::the comment cannot be written: HTTP Error 401: Unauthorized\n"
    )
    assert ran.stderr == ""


def test_no_input_is_written_into_a_script() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
