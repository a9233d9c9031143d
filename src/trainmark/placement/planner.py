"""Placement of a run: the processes of each host, their share of the cores, launcher and container.

The launcher's words are in front of the program's and start the ranks; each rank gets its variables.
"""

import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainmark.environment.resolving import Engine
from trainmark.node.processes import MARK
from trainmark.placement.spec import Container, FrameworkPython, RunSpec
from trainmark.schema.case import Case, Device
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.plan import Command, NodeResources, Plan, PlannedNode
from trainmark.schema.suite import Launcher
from trainmark.workload import (
    GitSource,
    Mount,
    Program,
    Sharing,
    UnsupportedByCard,
    Values,
    WorkingDirectory,
    filled,
    find_gap,
    launcher_at,
    reaches_nodes,
    srun_on,
)

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


class Planner:
    """Plans the runs of the cases of one place (``place_of``), of which ``spec`` has one; what they share is made once.

    The ranks of a node share its cores out evenly: each gets ``cores // devices_per_node`` threads, at least one.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._hosts = tuple((spec.host(node), address) for node, address in enumerate(spec.addresses))
        self._starts = tuple(_start_on(spec, node) for node in launch_nodes(spec))
        self._problem = _what_is_missing(spec) or launch_problem(spec)
        self._by_hand = manual_steps(spec)

    def plan(self, case: Case, directory: Path) -> Plan:
        """Return the plan of a run in ``directory``.

        Raises ``UnsupportedByCard`` when the program cannot do what the case asks.
        """
        spec, card = self._spec, self._spec.card
        gap = find_gap(case, card, spec.device)
        if gap is not None:
            raise UnsupportedByCard(gap)
        folders = [host.directory(directory) for host, _ in self._hosts]
        nodes = [
            PlannedNode(host.name, address, folder)
            for (host, address), folder in zip(self._hosts, folders, strict=True)
        ]
        commands: list[Command] = []
        for start in self._starts:
            commands += _commands(start, case, folders[start.node])
        return Plan(
            case=case,
            repeat=spec.repeat,
            nodes=tuple(nodes),
            commands=tuple(commands),
            directory=directory,
            log_format=card.format_name,
            unit=card.counted_in,
            cannot_run=self._problem,
            expects=tuple([directory / name for name in card.expects]),
            by_hand=self._by_hand,
        )


def build_plan(spec: RunSpec) -> Plan:
    """Return the plan of one run; see ``Planner``."""
    return Planner(spec).plan(spec.case, spec.directory)


@dataclass(frozen=True, slots=True)
class NodeStart:
    """The start of the ranks of one node, as far as the runs of a planner share it.

    ``spec`` has the node's own paths. ``ranks`` are its processes: the rank of each, and the variables that only that
    one has.
    """

    node: int
    spec: RunSpec
    rendezvous: Rendezvous
    program: Program
    variables: Mapping[str, str]
    ranks: Sequence[tuple[int | None, Mapping[str, str]]]


def _start_on(spec: RunSpec, node: int) -> NodeStart:
    spec = spec.on(node)
    rendezvous, threads = _rendezvous(spec, node), _threads(spec, node)
    # A whole command line chooses its threads itself, as without trainmark.
    shared_out = spec.launcher is not Launcher.COMMAND
    variables = {
        **spec.host(node).traffic.variables,
        **({"OMP_NUM_THREADS": str(threads)} if shared_out else {}),
        "PYTHONUNBUFFERED": "1",
        **interface_variables(spec, node),
        **rendezvous_variables(spec, rendezvous),
        **spec.interpreter.variables,
    }
    program = Program(spec.case, spec.workload, values_of(spec, node, threads))
    return NodeStart(node, spec, rendezvous, program, variables, rank_variables(spec, node, rendezvous))


def _commands(start: NodeStart, case: Case, folder: Path) -> Iterator[Command]:
    """Yield the commands of a node's ranks in a run of ``case`` in ``folder``."""
    spec, node, rendezvous = start.spec, start.node, start.rendezvous
    context = None if spec.interpreter.container is None else container_context(spec, node, folder)
    texts = start.program.texts(case, folder)
    variables = {**start.variables, **start.program.variables(case, texts)}
    program = (*start.program.words(case, texts), *spec.more_words)
    if launches_containers(spec):
        alone = Command(node, (str(spec.interpreter.python), *program), variables)
        contained = in_environment(spec.interpreter, alone, context)
        started = (*mpirun(spec, rendezvous, tuple(contained.variables)), *contained.words)
        yield Command(node, started, contained.variables)
        return
    words = (*launcher_words(spec, node, rendezvous, texts, variables), *program)
    for rank, of_rank in start.ranks:
        command = Command(
            node,
            with_mark(spec, words),
            {**variables, **of_rank},
            rank=rank,
            directory=working_directory(spec, folder),
        )
        yield in_environment(spec.interpreter, command, context)


def working_directory(spec: RunSpec, folder: Path) -> Path | None:
    """Return the folder in which the program starts on a node, where the run has ``folder``; None for that folder."""
    match spec.card.working_directory:
        case WorkingDirectory.RUN:
            return None
        case WorkingDirectory.SOURCE:
            return folder / spec.workload.source
        case path:
            return Path(path)


