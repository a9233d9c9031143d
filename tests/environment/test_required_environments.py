"""Where frameworks are required, as in continuous integration, tests of one that is missing are not skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from frameworks import INSTALLABLE

TESTS = Path(__file__).parents[1]
NAMES = list(INSTALLABLE)


def collected(envs: Path, required: str) -> "subprocess.CompletedProcess[str]":
    arguments = ["--collect-only", "-q", "-p", "no:cacheprovider", "tests/environment/test_variables.py"]
    given = {**os.environ, "TRAINMARK_TEST_ENVS": str(envs), "TRAINMARK_REQUIRE_ENVS": required}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=TESTS.parent,
        env=given,
        capture_output=True,
        text=True,
        check=False,
    )


def make(envs: Path, *names: str, extras: str = "[]") -> None:
    for name in names:
        (envs / name / "bin").mkdir(parents=True)
        (envs / name / "bin" / "python").touch()
        (envs / name / "environment.json").write_text(f'{{"extras": {extras}}}')


@pytest.mark.process
def test_pytest_refuses_to_start_and_names_what_is_missing(tmp_path: Path) -> None:
    make(tmp_path, *(name for name in NAMES if name != "paddle"), extras='["dali", "horovod"]')
    done = collected(tmp_path, "1")
    assert done.returncode == 4
    message = f"TRAINMARK_TEST_ENVS={tmp_path} lacks what TRAINMARK_REQUIRE_ENVS wants: trainmark env create paddle\n"
    assert done.stderr.endswith(f"ERROR: {message}\n") or done.stderr.endswith(f"ERROR: {message}")


@pytest.mark.process
def test_an_environment_without_its_extra_is_missing_too(tmp_path: Path) -> None:
    make(tmp_path, *NAMES, extras='["dali"]')
    assert "wants: trainmark env create mxnet --extra horovod\n" in collected(tmp_path, "1").stderr


@pytest.mark.process
def test_pytest_starts_if_everything_exists_or_nothing_is_required(tmp_path: Path) -> None:
    assert collected(tmp_path, "0").returncode == 0
    make(tmp_path, *NAMES, extras='["dali", "horovod"]')
    assert collected(tmp_path, "1").returncode == 0
