"""Placing a case: which processes start where, with which share of the cores, by which launcher."""

from dataclasses import dataclass
from pathlib import Path

from trainmark.placement.plan import Command, Interpreter, Machine, Plan
from trainmark.suite import Case, Device, Protocol
from trainmark.workload import Launcher, UnsupportedByCard, Values, Workload, find_gap, program_words

RENDEZVOUS_PORT = 29400


@dataclass(frozen=True, slots=True)
class Run:
    """Which run of a case is placed: its number from 1, its folder, and where its data lies.

    ``port`` is where the ranks meet; those after it are for the frameworks whose ranks each listen on one.
    """

    repeat: int
    directory: Path
    data: str
    port: int = RENDEZVOUS_PORT

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
    gap = find_gap(case, workload.card, device_of(case, machine))
    if gap is not None:
        raise UnsupportedByCard(gap)
    threads = max(1, machine.cores // case.devices_per_node)
    values = Values(
        steps=protocol.steps,
        warmup_steps=protocol.warmup_steps,
        threads=threads,
        loader_workers=_loader_workers(case, machine, threads),
        seed=run.repeat,
        events=run.events,
        data=run.data,
    )
    words = program_words(case, workload, values)
    variables = {
        "OMP_NUM_THREADS": str(threads),
        "PYTHONUNBUFFERED": "1",
        **interpreter.variables,
        **workload.card.environment_variables,
    }
    if interpreter.isolated:
        variables["PYTHONNOUSERSITE"] = "1"
    without = ("PYTHONPATH", "PYTHONHOME") if interpreter.isolated else ()
    commands = tuple(
        Command(
            node,
            (str(interpreter.python), *_launch(case, workload, node), *words),
            {**variables, **place_of_rank},
            without,
        )
        for node in range(case.nodes)
        for place_of_rank in _places(case, workload, node, run.port)
    )
    return Plan(
        case=case,
        repeat=run.repeat,
        commands=commands,
        events=run.events,
        log_format=workload.card.log_format,
        unit=workload.card.unit,
        cannot_run=_what_is_missing(case, machine),
    )


def _launch(case: Case, workload: Workload, node: int) -> tuple[str, ...]:
    if workload.card.launcher is not Launcher.TORCHRUN or case.world_size == 1:
        return ()
    torchrun = ("-m", "torch.distributed.run", f"--nproc-per-node={case.devices_per_node}")
    if case.nodes == 1:
        return (*torchrun, "--standalone")
    return (
        *torchrun,
        f"--nnodes={case.nodes}",
        f"--node-rank={node}",
        "--master-addr=NODE0",
        f"--master-port={RENDEZVOUS_PORT}",
    )


def _places(case: Case, workload: Workload, node: int, port: int) -> list[dict[str, str]]:
    """Return the variables of each process of a node by which it knows its place, in torchrun's names."""
    if workload.card.launcher is not Launcher.RANKS or case.world_size == 1:
        return [{}]
    return [
        {
            "RANK": str(node * case.devices_per_node + local_rank),
            "WORLD_SIZE": str(case.world_size),
            "LOCAL_RANK": str(local_rank),
            "LOCAL_WORLD_SIZE": str(case.devices_per_node),
            "MASTER_ADDR": "127.0.0.1" if case.nodes == 1 else "NODE0",
            "MASTER_PORT": str(port),
        }
        for local_rank in range(case.devices_per_node)
    ]


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
