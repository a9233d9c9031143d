"""Placing a case: which processes start where, with which share of the cores, by which launcher."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainmark.environment.engine import Engine
from trainmark.placement.container import Surroundings, wrapped
from trainmark.placement.launching import Meeting, by_hand, launched, missing, places, starting_nodes
from trainmark.placement.plan import Command, Interpreter, Machine, Plan
from trainmark.suite import Case, Device, Protocol
from trainmark.workload import (
    GitSource,
    Mount,
    UnsupportedByCard,
    Values,
    Workload,
    find_gap,
    program_variables,
    program_words,
)

RENDEZVOUS_PORT = 29400


@dataclass(frozen=True, slots=True)
class Run:
    """Which run of a case is placed: its number from 1, its folder, and where its data lies.

    ``port`` is where the ranks meet; those after it are for the frameworks whose ranks each listen on one.
    ``dataset`` is the folder of the whole data set of which ``data`` is the training part; ``prepared`` the one for
    what the card's prepare steps make.
    """

    repeat: int
    directory: Path
    data: str
    port: int = RENDEZVOUS_PORT
    dataset: str = "synthetic"
    prepared: Path = Path()

    @property
    def events(self) -> Path:
        """The file for the program's events."""
        return self.directory / "events.jsonl"


def place(
    case: Case, workload: Workload, interpreter: Interpreter, machine: Machine, protocol: Protocol, run: Run
) -> Plan:
    """Return the plan of one run.

    The ranks of a node share its cores out evenly: each gets ``cores // devices_per_node`` threads, at
    least one. Raises ``UnsupportedByCard`` when the program cannot do what the case asks.
    """
    device = device_of(case, machine)
    gap = find_gap(case, workload.card, device)
    if gap is not None:
        raise UnsupportedByCard(gap)
    return Plan(
        case=case,
        repeat=run.repeat,
        commands=tuple(_commands(case, workload, interpreter, machine, protocol, run)),
        events=run.events,
        log_format=workload.card.log_format,
        unit=workload.card.counted_in,
        cannot_run=_what_is_missing(case, machine) or missing(case, workload, interpreter, machine),
        expects=tuple(run.directory / name for name in workload.card.expects),
        by_hand=by_hand(case, workload, interpreter, _meeting(case, interpreter, machine, run)),
    )


def _commands(
    case: Case, workload: Workload, interpreter: Interpreter, machine: Machine, protocol: Protocol, run: Run
) -> Iterator[Command]:
    meeting = _meeting(case, interpreter, machine, run)
    around = None if interpreter.container is None else surroundings(case, workload, machine, run)
    for node in starting_nodes(case, workload):
        values = values_of(case, interpreter, machine, protocol, run, node)
        texts = values.placeholders(case, workload)
        variables = {
            "OMP_NUM_THREADS": str(_threads(case, machine)),
            "PYTHONUNBUFFERED": "1",
            **interpreter.variables,
            **program_variables(case, workload.card, values, texts),
        }
        words = (
            *launched(case, workload, interpreter, node, meeting, texts, variables),
            *program_words(case, workload, values, texts),
        )
        for place_of_rank in places(case, workload, node, meeting):
            yield inside(interpreter, Command(node, words, {**variables, **place_of_rank}), around)


def values_of(
    case: Case, interpreter: Interpreter, machine: Machine, protocol: Protocol, run: Run, node: int
) -> Values:
    """Return what a card's placeholders stand for in a run's command on ``node``."""
    threads = _threads(case, machine)
    return Values(
        steps=protocol.steps,
        warmup_steps=protocol.warmup_steps,
        threads=threads,
        loader_workers=_loader_workers(case, machine, threads),
        seed=run.repeat,
        events=run.events,
        data=run.data,
        dataset=run.dataset,
        directory=run.directory,
        prepared=run.prepared,
        python=str(interpreter.python),
        hosts=_hosts(case),
        port=run.port,
        node=node,
        device=device_of(case, machine),
    )


def inside(interpreter: Interpreter, command: Command, around: Surroundings | None) -> Command:
    """Return the command as it is started on the host so that it runs in the interpreter's environment.

    ``around`` is what a container needs of the host; only without a container it may be None. Raises
    ``UnsupportedByCard`` for a folder that a container engine cannot mount.
    """
    if interpreter.container is not None:
        assert around is not None
        return wrapped(command, interpreter.container, around)
    if not interpreter.isolated:
        return command
    variables = {**command.variables, "PYTHONNOUSERSITE": "1"}
    return Command(command.node, command.words, variables, ("PYTHONPATH", "PYTHONHOME"))


def surroundings(case: Case, workload: Workload, machine: Machine, run: Run) -> Surroundings:
    """Return what a container of the run needs of the host."""
    card = workload.card
    read = [run.dataset] if case.data != "synthetic" else []
    if case.data != "synthetic" and not Path(run.data).is_relative_to(run.dataset):
        read.append(run.data)
    if not isinstance(card.source, GitSource):
        read.append(str(workload.source))
    if card.prepare:
        read.append(str(run.prepared))
    mounts = tuple(Mount(source=path, target=path) for path in read)
    own = card.image.mounts if card.image is not None else ()
    devices = machine.devices(case.devices_per_node) if device_of(case, machine) is Device.CUDA else ()
    return Surroundings(run.directory, (*mounts, *own), devices)


def _meeting(case: Case, interpreter: Interpreter, machine: Machine, run: Run) -> Meeting:
    if device_of(case, machine) is not Device.CUDA:
        return Meeting(_hosts(case), run.port, ())
    # Docker's containers count the GPUs that they are given from 0; Apptainer's see the host's.
    counted_anew = interpreter.container is not None and interpreter.container.engine is Engine.DOCKER
    of = Machine(machine.cores, machine.gpus) if counted_anew else machine
    return Meeting(_hosts(case), run.port, of.devices(case.devices_per_node))


def _hosts(case: Case) -> tuple[str, ...]:
    return ("127.0.0.1",) if case.nodes == 1 else tuple(f"NODE{node}" for node in range(case.nodes))


def _threads(case: Case, machine: Machine) -> int:
    return max(1, machine.cores // case.devices_per_node)


def device_of(case: Case, machine: Machine) -> Device:
    """Return what a rank of the case computes on, on this machine: never ``auto``."""
    if case.device is not Device.AUTO:
        return case.device
    return Device.CUDA if machine.gpus else Device.CPU


def _what_is_missing(case: Case, machine: Machine) -> str | None:
    if case.nodes > 1:
        return f"{case.nodes} nodes are asked for, and this placement knows one host only"
    if case.device is Device.CUDA and machine.gpus == 0:
        return "a GPU is asked for, and this machine has none"
    on_gpus = case.device is not Device.CPU and machine.gpus > 0
    there, what = (machine.gpus, "GPU") if on_gpus else (machine.cores, "CPU core")
    if case.devices_per_node > there:
        some = f"{there} {what}{'s' if there != 1 else ''}"
        return f"{case.devices_per_node} devices per node are asked for, and this machine has {some}"
    return None


def _loader_workers(case: Case, machine: Machine, threads: int) -> int:
    """Loader processes for one rank: all of its cores beside a GPU; beside CPU training a quarter of them."""
    on_gpus = case.device is not Device.CPU and machine.gpus > 0
    return threads if on_gpus else max(1, threads // 4)
