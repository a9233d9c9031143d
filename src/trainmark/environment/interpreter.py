"""Find the Python to create an environment with, also behind shims and when run in another venv."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainmark.environment.entry import FrameworkEntry
from trainmark.errors import InputError
from trainmark.node import LocalHost, probe_runner
from trainmark.schema.plan import Command

_PROBE = """
import json, sys
from importlib.util import find_spec
base = getattr(sys, "_base_executable", None) or sys.executable
print(json.dumps({"version": ".".join(map(str, sys.version_info[:3])), "base": base,
                  "has_venv": find_spec("venv") is not None and find_spec("ensurepip") is not None}))
"""

_LEAKING_VARIABLES = (
    "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__",
    "PIP_CONSTRAINT", "PIP_NO_DEPS", "PIP_PREFIX", "PIP_REQUIREMENT", "PIP_REQUIRE_VIRTUALENV", "PIP_ROOT",
    "PIP_TARGET", "PIP_USER",
)  # fmt: skip
"""Variables through which the caller's shell would change an environment that must contain exactly its lock."""

_PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python outside any venv: its path, its version (``"3.11.7"``), and whether it can create a venv with pip."""

    path: Path
    version: str
    has_venv: bool


def clean_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` without variables that affect an environment from outside (another venv, pip's targets)."""
    return {name: value for name, value in environ.items() if name not in _LEAKING_VARIABLES}


def probe(python: str | Path) -> Interpreter | None:
    """Run an interpreter and return its facts; None if it does not run (such as a shim without a version)."""
    result = probe_runner(LocalHost(), _PROBE_TIMEOUT_S).run(
        Command(0, (os.fspath(python), "-I", "-c", _PROBE), {}, _LEAKING_VARIABLES)
    )
    try:
        facts = json.loads(result.out)
        return Interpreter(Path(facts["base"]), facts["version"], facts["has_venv"])
    except (ValueError, KeyError, TypeError):
        return None


def choose(entry: FrameworkEntry, requested: Path | None) -> Interpreter:
    """Return the interpreter for ``entry``'s environment: the requested one, or the first that fits.

    The search order is: the Python that runs trainmark, then ``python3.X`` on PATH for the versions that the locks fit,
    then ``python3``. Raises ``InputError`` that names the fitting versions and the remedy.
    """
    fitting = ", ".join(entry.python)
    if requested is not None:
        found = probe(requested)
        if found is None:
            raise InputError(f"--python {requested}: does not run as a Python interpreter")
        if not entry.fits(found.version):
            raise InputError(
                f"--python {requested}: Python {found.version} does not fit the lock of '{entry.framework}' "
                f"(it fits: {fitting}); pass one of these, or resolve a lock for yours (trainmark env lock)"
            )
        return _with_venv(found)
    found = find(entry)
    if found is None:
        raise InputError(
            f"no Python found that fits the lock of '{entry.framework}' (it fits: {fitting}); "
            "install one, or pass its path with --python"
        )
    return _with_venv(found)


def find(entry: FrameworkEntry) -> Interpreter | None:
    """Return the first interpreter that fits ``entry``'s locks, preferring one that can create a venv; None if none."""
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
            "(Debian and Ubuntu: install python3-venv); or pass another one with --python"
        )
    return found


def _candidates(entry: FrameworkEntry) -> Iterator[str]:
    yield sys.executable
    for name in [*(f"python{version}" for version in entry.python), "python3"]:
        # Try every folder of PATH, not only the first match: a shim may precede the real interpreter.
        for folder in os.get_exec_path():
            if path := shutil.which(name, path=folder):
                yield path
