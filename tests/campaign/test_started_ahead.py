"""The process of the next run imports its modules while the run before is verified, and begins when that has ended."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import pytest
import yaml

from fakes import Silent
from trainmark.campaign.executor import Executor
from trainmark.campaign.quiet import QuietWait
from trainmark.campaign.run_environment import RunEnvironment
from trainmark.execution import ResultDirectory
from trainmark.node import Heartbeat, LocalHost
from trainmark.node.processes import MARK
from trainmark.schema.case import Case, case_of
from trainmark.schema.plan import NodeResources
from trainmark.schema.suite import Suite
from trainmark.workload import load_workloads

pytestmark = pytest.mark.process

TOY = Path(__file__).parents[1] / "toy"
MODEL = TOY / "worker" / "models" / "toy_toy_regression.py"

PATIENT = f"""
exec(compile(open({str(MODEL)!r}).read(), "model", "exec"))
import os, sys, time
from pathlib import Path
IMPORTS = Path(os.environ["IMPORTS"])
with IMPORTS.open("a") as file:
    file.write("x")
NUMBER = len(IMPORTS.read_text())
print("imported", NUMBER, time.time(), flush=True)
if NUMBER == int(os.environ.get("FAILS", 0)):
    raise ImportError("this module fails")
class open_training(ToyRegressionTraining):
    def __init__(self, *given):
        print("opened", time.time(), os.getcwd(), os.readlink("/proc/self/fd/0"), flush=True)
        super().__init__(*given)
    def close(self):
        super().close()
        deadline = time.time() + 60
        while len(IMPORTS.read_text()) < min(NUMBER + 1, int(os.environ["WAITS_FOR"])) and time.time() < deadline:
            time.sleep(0.01)
        time.sleep(float(os.environ.get("CLOSES_S", 0)))
        print("closed", time.time(), flush=True)
