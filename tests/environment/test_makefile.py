"""The developer's commands, with stand-ins for what they call: what they go on without, and what they remove."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")

TRAINMARK = """\
#!/bin/sh
case "$*" in
"env list --json") echo '[{"environment": "pytorch", "path": "/data/envs/pytorch"}]' ;;
*mxnet*) echo "mxnet: no Python 3.11 was found" >&2; exit 1 ;;
*) echo "made: $*" ;;
esac
"""
PYTHON = """\
#!/bin/sh
case "$*" in
"-m pytest"*) echo "pytest with $TRAINMARK_TEST_ENVS: $*" ;;
*) exec python3 "$@" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the Makefile and a .venv of stand-ins."""
    shutil.copy(PROJECT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "dev.lock").touch()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    scripts = {"trainmark": TRAINMARK, "python": PYTHON}
    for name in ("trainmark", "python", "ruff", "mypy", "lint-imports"):
        script = tmp_path / ".venv" / "bin" / name
        script.write_text(scripts.get(name, "#!/bin/sh\n"))
        script.chmod(0o755)
    (tmp_path / ".venv" / ".made").touch()
    return tmp_path


def make(checkout: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    # These tests are often run by a make themselves, whose flags this one is not to take over.
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=checkout, env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.process
def test_an_environment_that_cannot_be_made_does_not_stop_the_tests(checkout: Path) -> None:
    done = make(checkout, "test", "PYTEST_FLAGS=-k words")
    assert done.returncode == 0, done.stderr
    assert "mxnet: no Python 3.11 was found" in done.stderr
    assert "== going on without it" in done.stdout
    assert "made: env create --all" in done.stdout
    last_line = done.stdout.splitlines()[-1]
    assert last_line.startswith("pytest with /data/envs: -m pytest --numprocesses=")
    assert last_line.endswith(" -m not rare --durations=25 -k words")


@pytest.mark.process
def test_test_all_includes_the_rare_tests(checkout: Path) -> None:
    done = make(checkout, "test-all", "JOBS=3")
    assert done.returncode == 0, done.stderr
    assert "-m pytest --numprocesses=3 --dist=loadgroup" in done.stdout
    assert "rare" not in done.stdout


@pytest.mark.process
def test_a_mistake_in_style_stops_the_tests(checkout: Path) -> None:
    (checkout / ".venv" / "bin" / "ruff").write_text("#!/bin/sh\nexit 1\n")
    done = make(checkout, "test")
    assert done.returncode != 0
    assert "pytest with" not in done.stdout


def test_clean_removes_the_demos_results_and_leaves_those_of_runs(checkout: Path) -> None:
    for name in ("demo-report", "results"):
        (checkout / name).mkdir()
    assert make(checkout, "clean").returncode == 0
    assert [(checkout / name).exists() for name in (".venv", "demo-report", "results")] == [
        False,
        False,
        True,
    ]


def test_git_ignores_build_and_result_folders(checkout: Path) -> None:
    shutil.copy(PROJECT / ".gitignore", checkout)
    subprocess.run(["git", "init", "--quiet"], cwd=checkout, check=True)
    arguments = ["git", "check-ignore", ".venv/x", "demo-report/x", "results/x", "docs/results/x"]
    ignored = subprocess.run(arguments, cwd=checkout, capture_output=True, text=True, check=False)
    assert ignored.stdout.split() == [".venv/x", "demo-report/x", "results/x"]
