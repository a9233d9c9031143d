"""The certificate of equal work in a suite of several frameworks: made once, kept, and obeyed."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents import agent_host, hosts_file, stand_in
from fakes import call_in_this_process
from frameworks import framework_python, needs_framework
from trainmark.campaign.certifying import observed_case, questions
from trainmark.campaign.observation_run import Inputs
from trainmark.campaign.run_environment import RunEnvironment
from trainmark.node import LocalHost
from trainmark.placement import PlacementHost
from trainmark.schema.case import Case, case_of
from trainmark.schema.certificate import Certificate
from trainmark.schema.plan import NodeResources
from trainmark.schema.precision import Precision
from trainmark.schema.suite import Suite
from trainmark.workload import load_workloads

SUITE: dict[str, Any] = {
    "name": "two-frameworks",
    "protocol": {"name": "adaptive", "steps": 6, "warmup_steps": 2, "repeats": 1},
    "defaults": {"model": "mobilenet_v1", "batch_per_device": 2, "image_size": 32, "device": "cpu"},
    "axes": {"framework": ["pytorch", "paddle"]},
    "gates": {"off": ["cpu-shared"]},
}


def requested(*cases: dict[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    suite = Suite(name="s", cases=tuple(Case.model_validate(case) for case in cases))
    site = RunEnvironment(
        suite, load_workloads(), (LocalHost(machine=NodeResources(cores=2, gpus=0)),), Path("/nowhere")
    )
    return [(question.model, question.frameworks) for question in questions(site, suite.cases)]


def test_a_model_of_several_frameworks_is_certified_once() -> None:
    both = ({"framework": "pytorch"}, {"framework": "paddle"}, {"framework": "paddle", "devices_per_node": 2})
    assert requested(*both) == [("resnet50_v1.5", ("pytorch", "paddle"))]


def test_one_framework_alone_is_certified_against_the_golden_observation() -> None:
    one = {"framework": "pytorch", "model": "mobilenet_v1"}
    assert requested(one, {**one, "layout": "nhwc"}) == [("mobilenet_v1", ("pytorch",))]


def test_a_low_precision_is_another_question_and_fp32_is_one_too() -> None:
    one = {"framework": "pytorch", "model": "mobilenet_v1", "device": "cpu"}
    cases = tuple(
        Case.model_validate(case)
        for case in (
            {**one, "precision": "amp-bf16"},
            {**one, "precision": "amp-bf16", "layout": "nhwc"},
            {**one, "framework": "paddle", "precision": "amp-bf16"},
            {**one, "framework": "mindspore", "precision": "amp-fp16"},
        )
    )
    site = RunEnvironment(Suite(name="s", cases=cases), load_workloads(), (LocalHost(),), Path("/nowhere"))

    in_fp32, in_bf16, in_fp16 = questions(site, cases)

    assert in_fp32.precision is Precision.FP32
    assert in_fp32.frameworks == ("pytorch", "paddle", "mindspore")
    # PaddlePaddle computes in FP32 there.
    assert (in_bf16.precision, in_bf16.frameworks) == (Precision.AMP_BF16, ("pytorch",))
    assert [dict(variant.axes)["layout"] for variant in in_bf16.variants] == ["nchw", "nhwc"]
    assert (in_fp16.precision, in_fp16.frameworks) == (Precision.AMP_FP16, ("mindspore",))
    assert observed_case(in_bf16, "pytorch", site).precision is Precision.AMP_BF16


def test_a_precision_that_the_check_cannot_train_is_no_question() -> None:
    # JAX scales only the loss of a whole batch, and the check passes two parts.
    case = {"framework": "jax", "model": "gpt2_tiny", "task": "causal-lm", "precision": "amp-fp16"}
    assert requested(case) == [("gpt2_tiny", ("jax",))]


def test_a_case_that_the_framework_cannot_run_is_not_certified() -> None:
    assert requested({"framework": "mindspore", "model": "gpt2_tiny", "task": "causal-lm"}) == []


def test_frameworks_that_train_different_models_are_not_compared() -> None:
    others = {"framework": "paddle", "model": "wide_deep_tiny", "task": "recommendation"}
    cases = ({"framework": "pytorch", "model": "mobilenet_v1"}, others)
    assert requested(*cases) == [("mobilenet_v1", ("pytorch",)), ("wide_deep_tiny", ("paddle",))]


def test_what_trains_by_another_optimizer_is_another_question() -> None:
    frameworks = ("pytorch", "jax")
    cases = tuple(
        case_of(framework=framework, model="bert_tiny", device="cpu", optimizer=optimizer)
        for optimizer in ("adamw", "lamb")
        for framework in frameworks
    )
    site = RunEnvironment(Suite(name="s", cases=cases), load_workloads(), (LocalHost(),), Path("/nowhere"))

    of_adamw, of_lamb = questions(site, cases)

    assert (of_adamw.frameworks, of_lamb.frameworks) == (frameworks, frameworks)
    assert (of_adamw.rules, of_lamb.rules) == ((("optimizer", "adamw"),), (("optimizer", "lamb"),))
    assert observed_case(of_lamb, "jax", site).value("optimizer") == "lamb"
    separate = [(question.rules, question.frameworks) for question in questions(site, [cases[0], cases[3]])]
    assert separate == [((("optimizer", "adamw"),), ("pytorch",)), ((("optimizer", "lamb"),), ("jax",))]


# With real frameworks.


def run(folder: Path, *words: str, **changes: Any) -> "subprocess.CompletedProcess[str]":
    """Run the suite with a home that has the two environments and no other."""
    home = folder / "home"
    (home / "envs").mkdir(parents=True, exist_ok=True)
    for name in ("pytorch", "paddle"):
        link = home / "envs" / name
        if not link.exists():
            link.symlink_to(Path(framework_python(name)).parents[1])
    suite = folder / "suite.yaml"
    suite.write_text(yaml.safe_dump(SUITE | changes, sort_keys=False), encoding="utf-8")
    return call_in_this_process(
        "run", suite, "--out", folder / "out", *words, variables={"TRAINMARK_HOME": str(home)}
    )


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "results.json").read_text())
    return found


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (framework_python("pytorch") and framework_python("paddle")):
        pytest.skip("TRAINMARK_TEST_ENVS has not both environments 'pytorch' and 'paddle'")
    folder = tmp_path_factory.mktemp("certified")
    done = run(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.training
def test_a_run_of_two_frameworks_holds_the_certificate_and_says_so(measured: Path) -> None:
    (certificate,) = results(measured)["certificates"]
    assert {party["framework"] for party in certificate["parties"]} == {"pytorch", "paddle"}
    assert Certificate.model_validate(certificate).holds
    report = (measured / "out" / "report.md").read_text()
    assert "paddle, pytorch were verified to compute the same training step" in report
    stored = measured / "out" / "equivalence"
    assert sorted(path.name for path in stored.glob("*/*")) == ["certificate.json", "paddle", "pytorch"]


@pytest.mark.training
def test_a_certificate_that_fails_marks_the_table_and_the_exit_code(measured: Path) -> None:
    path = next((measured / "out" / "equivalence").glob("*/certificate.json"))
    stored = path.read_text()
    document = json.loads(stored)
    document["pairs"][0]["checks"][1]["deviation"] = 0.5
    path.write_text(json.dumps(document))
    try:
        done = run(measured, "--resume")
    finally:
        path.write_text(stored)
    assert done.returncode == 1
    assert "pytorch ≠" in done.stdout
    assert "paddle ≠" in done.stdout
    assert "NOT the same work" in (measured / "out" / "report.md").read_text()
    # What was measured is still there.
    assert all(case["estimate"] for case in results(measured)["cases"])


@pytest.mark.training
@needs_framework("pytorch")
def test_one_framework_is_certified_once_and_a_difference_is_reported(tmp_path: Path) -> None:
    alone = {"framework": ["pytorch"]}
    done = run(tmp_path, axes=alone)
    assert done.returncode == 0, done.stdout + done.stderr
    (certificate,) = results(tmp_path)["certificates"]
    assert [pair["frameworks"] for pair in certificate["pairs"]] == [["pytorch", "golden"]]
    assert "pytorch computes the training step of the golden observation" in done.stdout

    # Another result directory uses the certificate that is stored in the home.
    shutil.rmtree(tmp_path / "out")
    done = run(tmp_path, axes=alone)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (tmp_path / "out" / "equivalence").glob("*/*")
    assert path.name == "certificate.json"
    assert "checking that its mobilenet_v1" not in done.stderr

    document = json.loads(path.read_text())
    document["pairs"][0]["checks"][1]["deviation"] = 0.5
    path.write_text(json.dumps(document))
    done = run(tmp_path, "--resume", axes=alone)
    assert done.returncode == 1
    assert "NOT the same work. pytorch, golden differ in logits" in done.stdout


@pytest.mark.training
@pytest.mark.rare
@needs_framework("pytorch")
def test_one_framework_in_a_low_precision_is_certified_by_its_rounding(tmp_path: Path) -> None:
    defaults = {**SUITE["defaults"], "model": "gpt2_tiny", "precision": "amp-bf16", "sequence_length": 64}
    del defaults["image_size"]
    done = run(tmp_path, axes={"framework": ["pytorch"]}, defaults=defaults)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [Certificate.model_validate(document) for document in results(tmp_path)["certificates"]]
    assert [certificate.precision for certificate in found] == [Precision.FP32, Precision.AMP_BF16]
    assert all(certificate.holds for certificate in found)
    assert "within the rounding of amp-bf16" in done.stdout
    assert "Only FP32 was compared" not in done.stdout


@pytest.mark.training
@pytest.mark.rare
def test_a_framework_that_is_not_there_is_named_in_the_certificate(measured: Path, tmp_path: Path) -> None:
    done = run(tmp_path, axes={"framework": ["pytorch", "mindspore"]})
    assert done.returncode == 1
    (certificate,) = results(tmp_path)["certificates"]
    assert certificate["absent"] == {
        "mindspore": "environment 'mindspore' is not created yet (trainmark env create mindspore)"
    }
    assert not Certificate.model_validate(certificate).holds
    outcomes = {case["case"]["framework"]: case["outcome"] for case in results(tmp_path)["cases"]}
    assert outcomes == {"pytorch": "ok", "mindspore": "unsupported"}


@pytest.mark.training
@pytest.mark.rare
def test_a_suite_can_leave_the_check_out(measured: Path, tmp_path: Path) -> None:
    done = run(tmp_path, equivalence=False)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path)["certificates"] == []
    assert not (tmp_path / "out" / "equivalence").exists()
    assert "no evidence that the frameworks did the same work" in (tmp_path / "out" / "report.md").read_text()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    stand_in(tmp_path, monkeypatch)
    return tmp_path / "disk"


def test_a_host_gets_one_copy_of_the_inputs_and_keeps_none(tmp_path: Path, disk: Path) -> None:
    inputs = Inputs(tmp_path / "out" / "check" / "inputs")
    inputs.folder.parent.mkdir(parents=True)
    case = case_of(framework="pytorch", model="mobilenet_tiny", device="cpu")
    host = agent_host("faraway", disk)
    placed = PlacementHost(host.machine(), folder=disk)
    try:
        inputs.write(case, host, placed)
        there = inputs.path_on(placed)
        first = there.stat()
        inputs.write(case, host, placed)
        assert there.stat().st_ino == first.st_ino
        inputs.remove()
    finally:
        host.close()

    assert there.is_relative_to(disk)
    assert first.st_size > 1000
    assert not inputs.folder.exists()
    assert not there.parent.parent.parent.exists()


def test_this_machine_reads_the_inputs_where_they_are_written(tmp_path: Path) -> None:
    inputs = Inputs(tmp_path / "inputs")
    host, placed = LocalHost(), PlacementHost(NodeResources(cores=2, gpus=0))
    inputs.write(case_of(framework="pytorch", model="mobilenet_tiny", device="cpu"), host, placed)
    assert inputs.path_on(placed) == tmp_path / "inputs" / "inputs.npz"
    assert inputs.path_on(placed).is_file()


@pytest.mark.training
@needs_framework("pytorch")
def test_a_framework_is_certified_on_a_host_with_its_own_disk(tmp_path: Path, disk: Path) -> None:
    hosts = hosts_file(tmp_path / "hosts.yaml", "faraway", folder=disk)
    done = run(tmp_path, "--hosts", str(hosts), axes={"framework": ["pytorch"]})
    assert done.returncode == 0, done.stdout + done.stderr
    (certificate,) = results(tmp_path)["certificates"]
    assert Certificate.model_validate(certificate).holds
    assert [path for path in disk.rglob("*") if path.is_file()] == []