"""
"""A toy whose run ends when the next process has imported it, unless it is the last of ``WAITS_FOR``."""


@dataclass(frozen=True)
class Toys:
    """A suite of toys that are started ahead."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def start(self, imports: int, *more: str, **variables: str) -> "subprocess.Popen[str]":
        words = [sys.executable, "-m", "trainmark.cli.main", "run", str(self.folder / "suite.yaml")]
        return subprocess.Popen(
            [*words, "--out", str(self.out), *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **os.environ,
                "TRAINMARK_EXTENSIONS": f"{self.folder / 'tree'}{os.pathsep}{TOY}",
                "TRAINMARK_HOME": str(self.folder / "home"),
                "IMPORTS": str(self.folder / "imports"),
                "WAITS_FOR": str(imports),
                **variables,
            },
        )

    def run(self, imports: int, *more: str, **variables: str) -> list[dict[str, Any]]:
        """Return the runs in the order in which they began."""
        process = self.start(imports, *more, **variables)
        text, _ = process.communicate(timeout=300)
        assert process.returncode in (0, 1), text
        # Without the tree, this process does not know the task of the document.
        results = json.loads((self.out / "results.json").read_text())
        runs = [run for case in results["cases"] for run in case["runs"]]
        return sorted(runs, key=lambda run: str(run["started_at"]))

    def log(self, run: dict[str, Any]) -> str:
        return Path(self.out, run["directory"], "train.log").read_text()

    def processes(self) -> list[psutil.Process]:
        """Return the processes of the campaign's runs."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK, "").startswith(str(self.out)) and process.status() != "zombie":
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture
def toys(tmp_path: Path) -> Toys:
    """Return a suite of two cases with two runs each."""
    tree = tmp_path / "tree" / "worker" / "models"
    tree.mkdir(parents=True)
    (tree / MODEL.name).write_text(PATIENT)
    write(tmp_path, {"repeats": 2})
    return Toys(tmp_path)


def write(folder: Path, protocol: dict[str, Any]) -> None:
    toy = {"framework": "toy", "model": "linear", "device": "cpu"}
    suite = {
        "name": "toys",
        "environment": "system",
        "equivalence": False,
        "gates": {"off": ["cpu-shared"]},
        "protocol": {"name": "adaptive", "steps": 12, "warmup_steps": 2, "order_seed": None, **protocol},
        "cases": [toy, {**toy, "features": 3}],
    }
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))


def moment(log: str, word: str) -> float:
    (found,) = re.findall(rf"^{word} (?:\d+ )?(\d+\.\d+)", log, re.MULTILINE)
    return float(found)


def wait_for(there: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_run_imports_before_the_run_before_it_has_ended_and_opens_after_it(toys: Toys) -> None:
    runs = toys.run(4)

    assert [run["outcome"] for run in runs] == ["ok"] * 4
    logs = [toys.log(run) for run in runs]
    for before, after, log, earlier in zip(runs, runs[1:], logs[1:], logs, strict=False):
        started = datetime.fromisoformat(after["started_at"])
        last_event = (toys.out / before["directory"] / "events.jsonl").stat().st_mtime
        assert last_event <= moment(log, "imported") < moment(earlier, "closed")
        assert moment(log, "opened") > started.timestamp() > moment(earlier, "closed")
    # What a run finds when it begins is the same for all.
    found = {log.split("opened ")[1].splitlines()[0].partition(" ")[2] for log in logs}
    assert len(found) == 1
    assert found.pop().endswith(" /dev/null")
    assert {tuple(doubt["code"] for doubt in run["suspicions"]) for run in runs} == {()}
    assert len({len(log.splitlines()) for log in logs}) == 1
    assert not list(toys.out.glob(".train*"))


def test_an_import_that_fails_ahead_is_the_outcome_of_its_run(toys: Toys) -> None:
    first, second, *_ = toys.run(4, FAILS="2")

    assert first["outcome"] == "ok"
    assert second["outcome"] == "unsupported"
    assert second["reason"] is not None
    assert second["reason"].endswith("ImportError: this module fails")
    assert moment(toys.log(second), "imported") < moment(toys.log(first), "closed")


def test_a_process_whose_run_is_not_the_next_one_is_dropped(toys: Toys) -> None:
    write(toys.folder, {"min_repeats": 1, "max_repeats": 3, "max_case_s": 0.001})

    runs = toys.run(3)

    assert [run["outcome"] for run in runs] == ["ok", "ok"]
    assert len((toys.folder / "imports").read_text()) == 3
    assert not toys.processes()
    assert not list(toys.out.glob(".train*"))
    assert len(list(toys.out.glob("runs/*/*/train.log"))) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_campaign_that_ends_leaves_no_process_that_waits(toys: Toys, number: signal.Signals) -> None:
    process = toys.start(4, CLOSES_S="60")
    wait_for(lambda: any("imported" in log.read_text() for log in toys.out.glob(".train*")))
    process.send_signal(number)
    process.communicate(timeout=60)

    wait_for(lambda: not toys.processes())
    assert len(list(toys.out.glob("runs/*/*"))) == 1
    if number == signal.SIGINT:
        assert not list(toys.out.glob(".train*"))
    runs = toys.run(6, "--resume")
    assert [run["outcome"] for run in runs] == ["ok"] * 4
    assert not list(toys.out.glob(".train*"))


def executor_for(
    case: Case, folder: Path, hosts: int = 1, quiet: QuietWait | None = None, where: Path | None = None
) -> Executor:
    suite = Suite(name="s", cases=(case,), environment="system")
    one_gpu = NodeResources(cores=16, gpus=1)
    local = tuple(LocalHost(machine=one_gpu, name=f"node-{number}", folder=where) for number in range(hosts))
    run_env = RunEnvironment(suite, load_workloads(), local, folder / "home")
    return Executor.at(run_env, suite, ResultDirectory(folder / "out"), Silent(), quiet)


PLAIN = {"framework": "pytorch", "model": "mobilenet_tiny", "batch_per_device": 2}


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_on_a_cpu_the_next_process_starts_after_the_last_event_and_on_a_gpu_after_the_window(
    device: str, tmp_path: Path
) -> None:
    case = case_of(**PLAIN, device=device)
    executor = executor_for(case, tmp_path)
    events = tmp_path / "out" / "runs" / case.id / "1" / "events.jsonl"
    events.parent.mkdir(parents=True)
    started: list[int] = []
    with patch.object(Executor, "start_ahead", lambda _executor, _case, repeat: started.append(repeat)):
        watch = executor.before(case, 1, case, 2).may_go_on
        for line, on_gpu, on_cpu in (
            ('DLLL {"step": "PARAMETER", "data": {}}', [], []),
            ('DLLL {"step": [0, 9], "data": {"phase": "measured"}}', [2], []),
            ('DLLL {"step": [], "data": {"outcome": "ok"}}', [2], [2]),
        ):
            with events.open("a") as file:
                file.write(f"{line}\n")
            assert watch(Heartbeat(1.0, None)) is None
            assert started == (on_gpu if device == "cuda" else on_cpu)


@pytest.mark.parametrize(
    ("changes", "given"),
    [
        ({"batch_per_device": "max"}, {}),
        ({"compiler": "best"}, {}),
        ({"devices_per_node": 2}, {}),
        ({"framework": "jax"}, {}),
        ({}, {"hosts": 2}),
        ({}, {"quiet": QuietWait(1)}),
        ({}, {"where": Path("/elsewhere")}),
    ],
)
def test_other_runs_start_one_after_the_other(
    changes: dict[str, Any], given: dict[str, Any], tmp_path: Path
) -> None:
    case = case_of(**{**PLAIN, "device": "cuda", **changes})
    executor = executor_for(case, tmp_path, **given)

    assert executor.before(case, 1, case, 2) is executor
