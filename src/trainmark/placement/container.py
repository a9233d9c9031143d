"""Docker and Apptainer command lines that run a command in a container as if it ran on the host.

Every folder is mounted under its own path, so that paths are valid on both sides. The container gets only the
command's variables, not the host's. The flags are those of Docker's command-line reference
(docs.docker.com/reference/cli/docker/container/run) and of Apptainer's user guide (``apptainer exec``).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.environment.engine import Engine
from trainmark.placement.spec import Container
from trainmark.schema.plan import Command
from trainmark.workload import Mount, Sharing, UnsupportedByCard

RDMA_DEVICES = "/dev/infiniband"

_SEPARATORS = ":,\"'\n"
"""Characters that have another meaning in the engines' mount syntax."""


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """Requirements of a command in a container: the host's folders, its GPUs, and the working directory.

    ``devices`` are the GPUs by the host's names; empty for a program that computes on the CPU. With ``rdma`` the
    container gets the host's RDMA devices. ``placed_from_outside``: an mpirun on the host sets the rank's variables, so
    the container gets the host's variables too.
    """

    directory: Path
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()
    rdma: bool = False
    placed_from_outside: bool = False


def wrap_in_container(command: Command, container: Container, context: ContainerContext) -> Command:
    """Return the command on the host that runs ``command`` in a container.

    Raises ``UnsupportedByCard`` for a folder that the engine cannot mount.
    """
    mounts = (
        Mount(source=str(context.directory), target=str(context.directory), read_only=False),
        *context.mounts,
    )
    for path in (path for mount in mounts for path in (mount.source, mount.target)):
        if any(sign in path for sign in _SEPARATORS):
            raise UnsupportedByCard(
                f"{path}: {container.engine} cannot mount a path with ':', ',' or a quote in it"
            )
    engine = {Engine.DOCKER: _docker, Engine.APPTAINER: _apptainer}[container.engine]
    return engine(command, container, context, mounts)


def container_name(command: Command, directory: Path) -> str:
    """Return the name of the container of a run (or of one rank), by which it is found when it must be ended."""
    rank = "" if command.rank is None else f"-r{command.rank}"
    return f"trainmark-{hashlib.sha256(str(directory).encode()).hexdigest()[:12]}-n{command.node}{rank}"


def removal_command(command: Command) -> tuple[str, ...] | None:
    """Return the command that ends the container of a run; None if the command runs in no container.

    It is needed for Docker, whose containers survive their client; Apptainer's are processes of this host.
    """
    if command.words[:2] != ("docker", "run"):
        return None
    return ("docker", "rm", "--force", command.words[command.words.index("--name") + 1])


def _docker(
    command: Command, container: Container, context: ContainerContext, mounts: Sequence[Mount]
) -> Command:
    image = container.description
    words = ["docker", "run", "--rm", "--init", "--name", container_name(command, context.directory)]
    words += ["--user", container.user]
    if context.devices:
        # The quotes are part of the word: without them Docker reads a number of GPUs and an option.
        words += ["--gpus", f'"device={",".join(context.devices)}"']
    words += ["--ipc=host"] if image.ipc is Sharing.HOST else []
    words += [f"--shm-size={image.shm_size}"] if image.shm_size else []
    if context.rdma:
        words += ["--device", RDMA_DEVICES, "--cap-add", "IPC_LOCK"]
    # RDMA needs locked memory, which cannot be swapped out.
    ulimits = {**({"memlock": "-1"} if context.rdma else {}), **image.ulimits}
    words += [word for name, limit in ulimits.items() for word in ("--ulimit", f"{name}={limit}")]
    words += ["--network", "host"] if image.network is Sharing.HOST else []
    for mount in mounts:
        words += ["--volume", f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}"]
    words += ["--workdir", str(context.directory)]
    # The host's user has no home or name in the container; frameworks then cache in the run's folder.
    for name, value in {"HOME": str(context.directory), "USER": "trainmark", **command.variables}.items():
        words += ["--env", f"{name}={value}"]
    return Command(command.node, (*words, container.image, *command.words), {}, rank=command.rank)


def _apptainer(
    command: Command, container: Container, context: ContainerContext, mounts: Sequence[Mount]
) -> Command:
    # --home mounts the run's folder, and is the only way to set HOME.
    # It shares the host's network, shared memory, limits and RDMA devices without any flag.
    words = ["apptainer", "exec", *(() if context.placed_from_outside else ("--cleanenv",))]
    words += ["--home", str(context.directory)]
    words += ["--nv"] if context.devices else []
    for mount in mounts[1:]:
        words += ["--bind", f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}"]
    words += ["--pwd", str(context.directory)]
    variables = dict(command.variables)
    if context.devices:
        # --nv shows all of the host's GPUs.
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(context.devices)
    # Apptainer's --env splits values at commas; APPTAINERENV_ variables pass them unchanged.
    handed = {f"APPTAINERENV_{name}": value for name, value in variables.items()}
    return Command(command.node, (*words, container.image, *command.words), handed, rank=command.rank)
