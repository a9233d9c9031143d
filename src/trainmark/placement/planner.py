"""Placement of a run: the processes of each host, their share of the cores, and their launcher."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trainmark.environment.engine import Engine
from trainmark.placement.container import ContainerContext, wrap_in_container
from trainmark.placement.launching import (
    Rendezvous,
    interface_variables,
    launch_nodes,
    launch_problem,
    launcher_words,
    launches_containers,
    manual_steps,
    mpirun,
    rank_variables,
    rendezvous_variables,
    with_mark,
)
from trainmark.placement.spec import FrameworkPython, RunSpec
from trainmark.schema.case import Device
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.launcher import Launcher
from trainmark.schema.names import EVENTS
from trainmark.schema.plan import Command, NodeResources, Plan, PlannedNode
from trainmark.workload import (
    GitSource,
    Mount,
    UnsupportedByCard,
    Values,
    WorkingDirectory,
    find_gap,
    program_variables,
    program_words,
)


def build_plan(spec: RunSpec) -> Plan:
    """Return the plan of one run.

    The ranks of a node share its cores out evenly: each gets ``cores // devices_per_node`` threads, at
    least one. Raises ``UnsupportedByCard`` when the program cannot do what the case asks.
    """
    gap = find_gap(spec.case, spec.card, spec.device)
    if gap is not None:
        raise UnsupportedByCard(gap)
    return Plan(
        case=spec.case,
        repeat=spec.repeat,
        nodes=tuple(
            PlannedNode(spec.host(node).name, address, spec.directory_on(node))
            for node, address in enumerate(spec.addresses)
        ),
        commands=tuple(_commands(spec)),
        events=spec.directory / EVENTS,
        log_format=spec.card.format_name,
        unit=spec.card.counted_in,
        cannot_run=_what_is_missing(spec) or launch_problem(spec),
        expects=tuple(spec.directory / name for name in spec.card.expects),
        by_hand=manual_steps(spec),
    )


def _commands(spec: RunSpec) -> Iterator[Command]:
    for node in launch_nodes(spec):
        yield from _commands_of(spec.on(node), node)


def _commands_of(spec: RunSpec, node: int) -> Iterator[Command]:
    rendezvous, threads = _rendezvous(spec, node), _threads(spec, node)
    context = None if spec.interpreter.container is None else container_context(spec, node)
    values = values_of(spec, node, threads)
    texts = values.placeholders(spec.case, spec.workload)
    # A whole command line chooses its threads itself, as without trainmark.
    shared_out = spec.launcher is not Launcher.COMMAND
    variables = {
        **spec.host(node).traffic.variables,
        **({"OMP_NUM_THREADS": str(threads)} if shared_out else {}),
        "PYTHONUNBUFFERED": "1",
        **interface_variables(spec, node),
        **rendezvous_variables(spec, rendezvous),
        **spec.interpreter.variables,
        **program_variables(spec.case, spec.card, values, texts),
    }
    program = (*program_words(spec.case, spec.workload, values, texts), *spec.more_words)
    if launches_containers(spec):
        alone = Command(node, (str(spec.interpreter.python), *program), variables)
        contained = in_environment(spec.interpreter, alone, context)
        started = (*mpirun(spec, rendezvous, tuple(contained.variables)), *contained.words)
        yield Command(node, started, contained.variables)
        return
    words = (*launcher_words(spec, node, rendezvous, texts, variables), *program)
    for rank, of_rank in rank_variables(spec, node, rendezvous):
        command = Command(
            node,
            with_mark(spec, words),
            {**variables, **of_rank},
            rank=rank,
            directory=working_directory(spec, node),
        )
        yield in_environment(spec.interpreter, command, context)


def working_directory(spec: RunSpec, node: int) -> Path | None:
    """Return the folder in which the program starts on ``node``; None for the run's folder."""
    match spec.card.working_directory:
        case WorkingDirectory.RUN:
            return None
        case WorkingDirectory.SOURCE:
            return spec.directory_on(node) / spec.workload.source
        case path:
            return Path(path)


def values_of(spec: RunSpec, node: int, threads: int | None = None) -> Values:
    """Return the values of a card's placeholders in a run's command on ``node``, whose ranks have so many threads."""
    threads, directory = threads or _threads(spec, node), spec.directory_on(node)
    return Values(
        steps=spec.protocol.steps,
        warmup_steps=spec.protocol.warmup_steps,
        threads=threads,
        loader_workers=_loader_workers(spec, node, threads),
        seed=spec.repeat,
        events=directory / EVENTS,
        data=spec.data,
        dataset=spec.dataset,
        directory=directory,
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


def container_context(spec: RunSpec, node: int) -> ContainerContext:
    """Return the facts of the node's host that a container of the run needs."""
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
        directory=spec.directory_on(node),
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
