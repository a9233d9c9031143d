"""A framework that the public index has as a placeholder only: OneFlow, with packages of a few lines in its place.

The index, the wheels, pip and the environments are real; what the wheels hold is not. The locked versions of the
real catalogue are used, so that what is tested is the entry that ships.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_framework import make_wheel, served

from fakes import CARD, PROGRAMS, SUITE
from trainmark.cli.main import main
from trainmark.environment import EnvironmentState, Variant, find_entry, folder_of, state_of
from trainmark.environment.entry import lock_of

pytestmark = pytest.mark.process

MODULES = {"pillow": "PIL", "opencv-python-headless": "cv2"}
ONEFLOW = "__version__ = '1.0.0+tiny'\n"
PLACEHOLDER = "raise RuntimeError('This package is a placeholder')\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``public`` (an index of the dependencies and the placeholder) and ``own`` (of OneFlow)."""
    folder = tmp_path_factory.mktemp("indexes")
    for pin in lock_of(find_entry("oneflow"), Variant.CPU).pins:
        make_wheel(folder / "public" / pin.name, pin.version, "", pin.name, MODULES.get(pin.name))
    make_wheel(folder / "public" / "oneflow", "9.0", PLACEHOLDER, "oneflow")
    make_wheel(folder / "own" / "oneflow", "1.0.0", ONEFLOW, "oneflow")
    return folder


