"""Probe an environment on a host by running this module there with ``python -m``."""

import json
import sys
from pathlib import Path

from trainmark.environment.entry import entries
from trainmark.environment.inspection import verify_environment
from trainmark.environment.introspection import MARK, last_answer
from trainmark.environment.resolving import SYSTEM, UnusableEnvironment, resolve
from trainmark.node import CommandRunner, remote_path
from trainmark.schema.frozen import Frozen
from trainmark.schema.manifest import FrameworkVersions
from trainmark.schema.plan import Command


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
    try:
        environment = resolve(name, home=home)
        versions = verify_environment(environment, framework) if _is_known(framework) else None
    except UnusableEnvironment as error:
        return str(error)
    return ProbedEnvironment(versions=versions, lock_digest=environment.lock_digest).model_dump(mode="json")


if __name__ == "__main__":
    sys.stdout.write(f"\n{MARK}{json.dumps(_answer(sys.argv[1], sys.argv[2], Path(sys.argv[3])))}\n")
