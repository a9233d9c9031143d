"""Launchers: the words in front of the program's words that start the ranks of a run, and each rank's variables."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainmark.environment.engine import Engine
from trainmark.node.processes import MARK
from trainmark.placement.spec import FrameworkPython, RunSpec
from trainmark.schema.case import Case
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.suite import Launcher
from trainmark.workload import filled, launcher_at, reaches_nodes, srun_on

_OPENMPI = ("mpirun", "mpiexec")


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """The rendezvous of the ranks, their number, and the devices of a node's ranks.

    ``hosts`` are the nodes' addresses; the others connect to the first one. ``devices`` are a node's GPUs by name;
    empty for a program that computes on the CPU.
    """

    hosts: tuple[str, ...]
    port: int
    devices: tuple[str, ...]


def launcher_words(
    spec: RunSpec,
    node: int,
    rendezvous: Rendezvous,
    texts: Mapping[str, str],
    variables: Mapping[str, str],
) -> tuple[str, ...]:
    """Return the words that come before the program's own on ``node``.

    ``texts`` are the values of the placeholders; ``variables`` are set in the environment of the ranks.
    """
    case, python = spec.case, (str(spec.interpreter.python),)
    if spec.launcher is Launcher.COMMAND:
        return ()
    # A program of another project may need the variables that torchrun sets, also for one rank.
    if case.world_size == 1 and (spec.is_built_in or spec.launcher is not Launcher.TORCHRUN):
        return python
    match spec.launcher:
        case Launcher.TORCHRUN:
            return (*python, *_torchrun(case, node, rendezvous))
        case Launcher.MULTIPROC:
            starter = filled(spec.card.starter or "", texts)
            return (*python, starter, *_multiproc(case, node, rendezvous))
        case Launcher.MPIRUN:
            return (*mpirun(spec, rendezvous, tuple(variables)), *python)
        case Launcher.PADDLE:
            return (*python, *_paddle(case, rendezvous, texts["run"]))
        case Launcher.PROCESS | Launcher.RANKS | Launcher.SPAWN | Launcher.COMMAND:
            return python


def launch_nodes(spec: RunSpec) -> range:
    """Return the nodes on which a command is started: with MPI the first, which reaches the others; otherwise all."""
    return range(1 if _reaches_nodes(spec) else spec.case.nodes)


def _reaches_nodes(spec: RunSpec) -> bool:
    if spec.launcher is Launcher.COMMAND:
        return reaches_nodes(spec.card.command)
    return spec.launcher is Launcher.MPIRUN


def with_mark(spec: RunSpec, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a whole command line that starts the ranks on the run's hosts alone, where they can be found.

    OpenMPI's passes on the mark by which the ranks of other nodes are ended; srun does so itself, but would start ranks
    on all hosts of its allocation.
    """
    if spec.launcher is not Launcher.COMMAND or (at := launcher_at(words)) is None:
        return words
    names = tuple(spec.host(node).name for node in range(spec.case.nodes))
    if names != (LOCALHOST,) and len(spec.hosts) >= spec.case.nodes:
        words = srun_on(words, names)
    if spec.case.nodes == 1 or Path(words[at]).name not in _OPENMPI:
        return words
    if spec.machine(0).no_openmpi is not None:
        return words
    return (*words[: at + 1], "-x", MARK, *words[at + 1 :])


def manual_steps(spec: RunSpec) -> tuple[str, ...]:
    """Return the steps that must be done by hand before a plan's commands can be typed."""
    return (*_unresolved_packages(spec.interpreter), *_steps_on_nodes(spec))


def _unresolved_packages(interpreter: FrameworkPython) -> tuple[str, ...]:
    """Return that a missing environment must be made before the card's packages can be resolved; empty otherwise."""
    if not interpreter.unresolved:
        return ()
    wanted = ", ".join(interpreter.unresolved)
    name = interpreter.python.parents[1].name
    make = f"trainmark env create {name}" if interpreter.isolated else "make the environment"
    return (
        f"{interpreter.python} is missing: {make}; plan then has the commands that install the card's "
        f"packages ({wanted}), at versions that fit it",
    )


