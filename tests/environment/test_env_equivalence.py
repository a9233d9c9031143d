"""``trainmark env check --equivalence``: do the frameworks whose environments are here train by the same step?"""

import json
import re
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from frameworks import framework_python
from in_process import InProcessHost
from trainmark.cli.main import main
from trainmark.schema.certificate import Certificate
from trainmark.tasks import TASKS

CHECK = ["env", "check", "--equivalence"]
MOBILENET = ["--model", "mobilenet_v1"]
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home that has the environments of PyTorch and TensorFlow, and no other; their workers are forked."""
    monkeypatch.setattr("trainmark.campaign.certifying.LocalHost", InProcessHost)
    (tmp_path / "envs").mkdir()
    for name in ("pytorch", "tensorflow"):
        python = framework_python(name)
        if not python:
            pytest.skip(f"TRAINMARK_TEST_ENVS has no environment '{name}' (trainmark env create {name})")
        (tmp_path / "envs" / name).symlink_to(Path(python).parents[1])
    return tmp_path


@pytest.mark.training
@pytest.mark.rare
def test_two_frameworks_that_do_the_same_exit_0_and_say_how_close_they_are(
    home: Path, capsys: Captured
) -> None:
    # Nobody is named: those that are ready are asked.
    assert main([*CHECK, *MOBILENET, "--root", str(home)]) == 0
    output = capsys.readouterr()
    first, *_, last = output.out.splitlines()
    assert first.startswith("mobilenet_v1: 3 training steps in FP32")
    assert re.search(r"^  pytorch = tensorflow +logits \d\.\de-\d+, loss .*: ok$", output.out, re.MULTILINE)
    assert "4,231,976 parameters" in output.out
    assert last == "  equal work"
    assert "tensorflow: checking that its mobilenet_v1 computes the described training step" in output.err


@pytest.mark.training
def test_a_framework_without_an_environment_is_reported_with_the_checked_ones(
    home: Path, capsys: Captured
) -> None:
    assert main([*CHECK, "pytorch", "mindspore", *MOBILENET, "--root", str(home), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    (document,) = document["certificates"]
    certificate = Certificate.model_validate(document)
    assert [party.framework for party in certificate.parties] == ["pytorch"]
    assert certificate.parties[0].holds
    assert certificate.parties[0].device == "cpu"
    assert certificate.absent == {
        "mindspore": "environment 'mindspore' is not created yet (trainmark env create mindspore)"
    }


def test_missing_environments_exit_1_with_a_remedy(tmp_path: Path, capsys: Captured) -> None:
    assert main([*CHECK, "pytorch", "tensorflow", *MOBILENET, "--root", str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert "not checked: environment 'pytorch' is not created yet (trainmark env create pytorch)" in output
    assert "not checked: environment 'tensorflow' is not created yet" in output
    assert output.splitlines()[-1] == "  NOT shown to be equal work"


@pytest.fixture
def small_files() -> Iterator[None]:
    """Let this process write no file of more than a megabyte: the inputs of every model are larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_without_a_model_all_models_are_checked_and_no_unused_weights_are_written(
    tmp_path: Path, capsys: Captured
) -> None:
    assert main([*CHECK, "pytorch", "tensorflow", "--root", str(tmp_path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    models = {found["model"] for found in document["certificates"]}
    assert models == {model for task in TASKS.values() for model in task.models}
    assert not any(Certificate.model_validate(found).holds for found in document["certificates"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["pytroch", "tensorflow"], "no framework 'pytroch'; did you mean 'pytorch'?"),
        (["system", "pytorch"], "no framework 'system' (available: jax, "),
        (["/usr/bin/python3", "pytorch"], "no framework '/usr/bin/python3' (available: jax, "),
        (["pytorch", "jax", "--model", "resnet50"], "--model resnet50: no such model"),
        ([], "the check of equal work needs a framework, and no environment is ready"),
        (
            ["pytorch", "jax", "--python", "/usr/bin/python3"],
            "cannot be combined with --python or --framework",
        ),
        (["pytorch", "jax", "--framework", "jax"], "cannot be combined with --python or --framework"),
    ],
)
def test_invalid_arguments_exit_2_with_one_line(
    tmp_path: Path, capsys: Captured, arguments: list[str], complaint: str
) -> None:
    assert main([*CHECK, *arguments, "--root", str(tmp_path)]) == 2
    output = capsys.readouterr()
    assert complaint in output.err
    assert len(output.err.splitlines()) == 1
    assert output.out == ""


def test_a_model_without_equivalence_is_a_mistake(tmp_path: Path, capsys: Captured) -> None:
    assert main(["env", "check", "pytorch", *MOBILENET, "--root", str(tmp_path)]) == 2
    assert "--model needs --equivalence" in capsys.readouterr().err


def test_help_names_the_device_and_the_accepted_frameworks(capsys: Captured) -> None:
    assert main(["env", "check", "--help"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "in FP32 on this machine's CPU" in output
    assert "with --equivalence, only frameworks" in output
