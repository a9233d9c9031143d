"""Asking an environment, from inside, what it holds: a small script runs in its own Python."""

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from trainmark.environment.entry import Entry, find_entry
from trainmark.environment.resolving import UnusableEnvironment, environ_inside
from trainmark.node import NOT_FOUND, LocalHost, Said, prober
from trainmark.schema.manifest import FrameworkVersions
from trainmark.schema.plan import Command

MARK = "TRAINMARK "
"""Before the JSON of an answer, on the last line that has it: frameworks print what they like."""

_DESCRIBE = Path(__file__).parent / "remote_scripts" / "describe_environment.py"


class Inside(BaseModel):
    """The answer of ``inside/describe_environment.py``; ``failures`` maps modules that do not import to reasons."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    python: str
    failures: Mapping[str, str]
    versions: Mapping[str, str | None]
    packages: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """How a script ended: the JSON object that it printed last (None without one), or why not, in one line."""

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

    ``env_vars`` are set for it; those that the catalogue names for the framework by default.

    Raises ``UnusableEnvironment`` when the interpreter does not start or the framework does not import.
    """
    entry = find_entry(framework, catalog)
    inside = look_inside(
        python, entry, [entry.import_name], entry.env_vars if env_vars is None else env_vars, timeout_s
    )
    if reason := inside.failures.get(entry.import_name):
        raise UnusableEnvironment(f"{python}: '{entry.import_name}' does not import: {reason}")
    return framework_versions(entry, inside)


def framework_versions(entry: Entry, inside: Inside) -> FrameworkVersions:
    """Return what an answer from inside says about the framework of ``entry``."""
    return FrameworkVersions(
        framework=entry.framework, python=inside.python, **{"version": None, **inside.versions}
    )


def installed(python: Path, env_vars: Mapping[str, str], timeout_s: float = 300) -> dict[str, str]:
    """Return the version of each package that ``python`` would import, by name, and that of the Python itself.

    Nothing is imported. Empty where the interpreter gives no answer.
    """
    question = json.dumps({"imports": [], "versions": {}})
    result = run_script(python, _DESCRIBE, [question], env_vars, timeout_s)
    try:
        inside = Inside.model_validate(result.answer)
    except ValidationError:
        return {}
    return {"python": inside.python, **inside.packages}


def look_inside(
    python: Path, entry: Entry, imports: list[str], env_vars: Mapping[str, str], timeout_s: float
) -> Inside:
    """Run the describing script with ``python``; raise ``UnusableEnvironment`` when it gives no answer."""
    question = json.dumps({"imports": imports, "versions": dict(entry.versions)})
    result = run_script(python, _DESCRIBE, [question], env_vars, timeout_s)
    if result.problem is not None:
        raise UnusableEnvironment(f"{python}: {result.problem}")
    try:
        return Inside.model_validate(result.answer)
    except ValidationError as error:
        raise UnusableEnvironment(f"{python}: gave an answer that cannot be read") from error


def run_script(
    python: Path, script: Path, arguments: list[str], env_vars: Mapping[str, str], timeout_s: float
) -> ScriptResult:
    """Run a script with ``python`` and read the JSON line that it ends with; nothing of it is left behind."""
    inside = {**environ_inside(python, os.environ), **env_vars}
    without = tuple(name for name in os.environ if name not in inside)
    words = (os.fspath(python), str(script), *arguments)
    said = prober(LocalHost(), timeout_s).ask(Command(0, words, inside, without))
    answer = last_answer(said.out)
    if said.code == 0 and answer is not None:
        return ScriptResult(answer, None)
    return ScriptResult(None, _why(said, words[0], timeout_s))


def last_answer(said: bytes) -> Any:
    """Return the answer that a program printed last, None where it gave none."""
    lines = said.decode(errors="replace").splitlines()
    answer = next((line for line in reversed(lines) if line.startswith(MARK)), None)
    return None if answer is None else json.loads(answer.removeprefix(MARK))


def _why(said: Said, python: str, timeout_s: float) -> str:
    if said.stopped is not None:
        return f"gave no answer within {timeout_s:g} s"
    why, absent = said.complaint(), f"cannot start {python}: "
    if said.code == NOT_FOUND and why.startswith(absent):
        return f"does not start: {why.removeprefix(absent)}"
    if said.code == 0:
        return "ended without an answer, as nothing does that is a Python interpreter"
    if said.code is not None and said.code < 0:
        return f"was killed by {signal.Signals(-said.code).name}"
    return f"exit code {said.code}{f': {why}' if why else ''}"
