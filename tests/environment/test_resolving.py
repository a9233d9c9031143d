"""From names to interpreters, without starting one."""

import sys
from pathlib import Path

import pytest

from trainmark.environment import EnvironmentKind, UnusableEnvironment, resolve
from trainmark.errors import InputError
from trainmark.files import default_home


def test_system_is_the_python_that_runs_trainmark(tmp_path: Path) -> None:
    environment = resolve("system", home=tmp_path)
    assert (environment.kind, environment.python) == (EnvironmentKind.SYSTEM, Path(sys.executable))
    assert environment.lock_digest is None


def test_an_interpreter_can_be_named_by_flag_or_as_the_environment(tmp_path: Path) -> None:
    python = Path(sys.executable)
    by_flag = resolve("system", home=tmp_path, python=python)
    by_name = resolve(sys.executable, home=tmp_path)
    # The link of a venv is not followed: that would leave the venv.
    assert by_flag.python == by_name.python == python
    assert by_flag.kind is by_name.kind is EnvironmentKind.PYTHON


def test_an_interpreter_that_is_not_there_makes_the_environment_unusable(tmp_path: Path) -> None:
    with pytest.raises(
        UnusableEnvironment, match="is missing; the Python of a program must be at the same path"
    ):
        resolve(str(tmp_path / "python"), home=tmp_path)


def test_a_made_environment_has_its_own_interpreter(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'pytorch' has its own"):
        resolve("pytorch", home=tmp_path, python=Path(sys.executable))


def test_an_environment_that_is_not_created_says_how_to_create_it(tmp_path: Path) -> None:
    with pytest.raises(UnusableEnvironment, match=r"not created yet \(trainmark env create pytorch\)"):
        resolve("pytorch", home=tmp_path)


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"TRAINMARK_HOME": "/a", "XDG_DATA_HOME": "/b"}, "/a"),
        ({"XDG_DATA_HOME": "/b"}, "/b/trainmark"),
        ({"XDG_DATA_HOME": "relative"}, str(Path.home() / ".local/share/trainmark")),
        ({}, str(Path.home() / ".local/share/trainmark")),
    ],
)
def test_default_home_follows_the_environment_variables(environ: dict[str, str], home: str) -> None:
    assert default_home(environ) == Path(home)
