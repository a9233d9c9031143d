"""Versions and packages of an environment, read by a small script with its own Python.

An environment on a host is probed by running this module there with ``python -m``.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from trainmark.environment.entry import FrameworkEntry, entries, find_entry
from trainmark.environment.resolving import SYSTEM, UnusableEnvironment, resolve, venv_environ
from trainmark.node import NOT_FOUND, CommandOutput, CommandRunner, LocalHost, probe_runner, remote_path
from trainmark.schema.frozen import Frozen
from trainmark.schema.manifest import FrameworkVersions
from trainmark.schema.plan import Command

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
    if name == SYSTEM and not _is_known(framework):
        return ProbedEnvironment()
    python, folder = (
        remote_path(runner.host.paths, path) for path in (Path(sys.executable), home.absolute())
    )
    result = runner.run(Command(0, (str(python), "-m", __name__, name, framework, str(folder)), {}))
    answer = last_answer(result.out)
    if result.code != 0 or answer is None:
        raise UnusableEnvironment(
            f"environment '{name}' cannot be probed: {result.error_line() or 'no answer'}"
        )
    if isinstance(answer, str):
        raise UnusableEnvironment(answer)
    return ProbedEnvironment.model_validate(answer)


def _is_known(framework: str) -> bool:
    """Return whether trainmark knows how to ask a framework for its versions."""
    return framework in {entry.framework for entry in entries()}


def _answer(name: str, framework: str, home: Path) -> object:
    from trainmark.environment.inspection import verify_environment  # it reads contents by this module

    try:
        environment = resolve(name, home=home)
        versions = verify_environment(environment, framework) if _is_known(framework) else None
    except UnusableEnvironment as error:
        return str(error)
    return ProbedEnvironment(versions=versions, lock_digest=environment.lock_digest).model_dump(mode="json")


if __name__ == "__main__":
    sys.stdout.write(f"\n{MARK}{json.dumps(_answer(sys.argv[1], sys.argv[2], Path(sys.argv[3])))}\n")
