"""Finding the Python that an environment is made with, behind shims and from inside another venv."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainmark.environment.entry import Entry
from trainmark.errors import InputError
from trainmark.node import LocalHost, prober
from trainmark.schema.plan import Command

_PROBE = """
import json, sys
from importlib.util import find_spec
base = getattr(sys, "_base_executable", None) or sys.executable
print(json.dumps({"version": ".".join(map(str, sys.version_info[:3])), "base": base,
                  "has_venv": find_spec("venv") is not None and find_spec("ensurepip") is not None}))
"""

_FOREIGN = (
    "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__",
    "PIP_CONSTRAINT", "PIP_NO_DEPS", "PIP_PREFIX", "PIP_REQUIREMENT", "PIP_REQUIRE_VIRTUALENV", "PIP_ROOT",
    "PIP_TARGET", "PIP_USER",
)  # fmt: skip
"""Variables by which the surroundings would reach into an environment that must hold its lock and nothing else."""


_ASK_S = 30.0


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python outside any venv: its path, its version (``"3.11.7"``), and whether it can make a venv with pip."""

    path: Path
    version: str
    has_venv: bool


def clean_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` without what would reach into an environment from outside (another venv, pip's targets)."""
    return {name: value for name, value in environ.items() if name not in _FOREIGN}


def probe(python: str | Path) -> Interpreter | None:
    """Ask an interpreter what it is; None when it does not run (a shim without a version behind it)."""
    said = prober(LocalHost(), _ASK_S).ask(Command(0, (os.fspath(python), "-I", "-c", _PROBE), {}, _FOREIGN))
    try:
        facts = json.loads(said.out)
        return Interpreter(Path(facts["base"]), facts["version"], facts["has_venv"])
    except (ValueError, KeyError, TypeError):
        return None


def choose(entry: Entry, asked: Path | None) -> Interpreter:
    """Return the interpreter to make ``entry``'s environment with: the one asked for, or the first that fits.

    Looked at in turn: the Python that runs trainmark, then ``python3.X`` on the path for the versions that the
    locks fit, then ``python3``. Raises ``InputError`` with what fits and what to do.
    """
    fitting = ", ".join(entry.python)
    if asked is not None:
        found = probe(asked)
        if found is None:
            raise InputError(f"--python {asked}: does not run as a Python interpreter")
        if not entry.fits(found.version):
            raise InputError(
                f"--python {asked}: Python {found.version} does not fit the lock of '{entry.framework}' "
                f"(it fits: {fitting}); give one of these, or resolve a lock for yours (trainmark env lock)"
            )
        return _with_venv(found)
    found = find(entry)
    if found is None:
        raise InputError(
            f"no Python found that fits the lock of '{entry.framework}' (it fits: {fitting}); "
            "install one, or name it by --python"
        )
    return _with_venv(found)


def find(entry: Entry) -> Interpreter | None:
    """Return the first interpreter that fits ``entry``'s locks and can make a venv, else one that cannot, else None."""
    without_venv = None
    for candidate in _candidates(entry):
        found = probe(candidate)
        if found is not None and entry.fits(found.version):
            if found.has_venv:
                return found
            without_venv = found
    return without_venv


def _with_venv(found: Interpreter) -> Interpreter:
    if not found.has_venv:
        raise InputError(
            f"{found.path}: this Python lacks the modules venv and ensurepip "
            "(Debian and Ubuntu: install python3-venv), or name another by --python"
        )
    return found


def _candidates(entry: Entry) -> Iterator[str]:
    yield sys.executable
    for name in [*(f"python{version}" for version in entry.python), "python3"]:
        # Every folder of the path counts, not only the first: a shim may stand before the real one.
        for folder in os.get_exec_path():
            if path := shutil.which(name, path=folder):
                yield path
