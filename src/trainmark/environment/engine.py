"""Container engines: which there are, and whether this machine has one that works."""

import shutil
import subprocess
from enum import StrEnum

from trainmark.environment.resolving import UnusableEnvironment

_ASK_S = 30.0


class Engine(StrEnum):
    """A program that runs a container; the environment of that name is an image of the card's."""

    DOCKER = "docker"
    APPTAINER = "apptainer"


ENGINES = tuple(engine.value for engine in Engine)

# The client alone is not enough: Docker's work is done by a daemon, which may be away or not ours to use.
_QUESTIONS = {
    Engine.DOCKER: ("docker", "version", "--format", "{{.Server.Version}}"),
    Engine.APPTAINER: ("apptainer", "--version"),
}


def require_engine(engine: Engine) -> str:
    """Return the engine's version; raise ``UnusableEnvironment`` when it is not here or does not answer."""
    words = _QUESTIONS[engine]
    if shutil.which(words[0]) is None:
        raise UnusableEnvironment(
            f"{engine} was not found on this machine, and the program runs in a container"
        )
    try:
        answer = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else f"no answer within {_ASK_S:g} s"
        raise UnusableEnvironment(f"{engine} cannot be used: {reason}") from None
    if answer.returncode != 0:
        said = (answer.stderr or answer.stdout).strip().splitlines()
        raise UnusableEnvironment(f"{engine} cannot be used: {said[-1] if said else 'it failed'}")
    return answer.stdout.strip()
