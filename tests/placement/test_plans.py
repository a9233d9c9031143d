"""Plans as they are printed, held by golden files; ``TRAINMARK_UPDATE_GOLDEN=1 pytest`` writes them anew."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.environment.resolving import Engine
from trainmark.node import LocalHost
from trainmark.node.machine import usable_cores
from trainmark.placement import (
    Container,
    FrameworkPython,
    PlacementHost,
    RunSpec,
    build_plan,
    container_python,
)
from trainmark.schema.case import Case, case_of
from trainmark.schema.plan import Command, NodeResources, Plan
from trainmark.schema.suite import Protocol
from trainmark.workload import Axis, Card, Counts, Image, UnsupportedByCard, Workload, load_workloads

GOLDEN = Path(__file__).with_name("golden")
VENV = FrameworkPython(Path("/home/me/envs/pytorch/bin/python"), isolated=True)
SYSTEM = FrameworkPython(Path("/usr/bin/python3"), isolated=False, variables={"OMP_WAIT_POLICY": "passive"})
HOST = NodeResources(cores=16, gpus=0)
DGX = NodeResources(cores=64, gpus=8)


def spec(
    case: Case,
    workload: Workload,
    interpreter: FrameworkPython,
    machine: NodeResources,
    repeat: int,
    folder: Path,
    data: str,
) -> RunSpec:
    protocol = Protocol.model_validate("dlperf")
    return RunSpec(case, workload, interpreter, (PlacementHost(machine),), protocol, repeat, folder, data)


def plan(case: Case, machine: NodeResources, interpreter: FrameworkPython, data: str = "synthetic") -> Plan:
    found = load_workloads().find(case)
    workload = Workload(found.card, Path("/trainmark/worker"))
    folder = Path("/results/runs/case/2")
    return build_plan(spec(case, workload, interpreter, machine, 2, folder, data))


PLANS: dict[str, tuple[dict[str, Any], NodeResources, FrameworkPython, str]] = {
    "one_process": ({}, HOST, VENV, "synthetic"),
    "one_process_system": ({"precision": "amp-bf16", "layout": "nhwc"}, HOST, SYSTEM, "synthetic"),
    "two_ranks": ({"devices_per_node": 2}, HOST, VENV, "synthetic"),
    "eight_gpus_real_data": (
        {"devices_per_node": 8, "data": "imagenet", "loader": "nvjpeg", "compiler": "torch.compile"},
        DGX,
        VENV,
        "/data/image net/train",
    ),
    "four_nodes_of_eight": (
        {"nodes": 4, "devices_per_node": 8, "precision": "tf32"},
        DGX,
        SYSTEM,
        "synthetic",
    ),
    "two_nodes_of_two_ranks": (
        {"framework": "tensorflow", "nodes": 2, "devices_per_node": 2},
        HOST,
        VENV,
        "synthetic",
    ),
    "options": (
        {"options": {"learning_rate": 0.1, "schedule": "constant"}, "device": "cpu", "image_size": 64},
        DGX,
        VENV,
        "synthetic",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_reads_as_its_golden_file(name: str) -> None:
    axes, machine, interpreter, data = PLANS[name]
    found = plan(Case.model_validate(axes), machine, interpreter, data)
    text = f"# {found.case.id}\n"
    text += f"# cannot run here: {found.cannot_run}\n" if found.cannot_run else ""
    text += "".join(f"# node {command.node}\n{command.text()}\n" for command in found.commands)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("TRAINMARK_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_the_cores_of_a_node_are_shared_out_among_its_ranks() -> None:
    for devices, threads in ((1, 16), (2, 8), (3, 5), (16, 1), (17, 1)):
        found = plan(case_of(devices_per_node=devices), HOST, VENV)
        assert found.commands[0].variables["OMP_NUM_THREADS"] == str(threads)
        assert f"--threads={threads}" in found.commands[0].words


def test_every_run_of_a_case_has_a_seed_of_its_own() -> None:
    assert "--seed=2" in plan(case_of(), HOST, VENV).commands[0].words


@pytest.mark.parametrize(
    ("axes", "machine", "why"),
    [
        ({"nodes": 2}, DGX, "2 nodes are required, but only one host is known"),
        ({"devices_per_node": 9}, DGX, "9 devices per node are required, but this machine has 8 GPUs"),
        (
            {"devices_per_node": 17},
            HOST,
            "17 devices per node are required, but this machine has 16 CPU cores",
        ),
        (
            {"devices_per_node": 2},
            NodeResources(1, 0),
            "2 devices per node are required, but this machine has 1 CPU core",
        ),
        ({"device": "cuda"}, HOST, "a GPU is required, but this machine has none"),
        ({}, NodeResources(0, 0, unreachable="gpu7: no route to host"), "gpu7: no route to host"),
        ({"device": "cpu", "devices_per_node": 16}, DGX, None),
        ({"devices_per_node": 8}, DGX, None),
    ],
)
def test_what_a_machine_lacks_is_reported_in_the_plan(
    axes: dict[str, Any], machine: NodeResources, why: str | None
) -> None:
    assert plan(Case.model_validate(axes), machine, VENV).cannot_run == why


def test_this_machine_has_no_more_cores_than_this_process_may_use() -> None:
    assert 1 <= LocalHost().machine().cores <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("quota", "cores"), [(None, 64), (4.0, 4), (1.5, 1), (0.5, 1), (100.0, 64)])
def test_a_containers_quota_bounds_the_cores(quota: float | None, cores: int) -> None:
    assert usable_cores(64, quota) == cores


def test_hidden_gpus_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert LocalHost().machine().gpus == 0


def fake(**card: Any) -> Workload:
    document = {
        "name": "fake", "description": "", "framework": "fake", "environment": "system",
        "source": {"kind": "folder", "path": "."}, "launcher": "process", "log_format": "trainmark",
        "command": ["{source}/train.py"], "axes": {}, "task": "image-classification",
    }  # fmt: skip
    return Workload(Card.model_validate(document | card), Path("/programs"))


def words(workload: Workload, case: Case) -> tuple[str, ...]:
    return (
        build_plan(spec(case, workload, SYSTEM, HOST, 1, Path("/out"), "/data/{events}"))
        .commands[0]
        .words[1:]
    )


def test_a_program_that_counts_the_global_batch_is_given_it() -> None:
    flags = Axis(flags=("-b", "{value}"), counts=Counts.GLOBAL)
    workload = fake(axes={"batch_per_device": flags, "devices_per_node": Axis()})
    assert words(workload, case_of(framework="fake", batch_per_device=32, devices_per_node=4)) == (
        "/programs/train.py",
        "-b",
        "128",
    )


def test_a_value_with_braces_stays_as_it_is() -> None:
    workload = fake(axes={"data": Axis(flags=("--data={value}",))})
    assert words(workload, case_of(framework="fake", data="x"))[1] == "--data=/data/{events}"


def test_an_axis_that_the_card_fixes_can_have_that_value_alone() -> None:
    workload = fake(fixed={"precision": "amp-fp16"})
    assert words(workload, case_of(framework="fake", precision="amp-fp16"))
    with pytest.raises(UnsupportedByCard, match="can only do precision amp-fp16, not fp32"):
        words(workload, case_of(framework="fake"))


awkward = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda n: n not in ("PATH", "_", "PWD")
)
SAY = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"


def output_of_a_shell(command: Command) -> tuple[list[str], Mapping[str, str]]:
    done = subprocess.run(
        ["/bin/sh", "-c", command.text()],
        capture_output=True,
        check=True,
        env={"GONE": "1", "LC_ALL": "C.UTF-8"},
    )
    arguments, environment = json.loads(done.stdout)
    return arguments, environment


@settings(max_examples=25, deadline=None)
@given(st.lists(awkward, max_size=4), st.dictionaries(names, awkward, max_size=3), st.booleans())
def test_a_shell_reads_a_printed_command_as_it_was_meant(
    arguments: list[str], variables: dict[str, str], clean: bool
) -> None:
    command = Command(0, (sys.executable, "-I", "-c", SAY, *arguments), variables, ("GONE",) if clean else ())
    there, environment = output_of_a_shell(command)
    assert there == arguments
    assert {name: environment.get(name) for name in variables} == variables
    assert ("GONE" in environment) is not (clean and "GONE" not in variables)


def test_a_printed_command_can_be_split_again() -> None:
    text = plan(case_of(), HOST, VENV).commands[0].text()
    assert shlex.split(text)[:5] == ["env", "-u", "PYTHONPATH", "-u", "PYTHONHOME"]


def on_two_gpus(machine: NodeResources, **card: Any) -> Command:
    workload = fake(axes={"devices_per_node": Axis(), "device": Axis()}, **card)
    case = Case.model_validate({"framework": "fake", "devices_per_node": 2, "device": "cuda"})
    return build_plan(spec(case, workload, SYSTEM, machine, 1, Path("/out"), "synthetic")).commands[0]


def test_the_gpus_that_the_caller_hides_stay_hidden() -> None:
    shared = NodeResources(cores=8, gpus=2, visible=("5", "GPU-8f", "7"))
    assert on_two_gpus(shared, launcher="spawn").variables["CUDA_VISIBLE_DEVICES"] == "5,GPU-8f"
    assert "--gpus=5,GPU-8f" in on_two_gpus(shared, launcher="paddle").words
    assert on_two_gpus(DGX, launcher="spawn").variables["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_a_container_is_given_the_hosts_gpus_and_counts_them_anew() -> None:
    container = Container(Engine.DOCKER, "image", Image(reference="image"), "1:1")
    within = FrameworkPython(Path("python"), isolated=False, container=container)
    workload = fake(axes={"devices_per_node": Axis(), "device": Axis()}, launcher="spawn")
    case = Case.model_validate({"framework": "fake", "devices_per_node": 2, "device": "cuda"})
    machine = NodeResources(cores=8, gpus=3, visible=("5", "6", "7"))
    words = build_plan(spec(case, workload, within, machine, 1, Path("/out"), "synthetic")).commands[0].words
    assert words[words.index("--gpus") + 1] == '"device=5,6"'
    assert "CUDA_VISIBLE_DEVICES=0,1" in words


def test_what_is_visible_is_read_as_the_names_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-8f,")
    assert LocalHost().machine().visible == ("3", "GPU-8f")


def test_an_image_pinned_by_its_digest_is_run_as_it_is_named() -> None:
    reference = f"registry.example.org:5000/a/image@sha256:{'0a' * 32}"
    card = fake(image={"reference": reference}).card
    within = container_python(case_of(framework="fake"), card, Engine.DOCKER, Path("/prepared"), "1:1")
    assert within.container == Container(Engine.DOCKER, reference, Image(reference=reference), "1:1")