@pytest.fixture
def offline(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let pip find the public index of this test and nothing else."""
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    with served(wheels / "public") as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield


def env(*words: object) -> int:
    return main(["env", *map(str, words)])


@pytest.mark.usefixtures("offline")
@pytest.mark.rare
def test_it_is_created_only_from_a_wheel_an_index_or_a_folder_of_the_user(
    wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    root = ("--variant", "cpu", "--root", home)
    entry = find_entry("oneflow")

    assert env("create", "oneflow", *root) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "PyPI's 'oneflow' is a placeholder that raises when it is imported" in error
    assert "--wheel FILE" in error
    assert "--index URL" in error
    assert state_of(entry, home) is EnvironmentState.ABSENT

    # A whole index, over HTTP; the placeholder of the other one has a higher version.
    with served(wheels / "own") as url:
        secret = url.replace("http://", "http://user:secret@")
        assert env("create", "oneflow", "--index", secret, *root) == 0
        stamp = json.loads((folder_of(home, "oneflow") / "environment.json").read_text())
        assert stamp["packages"]["oneflow"] == "1.0.0"
        assert stamp["packages"]["numpy"] == "1.26.4"
        assert (stamp["index"], [wheel["package"] for wheel in stamp["wheels"]]) == (url, ["oneflow"])
        assert len(stamp["wheels"][0]["sha256"]) == 64
        assert not (folder_of(home, "oneflow") / "fetched").exists()
        assert "exists and matches its lock" not in capsys.readouterr().out
        assert env("create", "oneflow", "--index", url, *root) == 0
        assert "exists and matches its lock" in capsys.readouterr().out
    # Once it is there, nothing need be said of where it came from.
    assert env("create", "oneflow", *root) == 0
    assert "exists and matches its lock" in capsys.readouterr().out

    # The same wheel by its path is the same environment; another one is not.
    wheel = next((wheels / "own" / "oneflow").iterdir())
    assert env("create", "oneflow", "--wheel", wheel, *root) == 0
    assert "exists and matches its lock" in capsys.readouterr().out
    newer = make_wheel(tmp_path, "1.0.1", ONEFLOW, "oneflow")
    assert env("create", "oneflow", "--wheel", newer, *root, "--json") == 0
    assert json.loads(capsys.readouterr().out)["packages"]["oneflow"] == "1.0.1"

    # A folder of wheels; the others are made or fail, one after the other.
    assert env("create", "pytorch", "oneflow", "--index", wheel.parent, *root, "--json") == 1
    output = capsys.readouterr()
    failed, made = json.loads(output.out)
    assert (failed["name"], failed["made"], made["name"], made["made"]) == ("pytorch", False, "oneflow", True)
    assert "No matching distribution found for" in failed["failed"]
    assert output.err.splitlines()[-1] == "trainmark env: failed: pytorch"
    assert made["packages"]["oneflow"] == "1.0.0"

    assert env("list", "--root", home, "--json") == 0
    rows = {row["environment"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["oneflow"]["state"], rows["oneflow"]["makeable"]) == ("ready", False)
    assert "placeholder" in rows["oneflow"]["note"]

    # The placeholder itself, given by mistake: it does not import, and the way out is said.
    wrong = next((wheels / "public" / "oneflow").iterdir())
    assert env("create", "oneflow", "--wheel", wrong, *root) == 1
    assert (
        "'oneflow' does not import: RuntimeError: This package is a placeholder; OneFlow has its wheels"
        in (capsys.readouterr().err)
    )
    assert state_of(entry, home) is EnvironmentState.HALF_MADE
    assert env("remove", "oneflow", "--root", home) == 0


@pytest.mark.usefixtures("offline")
def test_its_dependencies_can_be_locked(capsys: pytest.CaptureFixture[str]) -> None:
    assert env("lock", "oneflow", "--variant", "cpu") == 0
    output = capsys.readouterr()
    assert "'oneflow' itself cannot be locked, its dependencies can" in output.err
    assert "numpy==1.26.4" in output.out
    assert "oneflow==" not in output.out


class Machine:
    """A home with an environment, and a suite whose one case runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.environment = folder_of(self.home, "oneflow")
        card = {**CARD, "framework": "oneflow", "environment": "oneflow"}
        card["source"] = {"kind": "folder", "path": str(PROGRAMS)}
        (folder / "card.yaml").write_text(yaml.safe_dump(card))
        case = {
            "workload": "fake",
            "framework": "oneflow",
            "model": "good",
            "batch_per_device": 4,
            "device": "cpu",
        }
        suite = {**SUITE, "environment": "auto", "cases": [case]}
        (folder / "suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))

    def run(self) -> tuple[int, dict[str, Any]]:
        """Run the suite anew; return the exit code and the outcome of its one case."""
        self.runs = getattr(self, "runs", 0) + 1
        out = self.folder / f"out{self.runs}"
        code = main(["run", str(self.folder / "suite.yaml"), "--out", str(out)])
        (outcome,) = (json.loads(path.read_text()) for path in out.glob("runs/*/1/outcome.json"))
        return code, outcome

    @property
    def packages(self) -> Path:
        return next(self.environment.glob("lib/python3.*/site-packages"))


@pytest.mark.usefixtures("offline")
@pytest.mark.rare
def test_cases_of_a_damaged_environment_are_unsupported_until_it_is_recreated(
    wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    monkeypatch.setenv("TRAINMARK_HOME", str(machine.home))
    create = ("create", "oneflow", "--variant", "cpu", "--index", wheels / "own" / "oneflow")
    code, outcome = machine.run()
    assert (code, outcome["outcome"]) == (1, "unsupported")
    assert "not created yet (trainmark env create oneflow)" in outcome["reason"]

    assert env(*create) == 0
    assert machine.run()[1]["outcome"] == "ok"

    def is_unusable(*error: str) -> None:
        """Both ``env check`` and a run say, in one line, what is wrong, and the run is no failure."""
        capsys.readouterr()
        assert env("check", "oneflow") == 1
        wrong = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
        code, outcome = machine.run()
        assert (code, outcome["outcome"]) == (1, "unsupported"), outcome
        assert "\n" not in outcome["reason"]
        for words in error:
            assert any(words in line for line in wrong), wrong
            assert words in outcome["reason"]

    # A package lost after the environment was made: the framework still imports, an import of the worker does not.
    (machine.packages / "cv2.py").rename(tmp_path / "cv2.py")
    is_unusable("'cv2' does not import: ModuleNotFoundError")
    (tmp_path / "cv2.py").rename(machine.packages / "cv2.py")

    # Another version of a dependency, and a framework that cannot live with it.
    info = machine.packages / "numpy-1.26.4.dist-info"
    other = info.with_name("numpy-2.0.0.dist-info")
    info.rename(other)
    metadata = (other / "METADATA").read_text()
    (other / "METADATA").write_text(metadata.replace("1.26.4", "2.0.0"))
    (machine.packages / "oneflow.py").write_text("import numpy\nnumpy.bool\n")
    is_unusable(
        "changed since the environment was created: numpy==1.26.4 became 2.0.0",
        "'oneflow' does not import: AttributeError: module 'numpy' has no attribute 'bool'",
    )
    # It looks right from outside; made again, it is.
    assert env(*create) == 0
    assert "exists but is damaged: changed since" in capsys.readouterr().err
    assert machine.run()[1]["outcome"] == "ok"

    # Another Python in place of the one that it was made with.
    stamp = machine.environment / "environment.json"
    made = stamp.read_text()
    version = json.loads(made)["python_version"]
    another = "3.10.1" if version.startswith("3.11") else "3.11.1"
    stamp.write_text(made.replace(f'"{version}"', f'"{another}"'))
    is_unusable(f"its Python is now {version}; the environment was created with {another}")
    stamp.write_text(made.replace(f'"{version}"', '"3.8.1"'))
    is_unusable("was created with a Python version that its lock does not fit (trainmark env create oneflow)")
    stamp.write_text(made)

    # A launcher that starts the Python of a place that is no more.
    pip = machine.environment / "bin" / "pip"
    text = pip.read_text()
    pip.write_text(text.replace(str(machine.environment), "/nowhere/oneflow"))
    is_unusable("not the Python of this environment")
    pip.write_text(text)

    # An installation that was interrupted: the folder is marked as in the making, and has no stamp yet.
    stamp.unlink()
    (machine.environment / ".trainmark-creating").touch()
    is_unusable("is incomplete: it is being created, or that was interrupted (trainmark env create oneflow)")
