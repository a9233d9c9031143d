"""How each launcher starts the ranks of a run: the words before the program's, and who is started where."""

from collections.abc import Mapping
from dataclasses import dataclass

from trainmark.placement.plan import Interpreter, Machine
from trainmark.suite import Case
from trainmark.workload import Launcher, Workload, filled


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the ranks meet, who takes part, and what a node's ranks compute on.

    ``hosts`` are the nodes' addresses, the first of them the one that the others go to; ``devices`` are a node's GPUs
    by name, none for a program that computes on the CPU.
    """

    hosts: tuple[str, ...]
    port: int
    devices: tuple[str, ...]


def launched(
    case: Case,
    workload: Workload,
    interpreter: Interpreter,
    node: int,
    meeting: Meeting,
    texts: Mapping[str, str],
    variables: Mapping[str, str],
) -> tuple[str, ...]:
    """Return the words that come before the program's own on ``node``.

    ``texts`` are those of the placeholders; ``variables`` are what the ranks are to find in their environment.
    """
    python = (str(interpreter.python),)
    if case.world_size == 1:
        return python
    match workload.card.launcher:
        case Launcher.TORCHRUN:
            return (*python, *_torchrun(case, node, meeting))
        case Launcher.MULTIPROC:
            starter = filled(workload.card.starter or "", texts)
            return (*python, starter, *_multiproc(case, node, meeting))
        case Launcher.MPIRUN:
            return (*_mpirun(case, meeting, tuple(variables)), *python)
        case Launcher.PADDLE:
            return (*python, *_paddle(case, meeting, texts["run"]))
        case Launcher.PROCESS | Launcher.RANKS | Launcher.SPAWN:
            return python


def starting_nodes(case: Case, workload: Workload) -> range:
    """Return the nodes on which something is started: all, but with MPI the first, from which it reaches the others."""
    return range(1 if workload.card.launcher is Launcher.MPIRUN else case.nodes)


def by_hand(case: Case, workload: Workload, interpreter: Interpreter, meeting: Meeting) -> tuple[str, ...]:
    """Return what somebody must see to before the commands of a plan can be typed; nothing on one node."""
    if case.nodes == 1:
        return ()
    everywhere = "every node needs what is under 'before', the environment and the data, under the same paths"
    if workload.card.launcher is not Launcher.MPIRUN:
        return (everywhere,)
    first, others = meeting.hosts[0], ", ".join(meeting.hosts[1:])
    container = interpreter.container
    if container is None:
        return (
            everywhere,
            f"mpirun on {first} starts the ranks of {others} by ssh, which must let it in without a password",
        )
    return (
        everywhere,
        f"{container.engine} starts a container on {first} only, so this cannot be typed as it stands: on {others} a "
        f"container of {container.image} with the same folders must be running, and an sshd in it that lets in the "
        f"one on {first} without a password; where it listens on a port P of its own, mpirun needs "
        "'-mca plm_rsh_args \"-p P\"'",
    )


def missing(case: Case, workload: Workload, interpreter: Interpreter, machine: Machine) -> str | None:
    """Return why the ranks of a case cannot be started on this machine, or None; images have launchers of their own."""
    inside = interpreter.container is not None
    if workload.card.launcher is not Launcher.MPIRUN or case.world_size == 1 or inside:
        return None
    return machine.no_openmpi


def places(case: Case, workload: Workload, node: int, meeting: Meeting) -> list[dict[str, str]]:
    """Return the variables of each process of a node by which it knows its place, in torchrun's names."""
    if workload.card.launcher is Launcher.SPAWN and meeting.devices:
        return [{"CUDA_VISIBLE_DEVICES": ",".join(meeting.devices)}]
    if workload.card.launcher is not Launcher.RANKS or case.world_size == 1:
        return [{}]
    return [
        {
            "RANK": str(node * case.devices_per_node + local_rank),
            "WORLD_SIZE": str(case.world_size),
            "LOCAL_RANK": str(local_rank),
            "LOCAL_WORLD_SIZE": str(case.devices_per_node),
            "MASTER_ADDR": meeting.hosts[0],
            "MASTER_PORT": str(meeting.port),
        }
        for local_rank in range(case.devices_per_node)
    ]


def _torchrun(case: Case, node: int, meeting: Meeting) -> tuple[str, ...]:
    torchrun = ("-m", "torch.distributed.run", f"--nproc-per-node={case.devices_per_node}")
    if case.nodes == 1:
        return (*torchrun, "--standalone")
    return (
        *torchrun,
        f"--nnodes={case.nodes}",
        f"--node-rank={node}",
        f"--master-addr={meeting.hosts[0]}",
        f"--master-port={meeting.port}",
    )


def _multiproc(case: Case, node: int, meeting: Meeting) -> tuple[str, ...]:
    """Return the flags of ``multiproc.py`` in NVIDIA DeepLearningExamples, ``PyTorch/Classification/ConvNets``."""
    several = ("--nnodes", str(case.nodes), "--node_rank", str(node)) if case.nodes > 1 else ()
    return (
        *several,
        "--master_addr",
        meeting.hosts[0],
        "--master_port",
        str(meeting.port),
        "--nproc_per_node",
        str(case.devices_per_node),
    )


def _mpirun(case: Case, meeting: Meeting, variables: tuple[str, ...]) -> tuple[str, ...]:
    """Return OpenMPI's words as horovodrun calls it (horovod.readthedocs.io, "Horovod with MPI").

    Without ``--bind-to none`` OpenMPI binds each rank, its loader's threads with it, to one core or socket. Without
    ``--tag-output`` the ranks' lines run into one another. Without ``-H`` it starts no more ranks than there are
    physical cores.
    """
    hosts = meeting.hosts if case.nodes > 1 else ("localhost",)
    slots = ",".join(f"{host}:{case.devices_per_node}" for host in hosts)
    count = ("--tag-output", "-np", str(case.world_size), "-H", slots)
    words = ("mpirun", "--allow-run-as-root", *count, "--bind-to", "none", "--map-by", "slot")
    if case.nodes == 1:
        return words
    # Only these variables reach the other nodes.
    names = ("PATH", "LD_LIBRARY_PATH", *variables)
    return (*words, *(word for name in names for word in ("-x", name)))


def _paddle(case: Case, meeting: Meeting, log_folder: str) -> tuple[str, ...]:
    launch = ("-m", "paddle.distributed.launch")
    hosts = (f"--ips={','.join(meeting.hosts)}",) if case.nodes > 1 else ()
    devices = (
        f"--gpus={','.join(meeting.devices)}"
        if meeting.devices
        else f"--nproc_per_node={case.devices_per_node}"
    )
    return (*launch, *hosts, devices, f"--log_dir={log_folder}/paddle")
