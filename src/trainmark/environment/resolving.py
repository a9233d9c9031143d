"""Resolving an environment's name: its interpreter or container engine, or the reason why it cannot be used.

An environment's versions and packages are read by a small script with its own Python; on a host it is probed by running
this package there with ``python -m``.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from trainmark.environment.entry import FrameworkEntry, digest_of, entries, find_entry
from trainmark.environment.interpreter import clean_environ
from trainmark.environment.locations import CREATING, STAMP, Stamp, folder_of, python_of, read_stamp
from trainmark.errors import InputError, TrainmarkError
from trainmark.files import carried_extensions
from trainmark.node import (
    NOT_FOUND,
    CommandOutput,
    CommandRunner,
    Host,
    LocalHost,
    display_name,
    probe_runner,
    remote_path,
)
from trainmark.schema.frozen import Frozen
from trainmark.schema.manifest import FrameworkVersions
from trainmark.schema.plan import Command

SYSTEM = "system"
"""The environment of the Python that runs trainmark; trainmark installs nothing into it."""


class UnusableEnvironment(TrainmarkError):  # noqa: N818 (it is a state of the world, not a mistake)
    """The environment is known but unusable here; its cases are ``unsupported``, with this reason."""


class EnvironmentKind(StrEnum):
    """The origin of an environment: created by trainmark, the running Python, or a path from the user."""

    VENV = "venv"
    SYSTEM = "system"
    PYTHON = "python"


class EnvironmentState(StrEnum):
    """The state on disk of an environment that trainmark creates."""

    ABSENT = "not created"
    FOREIGN = "not made by trainmark"
    HALF_MADE = "half made"
    MOVED = "moved"
    STALE = "made from another lock"
    MISFIT = "made with a Python that the lock does not fit"
    BROKEN = "its Python is gone"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Environment:
    """The interpreter and variables that a framework's programs run with.

    ``python`` is the path to start (a venv's symbolic link, not its target). ``env_vars`` are set for every run.
    ``lock_digest`` identifies the installed packages; None if trainmark installed nothing.
    """

    name: str
    kind: EnvironmentKind
    python: Path
    env_vars: Mapping[str, str] = field(default_factory=dict)
    lock_digest: str | None = None


def resolve(name: str, *, home: Path, python: Path | None = None, catalog: Path | None = None) -> Environment:
    """Return the environment called ``name``, without starting anything in it.

    ``name`` is a framework of the catalogue (its venv under ``home``), ``system`` (the Python that runs trainmark,
    or ``python`` if given), or the path of an interpreter. Raises ``InputError`` for any other name, and
    ``UnusableEnvironment`` with the reason and the remedy if the environment is not ready.
    """
    # A run starts in its own folder, so relative paths of extensions must become absolute.
    extensions = carried_extensions(os.environ)
    if name == SYSTEM or os.sep in name:
        requested = Path(name).expanduser() if name != SYSTEM else python
        if requested is None:
            return Environment(SYSTEM, EnvironmentKind.SYSTEM, Path(sys.executable), extensions)
        if not requested.exists():
            raise UnusableEnvironment(
                f"{requested}: is missing; the Python of a program must be at the same path on all its hosts"
            )
        if not (requested.is_file() and os.access(requested, os.X_OK)):
            raise UnusableEnvironment(f"{requested}: not a Python interpreter that can be started")
        return Environment(name, EnvironmentKind.PYTHON, requested.absolute(), extensions)
    if python is not None:
        raise InputError(f"an interpreter can be given for 'system' only: '{name}' has its own Python")
    entry = find_entry(name, catalog)
    folder = folder_of(home, name)
    state = state_of(entry, home)
    stamp = read_stamp(folder)
    if state is not EnvironmentState.READY or stamp is None:
        raise UnusableEnvironment(reason_for(state, name, folder))
    return Environment(
        name,
        EnvironmentKind.VENV,
        python_of(folder),
        {**entry.variables(stamp.variant), **extensions},
        stamp.lock_digest,
    )


def venv_environ(python: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` for a program of the interpreter ``python``.

    If trainmark created its venv, other venvs and ``PYTHONPATH`` are removed, and its scripts come first on PATH.
    """
    folder = python.parent.parent
    if not ((folder / STAMP).exists() or (folder / CREATING).exists()):
        return dict(environ)
    path = os.pathsep.join([str(python.parent), *([environ["PATH"]] if environ.get("PATH") else [])])
    return {**clean_environ(environ), "VIRTUAL_ENV": str(folder), "PATH": path}


def state_of(entry: FrameworkEntry, home: Path) -> EnvironmentState:
    """Return the state of a framework's environment under ``home``, from its files; start no process."""
    folder = folder_of(home, entry.framework)
    if not (folder.exists() or folder.is_symlink()):
        return EnvironmentState.ABSENT
    stamp = read_stamp(folder)
    if stamp is None:
        half_made = (folder / CREATING).exists() or (folder / STAMP).exists()
        return EnvironmentState.HALF_MADE if half_made else EnvironmentState.FOREIGN
    if was_moved(folder, stamp):
        return EnvironmentState.MOVED
    if not python_of(folder).exists():
        return EnvironmentState.BROKEN
    if not entry.fits(stamp.python_version):
        return EnvironmentState.MISFIT
    if stamp.variant not in entry.variants or not entry.extras.keys() >= set(stamp.extras):
        return EnvironmentState.STALE
    if stamp.lock_digest != digest_of(entry, stamp.variant, stamp.wheel_digests, stamp.extras):
        return EnvironmentState.STALE
    return EnvironmentState.READY


def was_moved(folder: Path, stamp: Stamp) -> bool:
    """Return whether ``folder`` was moved after its environment was created (a venv contains absolute paths)."""
    original = Path(stamp.location)
    return not (original.exists() and original.samefile(folder))


def reason_for(state: EnvironmentState, name: str, folder: Path) -> str:
    """Return the line that explains why an environment in ``state`` is unusable, and the remedy."""
    subject, remedy = f"environment '{name}'", f"trainmark env create {name}"
    moved = f"was moved to {folder}, but a venv works only where it was created"
    return {
        EnvironmentState.ABSENT: f"{subject} is not created yet ({remedy})",
        EnvironmentState.FOREIGN: f"{folder} is not an environment that trainmark created; move it away, then {remedy}",
        EnvironmentState.HALF_MADE: f"{subject} is incomplete: it is being created, or that was interrupted ({remedy})",
        EnvironmentState.MOVED: f"{subject} {moved} ({remedy})",
        EnvironmentState.BROKEN: f"{subject} lacks the Python that it was created with ({remedy})",
        EnvironmentState.STALE: f"{subject} was created from another lock than this trainmark's ({remedy})",
        EnvironmentState.MISFIT: f"{subject} was created with a Python version that its lock does not fit ({remedy})",
        EnvironmentState.READY: f"{subject} is ready",
    }[state]


_PROBE_TIMEOUT_S = 30.0


class Engine(StrEnum):
    """A program that runs containers; an environment of that name is an image that the card names."""

    DOCKER = "docker"
    APPTAINER = "apptainer"


ENGINES = tuple(engine.value for engine in Engine)

# Ask for the server's version: Docker's client runs without its daemon, which may be down or not permitted.
_VERSION_COMMANDS = {
    Engine.DOCKER: ("docker", "version", "--format", "{{.Server.Version}}"),
    Engine.APPTAINER: ("apptainer", "--version"),
}


def require_engine(engine: Engine, host: Host) -> str:
    """Return the engine's version on a host; raise ``UnusableEnvironment`` if it is missing or does not answer."""
    command = _VERSION_COMMANDS[engine]
    if host.which(command[0]) is None:
        raise UnusableEnvironment(
            f"{engine} was not found on {display_name(host)}, but the program runs in a container"
        )
    result = probe_runner(host, _PROBE_TIMEOUT_S).run(Command(0, command, {}))
    if result.code != 0:
        raise UnusableEnvironment(f"{engine} cannot be used: {result.error_line() or 'it failed'}")
    return result.out.decode(errors="replace").strip()


MARK = "TRAINMARK "
"""Prefix of the answer's JSON line; the last such line counts, because frameworks print lines of their own."""

_DESCRIBE = Path(__file__).parent / "remote_scripts" / "describe_environment.py"


class EnvironmentContents(BaseModel):
    """The output of ``remote_scripts/describe_environment.py``; ``failures`` maps modules to import errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    python: str
    failures: Mapping[str, str]
    versions: Mapping[str, str | None]
    packages: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """A script's outcome: the JSON object that it printed last, or else its problem in one line."""

    answer: Any
    problem: str | None


def describe(
    python: Path,
    framework: str = "pytorch",
    *,
    env_vars: Mapping[str, str] | None = None,
    timeout_s: float = 300,
    catalog: Path | None = None,
) -> FrameworkVersions:
    """Return the versions that ``framework`` reports when ``python`` imports it (seconds: it really imports it).

    ``env_vars`` are set for the import; by default the catalogue's variables of the framework.

    Raises ``UnusableEnvironment`` if the interpreter does not start or the framework does not import.
    """
    entry = find_entry(framework, catalog)
    contents = read_contents(
        python, entry, [entry.import_name], entry.env_vars if env_vars is None else env_vars, timeout_s
    )
    if reason := contents.failures.get(entry.import_name):
        raise UnusableEnvironment(f"{python}: '{entry.import_name}' does not import: {reason}")
    return framework_versions(entry, contents)


def framework_versions(entry: FrameworkEntry, contents: EnvironmentContents) -> FrameworkVersions:
    """Return the versions of the framework of ``entry`` found in an environment."""
    return FrameworkVersions(
        framework=entry.framework, python=contents.python, **{"version": None, **contents.versions}
    )


def installed_packages(python: Path, env_vars: Mapping[str, str], timeout_s: float = 300) -> dict[str, str]:
    """Return the version of each package that ``python`` would import, by name, and of Python itself.

    Nothing is imported. The result is empty if the interpreter gives no answer.
    """
    query = json.dumps({"imports": [], "versions": {}})
    result = run_script(python, _DESCRIBE, [query], env_vars, timeout_s)
    try:
        contents = EnvironmentContents.model_validate(result.answer)
    except ValidationError:
        return {}
    return {"python": contents.python, **contents.packages}


def read_contents(
    python: Path, entry: FrameworkEntry, imports: list[str], env_vars: Mapping[str, str], timeout_s: float
) -> EnvironmentContents:
    """Run the describing script with ``python``; raise ``UnusableEnvironment`` if it gives no answer."""
    query = json.dumps({"imports": imports, "versions": dict(entry.versions)})
    result = run_script(python, _DESCRIBE, [query], env_vars, timeout_s)
    if result.problem is not None:
        raise UnusableEnvironment(f"{python}: {result.problem}")
    try:
        return EnvironmentContents.model_validate(result.answer)
    except ValidationError as error:
        raise UnusableEnvironment(f"{python}: returned an unreadable answer") from error


def run_script(
    python: Path, script: Path, arguments: list[str], env_vars: Mapping[str, str], timeout_s: float
) -> ScriptResult:
    """Run a script with ``python`` and read its last JSON line; kill any process that it leaves behind."""
    environ = {**venv_environ(python, os.environ), **env_vars}
    unset = tuple(name for name in os.environ if name not in environ)
    command = (os.fspath(python), str(script), *arguments)
    result = probe_runner(LocalHost(), timeout_s).run(Command(0, command, environ, unset))
    answer = last_answer(result.out)
    if result.code == 0 and answer is not None:
        return ScriptResult(answer, None)
    return ScriptResult(None, _failure_reason(result, command[0], timeout_s))


def last_answer(output: bytes) -> Any:
    """Return the answer that a program printed last, None if it printed none."""
    lines = output.decode(errors="replace").splitlines()
    answer = next((line for line in reversed(lines) if line.startswith(MARK)), None)
    return None if answer is None else json.loads(answer.removeprefix(MARK))


def _failure_reason(result: CommandOutput, python: str, timeout_s: float) -> str:
    if result.stopped is not None:
        return f"did not answer within {timeout_s:g} s"
    reason, prefix = result.error_line(), f"cannot start {python}: "
    if result.code == NOT_FOUND and reason.startswith(prefix):
        return f"does not start: {reason.removeprefix(prefix)}"
    if result.code == 0:
        return "exited without an answer: not a Python interpreter"
    if result.code is not None and result.code < 0:
        return f"was killed by {signal.Signals(-result.code).name}"
    return f"exit code {result.code}{f': {reason}' if reason else ''}"


class ProbedEnvironment(Frozen):
    """A usable environment on a host: the versions that its framework reports, and the digest of its lock."""

    versions: FrameworkVersions | None = None
    lock_digest: str | None = None


def probe_environment(name: str, framework: str, home: Path, runner: CommandRunner) -> ProbedEnvironment:
    """Return the environment ``name`` on the runner's host; ``home`` is trainmark's folder on this host.

    The framework is imported once to read its versions. Raises ``UnusableEnvironment`` with the reason if nothing can
    be started in it there.
    """
    if name == SYSTEM and not is_known(framework):
        return ProbedEnvironment()
    python, folder = (
        remote_path(runner.host.paths, path) for path in (Path(sys.executable), home.absolute())
    )
    result = runner.run(Command(0, (str(python), "-m", __package__, name, framework, str(folder)), {}))
    answer = last_answer(result.out)
    if result.code != 0 or answer is None:
        raise UnusableEnvironment(
            f"environment '{name}' cannot be probed: {result.error_line() or 'no answer'}"
        )
    if isinstance(answer, str):
        raise UnusableEnvironment(answer)
    return ProbedEnvironment.model_validate(answer)


def is_known(framework: str) -> bool:
    """Return whether trainmark knows how to ask a framework for its versions."""
    return framework in {entry.framework for entry in entries()}
