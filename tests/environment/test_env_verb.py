"""The verb ``trainmark env``: exit codes, one-line errors, JSON."""

import json
import sys
from pathlib import Path

import pynvml
import pytest

from made_environments import make_empty_environment
from trainmark.cli.main import main


def test_list_prints_every_environment_and_its_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["env", "list", "--root", str(tmp_path), "--json"]) == 0
    rows = {row["environment"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["pytorch"]["state"] == "not created"
    assert rows["system"]["path"] == sys.executable
    assert main(["env", "list", "--root", str(tmp_path)]) == 0
    assert "not created" in capsys.readouterr().out


def test_list_has_a_line_per_framework_with_its_variants_and_obstacles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["env", "list", "--root", str(tmp_path)]) == 0
    head, *lines, place = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "environment"
    assert place == f"in {tmp_path}/envs"
    by_name = {line.split()[0]: line for line in lines}
    assert by_name["pytorch"].endswith("cpu, cuda; Python 3.11, 3.12, 3.13; --extra dali, parquet")
    assert "with --wheel FILE or --index URL only: PyPI's 'oneflow' is a placeholder" in by_name["oneflow"]
    assert "--extra horovod" in by_name["mxnet"]

    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert main(["env", "list", "--root", str(tmp_path)]) == 0
    assert "no Python 3.11 or 3.12 or 3.13 found here" in capsys.readouterr().out


def test_several_are_created_in_turn_and_failures_are_listed_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    names = ["pytorch", "jax", "pytorch"]
    assert main(["env", "create", *names, "--variant", "cpu", "--root", str(tmp_path / "file")]) == 1
    first, second, last = capsys.readouterr().err.splitlines()
    assert first.startswith("trainmark env: pytorch: ")
    assert second.startswith("trainmark env: jax: ")
    assert last == "trainmark env: failed: pytorch, jax"


def test_all_reports_skipped_frameworks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["env", "create", "--all", "--variant", "cpu", "--root", str(tmp_path / "file")]) == 1
    output = capsys.readouterr().err
    assert "trainmark env: oneflow is skipped: with --wheel FILE or --index URL only" in output
    assert "oneflow" not in output.splitlines()[-1]
    assert "pytorch" in output.splitlines()[-1]


def test_check_of_a_missing_environment_exits_1_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["env", "check", "pytorch", "--root", str(tmp_path)]) == 1
    assert "not created yet (trainmark env create pytorch)" in capsys.readouterr().out


def test_check_of_a_moved_environment_exits_1_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_empty_environment(tmp_path / "before", "pytorch")
    (tmp_path / "before").rename(tmp_path / "after")
    assert main(["env", "check", "pytorch", "--root", str(tmp_path / "after")]) == 1
    moved_to = tmp_path / "after" / folder.relative_to(tmp_path / "before")
    assert capsys.readouterr().out == (
        f"FAIL state      environment 'pytorch' was moved to {moved_to}, but a venv works only where it was created "
        "(trainmark env create pytorch)\n"
    )
    assert main(["env", "list", "--root", str(tmp_path / "after"), "--json"]) == 0
    rows = {row["environment"]: row["state"] for row in json.loads(capsys.readouterr().out)}
    assert rows["pytorch"] == "moved"


def test_auto_reports_a_gpu_without_a_cuda_lock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    create = ["env", "create", "--root", str(tmp_path / "file")]
    assert main([*create, "paddle"]) == 2
    if "this machine has a GPU" not in capsys.readouterr().err:
        # No GPU here: NVML answers for one that is not there.
        monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
        monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    assert main([*create, "paddle"]) == 2
    first, *_ = capsys.readouterr().err.splitlines()
    assert first == (
        "trainmark env: this machine has a GPU, but 'paddle' has no lock for CUDA: using the CPU build; "
        "PyPI's paddlepaddle is the CPU build; for a GPU build give a wheel of paddlepaddle-gpu by --wheel "
        "(docs/reference/environments.md)"
    )
    for arguments in (["paddle", "--variant", "cpu"], ["jax"]):
        assert main([*create, *arguments]) == 2
        assert "no lock for CUDA" not in capsys.readouterr().err


def test_check_of_a_python_without_the_framework_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A Python that sees no installed package: the framework is certainly not there.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    python.chmod(0o755)
    assert main(["env", "check", "system", "--python", str(python), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    failed = [finding["message"] for finding in report["findings"] if not finding["ok"]]
    assert failed == ["'torch' does not import: ModuleNotFoundError: No module named 'torch'"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["create", "pytroch"], "did you mean 'pytorch'"),
        (
            ["create", "pytorch", "--variant", "cpu", "--python", "/nowhere/python"],
            "does not run as a Python",
        ),
        (["create", "pytorch", "--variant", "cpu", "--wheel", "a.zip"], "not a wheel file name"),
        (["check", "tensorflow2"], "no environment 'tensorflow2'"),
        (["remove", "system"], "'system' is the Python that runs trainmark"),
        (["create", "system"], "'system' is the Python that runs trainmark"),
        (["create", "pytorch", "--variant", "rocm"], "rocm"),
        (["create"], "name the environments to create, or use --all"),
        (["create", "pytorch", "--all"], "name the environments to create, or use --all"),
        (["create", "pytorch", "jax", "--wheel", "a.whl"], "apply to one environment"),
        (["create", "pytorch", "jaxx"], "did you mean 'jax'"),
        (["create", "pytorch", "--variant", "cpu", "--extra", "horovod"], "'pytorch' has no extra 'horovod'"),
    ],
)
def test_input_errors_exit_2_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert main(["env", *arguments, "--root", str(tmp_path)]) == 2
    output = capsys.readouterr()
    assert complaint in output.err
    assert "Traceback" not in output.err
    assert output.out == ""


def test_removing_a_missing_environment_succeeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "remove", "pytorch", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "pytorch: no such environment\n"
