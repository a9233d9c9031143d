"""A tiny framework, as a wheel that needs no index: environments are made for real, by venv and pip, in seconds."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_framework import make_wheel

from trainmark.environment import CreationRequest, FrameworkEntry, Variant, find_entry
from trainmark.environment.creation import Installer
from trainmark.environment.interpreter import Interpreter

MakeVenv = Callable[[Installer, Interpreter], None]

SMOKE = """
import json
import tinyframework
print("TRAINMARK " + json.dumps({"device": "cpu", "loss_before": 2.0, "loss_after": tinyframework.step(2.0)}))
"""

ENVIRONMENT = """
import_name: tinyframework
imports: [tinyframework]
python: ["3.11", "3.12", "3.13"]
env_vars: {TINY_THREADS: "2"}
versions: {version: tinyframework.__version__, cuda: tinyframework.cuda, nccl: tinyframework.nccl}
variants:
  cpu: {requirements: [tinyframework==1.0], env_vars: {TINY_HEAP: kept}, hint: "it is nowhere"}
"""


@pytest.fixture(scope="session")
def first_venv(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[MakeVenv, Installer, Interpreter], Path]:
    """Return a function that returns a venv of an interpreter, which it makes when it is called for the first time."""
    made: dict[Path, Path] = {}

    def venv(make: MakeVenv, installer: Installer, interpreter: Interpreter) -> Path:
        if interpreter.path not in made:
            folder = tmp_path_factory.mktemp("venv")
            make(Installer(folder, installer.log, installer.inherited_fds), interpreter)
            made[interpreter.path] = folder
        return made[interpreter.path]

    return venv


@pytest.fixture(autouse=True)
def _pip_is_linked(
    monkeypatch: pytest.MonkeyPatch, first_venv: Callable[[MakeVenv, Installer, Interpreter], Path]
) -> None:
    """Have venv install pip once: what it unpacks and compiles for seconds is the same in every environment.

    Tests that start ``trainmark env create`` as a process have it installed each time.
    """
    make = Installer.make_venv

    def make_venv(self: Installer, interpreter: Interpreter) -> None:
        seed = first_venv(make, self, interpreter)
        self._run([str(interpreter.path), "-I", "-m", "venv", "--without-pip", str(self.folder)], "venv", "")
        packages = next(seed.glob("lib/python3*/site-packages"))
        here = self.folder / packages.relative_to(seed)
        shutil.copytree(packages, here, copy_function=os.link, dirs_exist_ok=True)
        for script in seed.glob("bin/pip*"):
            launcher = self.folder / "bin" / script.name
            launcher.write_text(script.read_text().replace(str(seed), str(self.folder)))
            launcher.chmod(0o755)

    monkeypatch.setattr(Installer, "make_venv", make_venv)


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    catalog = tmp_path / "catalog"
    folder = catalog / "tinyframework"
    folder.mkdir(parents=True)
    (folder / "smoke.py").write_text(SMOKE)
    (folder / "environment.yaml").write_text(ENVIRONMENT)
    (folder / "cpu.lock").write_text("# a lock\ntinyframework==1.0\n")
    return catalog


@pytest.fixture
def tiny(catalog: Path) -> FrameworkEntry:
    return find_entry("tinyframework", catalog)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    body = "import os\n__version__ = '1.0+tiny'\ncuda = None\n"
    body += "def nccl(): return (2, 27, 3)\n"
    body += "def step(loss): return loss / int(os.environ['TINY_THREADS'])\n"
    return make_wheel(tmp_path, "1.0", body)


@pytest.fixture
def tiny_request(tiny: FrameworkEntry, wheel: Path) -> CreationRequest:
    return CreationRequest(tiny, Variant.CPU, wheels=(wheel,))
