"""Programs for a GPU are compiled before the runs, beside the checks of equal work; CPUs stand in for it here."""

import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import PropertyMock, patch

import pytest

from fakes import Bench, Silent
from frameworks import framework_python, needs_framework
from trainmark.campaign import compiling
from trainmark.campaign.compiling import compiled_ahead
from trainmark.campaign.executor import Executor
from trainmark.campaign.run_environment import RunEnvironment
from trainmark.execution import ResultDirectory
from trainmark.node import Heartbeat, LocalHost
from trainmark.report import render_markdown
from trainmark.schema.case import Case, Device, case_of
from trainmark.schema.outcome import Outcome, OutcomeRecord
from trainmark.schema.plan import NodeResources
from trainmark.schema.suite import Suite
from trainmark.workload import load_workloads

COMPILED = {
    "framework": "pytorch",
    "model": "mobilenet_tiny",
    "compiler": "torch.compile",
    "batch_per_device": 2,
}
ONE_GPU = NodeResources(cores=16, gpus=1)


@pytest.fixture
def gpu() -> Iterator[None]:
    """Let this machine have a GPU, which is its CPU; code for a CPU depends on the number of threads."""
    machine = PropertyMock(return_value=NodeResources(cores=2, gpus=1))
    with (
        patch.object(compiling, "THREADS", 2),
        patch.object(RunEnvironment, "machine", machine),
        patch.object(compiling, "device_of", return_value=Device.CUDA),
    ):
        yield


@pytest.mark.rare
@pytest.mark.training
@needs_framework("pytorch")
def test_a_run_takes_from_the_cache_what_was_compiled_before_it(bench: Bench, gpu: None) -> None:
    bench.write(
        {**COMPILED, "workload": "trainmark", "image_size": 32, "device": "cpu"},
        environment=framework_python("pytorch"),
        protocol={"name": "adaptive", "steps": 6, "warmup_steps": 2, "repeats": 1},
        equivalence=False,
    )

    results = bench.run()

    (case,) = results.cases
    (run,) = case.runs
    assert run.outcome is Outcome.OK, run.reason
    assert run.parameters.from_compile_cache
    assert run.measurement is not None
    assert run.measurement.compile_s is not None
    assert case.compiled_ahead_s is not None
    assert case.compiled_ahead_s > run.measurement.compile_s
    shown = re.search(r"([\d.]+); ([\d.]+) from the cache", render_markdown(results, bench.out))
    assert shown is not None
    assert [float(each) for each in shown.groups()] == pytest.approx(
        [case.compiled_ahead_s, run.measurement.compile_s], rel=0.01
    )
    # Another call compiles nothing, and keeps what the compilation took.
    record = bench.out / "runs" / case.id / "compilation" / "outcome.json"
    made = record.stat().st_mtime_ns
    assert bench.run(resume=True).cases == results.cases
    assert record.stat().st_mtime_ns == made


def case_with(**changes: Any) -> Case:
    return case_of(**{**COMPILED, "device": "cuda", **changes})


def executor_of(cases: tuple[Case, ...], folder: Path, hosts: int = 1) -> Executor:
    suite = Suite(name="s", cases=cases, environment="system")
    local = tuple(LocalHost(machine=ONE_GPU, name=f"node-{number}") for number in range(hosts))
    run_env = RunEnvironment(suite, load_workloads(), local, folder / "home")
    return Executor.at(run_env, suite, ResultDirectory(folder / "out"), Silent())


@pytest.mark.parametrize(
    ("changes", "hosts"),
    [
        ({"compiler": "none"}, 1),
        ({"compiler": "best"}, 1),
        ({"batch_per_device": "max"}, 1),
        ({"devices_per_node": 2}, 1),
        ({"device": "cpu"}, 1),
        ({"data": "texts"}, 1),
        ({}, 2),
    ],
)
def test_other_programs_are_left_to_their_runs(changes: dict[str, Any], hosts: int, tmp_path: Path) -> None:
    (case,) = cases = (case_with(**changes),)
    with (
        patch.object(compiling, "_compile") as compiled,
        compiled_ahead(executor_of(cases, tmp_path, hosts), cases),
    ):
        pass
    assert not compiled.called, case.id


def test_a_program_that_ran_is_not_compiled_again(tmp_path: Path) -> None:
    case = case_with()
    executor = executor_of((case,), tmp_path)
    folder = executor.directory.run(case, 1)
    folder.mkdir(parents=True)
    record = OutcomeRecord(case_id=case.id, repeat=1, outcome=Outcome.FAILED, reason="x")
    (folder / "outcome.json").write_text(record.to_json(), encoding="utf-8")

    with patch.object(compiling, "_compile") as compiled, compiled_ahead(executor, (case,)):
        pass
    assert not compiled.called


def test_compilations_meet_each_other_and_the_checks(tmp_path: Path) -> None:
    cases = (case_with(), case_with(model="gpt2_tiny"))
    meeting = threading.Barrier(3)

    def compile_one(*_rest: object) -> None:
        meeting.wait(timeout=30)

    with (
        patch.object(compiling, "_compile", compile_one),
        compiled_ahead(executor_of(cases, tmp_path), cases),
    ):
        meeting.wait(timeout=30)
    assert not meeting.broken


def test_an_interruption_ends_the_compilations(tmp_path: Path) -> None:
    case, started, ended = case_with(), threading.Event(), threading.Event()

    def compile_one(_case: Case, _executor: Executor, run_env: RunEnvironment) -> None:
        started.set()
        try:
            while True:
                # As run_plan does about twice a second.
                run_env.watch(Heartbeat(elapsed_s=1.0, step=None))
        except KeyboardInterrupt:
            ended.set()
            raise

    with (
        patch.object(compiling, "_compile", compile_one),
        suppress(KeyboardInterrupt),
        compiled_ahead(executor_of((case,), tmp_path), (case,)),
    ):
        started.wait(timeout=30)
        raise KeyboardInterrupt
    assert ended.wait(timeout=30)