def _steps_on_nodes(spec: RunSpec) -> tuple[str, ...]:
    if spec.case.nodes == 1:
        return ()
    everywhere = (
        "every node needs the results of the 'before' steps, the environment and the data, at the same paths"
    )
    if spec.launcher is not Launcher.MPIRUN:
        return (everywhere,)
    first, others = spec.addresses[0], ", ".join(spec.addresses[1:])
    container = spec.interpreter.container
    if container is None or launches_containers(spec):
        return (
            everywhere,
            f"mpirun on {first} starts the ranks of {others} by ssh, which must work without a password",
        )
    return (
        everywhere,
        f"{container.engine} starts a container on {first} only. Before you type the command, start a container of "
        f"{container.image} with the same folders on {others}, with an sshd that accepts the container on {first} "
        "without a password. If that sshd listens on another port P, mpirun needs "
        "'-mca plm_rsh_args \"-p P\"' (mpirun: {mca: {plm_rsh_args: -p P}} in the hosts file)",
    )


def launches_containers(spec: RunSpec) -> bool:
    """Return whether mpirun runs outside and starts each rank in a container, as with Apptainer.

    Docker's containers are children of a daemon, so mpirun's variables do not reach them.
    """
    container = spec.interpreter.container
    on_several = spec.launcher is Launcher.MPIRUN and spec.case.nodes > 1
    return on_several and container is not None and container.engine is Engine.APPTAINER


def launch_problem(spec: RunSpec) -> str | None:
    """Return why the ranks of a run cannot be started on its hosts, or None; a container has its own launchers."""
    within = spec.interpreter.container is not None and not launches_containers(spec)
    if spec.launcher is Launcher.TORCHRUN is not spec.card.launcher:
        return f"launcher: torchrun is part of PyTorch, but {spec.card.name} uses another framework"
    if spec.launcher is not Launcher.MPIRUN or spec.case.world_size == 1 or within:
        return None
    first = spec.host(0)
    for host in spec.hosts[1 : spec.case.nodes]:
        one, other = first.traffic.variables, host.traffic.variables
        for name in sorted({*one, *other}):
            if one.get(name) != other.get(name):
                return f"mpirun gives all ranks the same {name}, but {first.name} and {host.name} have different ones"
    interfaces = {host.interface for host in spec.hosts[: spec.case.nodes]}
    if len(interfaces) > 1:
        named = ", ".join(sorted(str(interface) for interface in interfaces))
        return (
            f"mpirun gives all ranks the same network interface, but the hosts have different ones ({named})"
        )
    reported = {
        host.traffic.model_dump_json(exclude={"rdma", "variables"}) for host in spec.hosts[: spec.case.nodes]
    }
    if len(reported) > 1:
        return (
            "mpirun needs the same settings for all hosts, but theirs differ "
            "(user, port or mpirun of the hosts file)"
        )
    if len({(host.folder, host.paths) for host in spec.hosts[: spec.case.nodes]}) > 1:
        return "mpirun starts the same command on every node, but its paths differ between them"
    return spec.machine(0).no_openmpi


def rank_variables(
    spec: RunSpec, node: int, rendezvous: Rendezvous
) -> list[tuple[int | None, dict[str, str]]]:
    """Return the processes of a node: the rank (None for a process of several ranks) and its variables.

    The variables have torchrun's names.
    """
    case, launcher = spec.case, spec.launcher
    if launcher is Launcher.SPAWN and rendezvous.devices:
        return [(None, {"CUDA_VISIBLE_DEVICES": ",".join(rendezvous.devices)})]
    if launcher is not Launcher.RANKS or case.world_size == 1:
        return [(None, {})]
    first = node * case.devices_per_node
    return [
        (
            first + local_rank,
            {
                "RANK": str(first + local_rank),
                "WORLD_SIZE": str(case.world_size),
                "LOCAL_RANK": str(local_rank),
                "LOCAL_WORLD_SIZE": str(case.devices_per_node),
                "MASTER_ADDR": rendezvous.hosts[0],
                "MASTER_PORT": str(rendezvous.port),
                **_nodes(rendezvous, case),
            },
        )
        for local_rank in range(case.devices_per_node)
    ]


def rendezvous_variables(spec: RunSpec, rendezvous: Rendezvous) -> dict[str, str]:
    """Return the rendezvous variables of a built-in worker under mpirun; OpenMPI sets the rank's own variables."""
    if spec.launcher is not Launcher.MPIRUN or not spec.is_built_in or spec.case.world_size == 1:
        return {}
    meeting = {"MASTER_ADDR": rendezvous.hosts[0], "MASTER_PORT": str(rendezvous.port)}
    return {**meeting, **_nodes(rendezvous, spec.case)}


