"""Container engines: which there are, and whether this machine has one that works."""

from enum import StrEnum

from trainmark.environment.resolving import UnusableEnvironment
from trainmark.node import Host, prober, spoken
from trainmark.schema.plan import Command

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


def require_engine(engine: Engine, host: Host) -> str:
    """Return the engine's version on a host; raise ``UnusableEnvironment`` when it is not there or does not answer."""
    words = _QUESTIONS[engine]
    if host.which(words[0]) is None:
        raise UnusableEnvironment(
            f"{engine} was not found on {spoken(host)}, and the program runs in a container"
        )
    said = prober(host, _ASK_S).ask(Command(0, words, {}))
    if said.code != 0:
        raise UnusableEnvironment(f"{engine} cannot be used: {said.complaint() or 'it failed'}")
    return said.out.decode(errors="replace").strip()
