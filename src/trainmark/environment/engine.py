"""Container engines, and the check that a host can use one."""

from enum import StrEnum

from trainmark.environment.resolving import UnusableEnvironment
from trainmark.node import Host, display_name, probe_runner
from trainmark.schema.plan import Command

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