def _nodes(rendezvous: Rendezvous, case: Case) -> dict[str, str]:
    """Return a built-in worker's variables about the nodes, for frameworks whose ranks each listen on a port."""
    return {"TRAINMARK_NODES": ",".join(rendezvous.hosts)} if case.nodes > 1 else {}


def interface_variables(spec: RunSpec, node: int) -> dict[str, str]:
    """Return the variables that name the network interface for ranks on several nodes, if it is known.

    By default Gloo uses the interface of the host name's address, often the loopback, and NCCL the first interface.
    """
    interface = spec.host(node).interface if spec.case.nodes > 1 else None
    return {} if interface is None else {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}


def _torchrun(case: Case, node: int, rendezvous: Rendezvous) -> tuple[str, ...]:
    torchrun = ("-m", "torch.distributed.run", f"--nproc-per-node={case.devices_per_node}")
    if case.nodes == 1:
        return (*torchrun, "--standalone")
    return (
        *torchrun,
        f"--nnodes={case.nodes}",
        f"--node-rank={node}",
        f"--master-addr={rendezvous.hosts[0]}",
        f"--master-port={rendezvous.port}",
    )


def _multiproc(case: Case, node: int, rendezvous: Rendezvous) -> tuple[str, ...]:
    """Return the flags of ``multiproc.py`` in NVIDIA DeepLearningExamples, ``PyTorch/Classification/ConvNets``."""
    several = ("--nnodes", str(case.nodes), "--node_rank", str(node)) if case.nodes > 1 else ()
    return (
        *several,
        "--master_addr",
        rendezvous.hosts[0],
        "--master_port",
        str(rendezvous.port),
        "--nproc_per_node",
        str(case.devices_per_node),
    )


def mpirun(spec: RunSpec, rendezvous: Rendezvous, variables: tuple[str, ...]) -> tuple[str, ...]:
    """Return OpenMPI's words as horovodrun calls it (horovod.readthedocs.io, "Horovod with MPI").

    ``variables`` are the names of the variables to pass to the ranks. Without ``--tag-output`` the lines of different
    ranks mix. Without ``-H`` mpirun starts no more ranks than there are physical cores.
    """
    case = spec.case
    hosts = rendezvous.hosts if case.nodes > 1 else ("localhost",)
    slots = ",".join(f"{host}:{case.devices_per_node}" for host in hosts)
    count = ("--tag-output", "-np", str(case.world_size), "-H", slots)
    traffic = spec.host(0).traffic
    options = traffic.mpirun
    words = (
        "mpirun",
        "--allow-run-as-root",
        *count,
        "--bind-to",
        options.bind_to,
        "--map-by",
        options.map_by,
    )
    if case.nodes == 1:
        return (*words, *_mca(options.mca))
    # Only these variables reach the other nodes; the mark identifies the ranks there that must be ended.
    mark = (MARK,) if case.nodes <= len(spec.hosts) else ()
    names = ("PATH", "LD_LIBRARY_PATH", *mark, *variables)
    interfaces = {spec.host(node).interface for node in range(case.nodes)}
    common = interfaces.pop() if len(interfaces) == 1 else None
    own = {} if common is None else {"oob_tcp_if_include": common, "btl_tcp_if_include": common}
    ssh = (() if traffic.port is None else ("-p", str(traffic.port))) + (
        () if traffic.user is None else ("-l", traffic.user)
    )
    # The sshd in a container is not the host's, so the host's port and user do not apply.
    if ssh and (spec.interpreter.container is None or launches_containers(spec)):
        own["plm_rsh_args"] = shlex.join(ssh)
    parameters = {**own, **options.mca}
    return (*words, *_mca(parameters), *(word for name in names for word in ("-x", name)))


def _mca(parameters: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(word for name, value in parameters.items() for word in ("-mca", name, value))


def _paddle(case: Case, rendezvous: Rendezvous, log_folder: str) -> tuple[str, ...]:
    launch = ("-m", "paddle.distributed.launch")
    hosts = (f"--ips={','.join(rendezvous.hosts)}",) if case.nodes > 1 else ()
    devices = (
        f"--gpus={','.join(rendezvous.devices)}"
        if rendezvous.devices
        else f"--nproc_per_node={case.devices_per_node}"
    )
    return (*launch, *hosts, devices, f"--log_dir={log_folder}/paddle")
