"""Read an environment's versions and packages by running a small script with its own Python."""

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from trainmark.environment.entry import FrameworkEntry, find_entry
from trainmark.environment.resolving import UnusableEnvironment, venv_environ
from trainmark.node import NOT_FOUND, CommandOutput, LocalHost, probe_runner
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
