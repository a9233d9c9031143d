"""What an environment is on a host: asked there by the trainmark of that host, started as ``python -m``."""

import json
import sys
from pathlib import Path

from trainmark.environment.describing import MARK, last_answer
from trainmark.environment.entry import entries
from trainmark.environment.inspecting import examine
from trainmark.environment.resolving import SYSTEM, UnusableEnvironment, resolve
from trainmark.node import Runner, path_there
from trainmark.schema.frozen import Frozen
from trainmark.schema.manifest import FrameworkVersions
from trainmark.schema.plan import Command


class Probed(Frozen):
    """A usable environment as it is on a host: what its framework says of itself, and the digest of its lock."""

    versions: FrameworkVersions | None = None
    lock_digest: str | None = None


def probe_environment(name: str, framework: str, home: Path, runner: Runner) -> Probed:
    """Return what the environment ``name`` is on the runner's host; ``home`` is trainmark's own folder here.

    The framework is imported once to ask for its versions. Raises ``UnusableEnvironment`` with the reason why nothing
    can be started in it there.
    """
    if name == SYSTEM and framework not in {entry.framework for entry in entries()}:
        return Probed()
    python, folder = (path_there(runner.host.paths, path) for path in (Path(sys.executable), home.absolute()))
    said = runner.ask(Command(0, (str(python), "-m", __name__, name, framework, str(folder)), {}))
    answer = last_answer(said.out)
    if said.code != 0 or answer is None:
        raise UnusableEnvironment(f"environment '{name}' cannot be asked: {said.complaint() or 'no answer'}")
    if isinstance(answer, str):
        raise UnusableEnvironment(answer)
    return Probed.model_validate(answer)


def _answer(name: str, framework: str, home: Path) -> object:
    try:
        environment = resolve(name, home=home)
        versions = examine(environment, framework)
    except UnusableEnvironment as error:
        return str(error)
    return Probed(versions=versions, lock_digest=environment.lock_digest).model_dump(mode="json")


if __name__ == "__main__":
    sys.stdout.write(f"\n{MARK}{json.dumps(_answer(sys.argv[1], sys.argv[2], Path(sys.argv[3])))}\n")