def values_of(spec: RunSpec, node: int, threads: int | None = None) -> Values:
    """Return the values of a card's placeholders in commands on ``node``, whose ranks have so many threads."""
    threads = threads or _threads(spec, node)
    return Values(
        steps=spec.protocol.steps,
        warmup_steps=spec.protocol.warmup_steps,
        threads=threads,
        loader_workers=_loader_workers(spec, node, threads),
        seed=spec.repeat,
        data=spec.data,
        dataset=spec.dataset,
        prepared=spec.prepared,
        compile_cache=spec.compile_cache,
        python=str(spec.interpreter.python),
        hosts=spec.addresses,
        port=spec.port,
        node=node,
        device=spec.device,
    )


def in_environment(
    interpreter: FrameworkPython, command: Command, context: ContainerContext | None
) -> Command:
    """Return the command as it is started on the host so that it runs in the interpreter's environment.

    ``context`` has the host's facts for a container; it may be None only without a container. Raises
    ``UnsupportedByCard`` for a folder that a container engine cannot mount.
    """
    if interpreter.container is not None:
        assert context is not None
        return wrap_in_container(command, interpreter.container, context)
    if not interpreter.isolated:
        return command
    variables = {**command.variables, "PYTHONNOUSERSITE": "1"}
    return replace(command, variables=variables, without=("PYTHONPATH", "PYTHONHOME"))


def container_context(spec: RunSpec, node: int, folder: Path) -> ContainerContext:
    """Return the facts of the node's host that a container of the run in ``folder`` needs."""
    real = spec.case.reads_data_set
    read = [spec.dataset] if real else []
    if real and not Path(spec.data).is_relative_to(spec.dataset):
        read.append(spec.data)
    if not isinstance(spec.card.source, GitSource):
        read.append(str(spec.workload.source))
    if spec.card.steps:
        read.append(str(spec.prepared))
    mounts = tuple(Mount(source=path, target=path) for path in read)
    own = spec.card.image.mounts if spec.card.image is not None else ()
    on_gpus = spec.device is Device.CUDA
    devices = spec.machine(node).devices(spec.case.devices_per_node) if on_gpus else ()
    return ContainerContext(
        directory=folder,
        mounts=(*mounts, *own),
        devices=devices,
        rdma=spec.case.nodes > 1 and spec.host(node).traffic.rdma,
        placed_from_outside=launches_containers(spec),
    )


def _rendezvous(spec: RunSpec, node: int) -> Rendezvous:
    if spec.device is not Device.CUDA:
        return Rendezvous(spec.addresses, spec.port, ())
    machine, container = spec.machine(node), spec.interpreter.container
    # Docker numbers a container's GPUs from 0; Apptainer's containers see the host's numbers.
    counted_anew = container is not None and container.engine is Engine.DOCKER
    of = NodeResources(machine.cores, machine.gpus) if counted_anew else machine
    return Rendezvous(spec.addresses, spec.port, of.devices(spec.case.devices_per_node))


def _threads(spec: RunSpec, node: int) -> int:
    # mpirun starts the same command on all nodes, so the smallest node decides.
    nodes = range(spec.case.nodes) if spec.launcher is Launcher.MPIRUN else (node,)
    return max(1, min(spec.machine(one).cores for one in nodes) // spec.case.devices_per_node)


def _what_is_missing(spec: RunSpec) -> str | None:
    case, known = spec.case, len(spec.hosts)
    if case.nodes > known:
        hosts, verb = ("one host", "is") if known == 1 else (f"{known} hosts", "are")
        return f"{case.nodes} nodes are required, but only {hosts} {verb} known"
    return next(filter(None, (_what_a_node_lacks(spec, node) for node in range(case.nodes))), None)


def _what_a_node_lacks(spec: RunSpec, node: int) -> str | None:
    case, machine = spec.case, spec.machine(node)
    if machine.unreachable is not None:
        return machine.unreachable
    name = spec.host(node).name
    which = "this machine" if case.nodes == 1 and name == LOCALHOST else name
    if case.device is Device.CUDA and machine.gpus == 0:
        return f"a GPU is required, but {which} has none"
    on_gpus = spec.device is Device.CUDA
    there, what = (machine.gpus, "GPU") if on_gpus else (machine.cores, "CPU core")
    if machine.slots is not None and machine.slots < min(there, case.devices_per_node):
        return f"{case.devices_per_node} devices per node are required, but {which} allows {machine.slots} (slots)"
    if case.devices_per_node > there:
        some = f"{there} {what}{'s' if there != 1 else ''}"
        return f"{case.devices_per_node} devices per node are required, but {which} has {some}"
    return None


def _loader_workers(spec: RunSpec, node: int, threads: int) -> int:
    """Return the number of loader processes of a rank: all of its cores with a GPU, a quarter of them without."""
    next_to_gpu = spec.device is Device.CUDA and spec.machine(node).gpus > 0
    return threads if next_to_gpu else max(1, threads // 4)
