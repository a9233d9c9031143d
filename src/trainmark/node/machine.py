"""Asking this machine what placement must know of it."""

import os
import random
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from trainmark.node.facts import read_cpu
from trainmark.node.host import Host, HostError, display_name
from trainmark.node.jobs import NOT_FOUND, probe_runner
from trainmark.schema.plan import Command, NodeResources

_ASK_S = 30.0


def this_machine(host: Host) -> NodeResources:
    """Return the cores that this process may use, the GPUs that NVIDIA's library reports, and if OpenMPI is here.

    ``host`` is this machine, on which OpenMPI is asked.
    """
    quota = read_cpu(Path("/proc"), Path("/sys")).quota_cpus
    cores = usable_cores(len(os.sched_getaffinity(0)), quota)
    visible = _visible()
    there = _gpus()
    gpus = there if visible is None else min(there, len(visible))
    return NodeResources(cores=cores, gpus=gpus, visible=visible or (), no_openmpi=_why_no_openmpi(host))


def free_ports(count: int, hosts: Sequence[Host] = ()) -> int:
    """Return the first of ``count`` ports in a row that are free here, or on all of ``hosts``.

    They are below those that kernels hand out. No other trainmark on this machine is given them, and this one not soon
    again; another program may take one of them before the ranks do: the run then fails and says so. Raises
    ``HostError`` with the host that has none.
    """
    where, width, asked = "", -(-count // _GRAIN), 0
    starts = range((_LAST - _FIRST) // _GRAIN - width + 1)
    for grain in random.sample(starts, len(starts)):
        with ExitStack() as names:
            if not _reserve(range(grain, grain + width), names):
                continue
            first = _FIRST + grain * _GRAIN
            where, asked = _busy(first, count, hosts), asked + 1
            if not where:
                _reserved.append((width, names.pop_all()))
                _forget()
                return first
        if asked == _MOST_ASKED:
            break
    raise HostError(f"{where or _HERE}: no {count} free ports in a row between {_FIRST} and {_LAST}")


def _busy(first: int, count: int, hosts: Sequence[Host]) -> str:
    """Return who has not all of these ports free; nothing where all have."""
    if not hosts:
        return "" if ports_are_free(first, count) else _HERE
    busy = next((host for host in hosts if not host.has_free_ports(first, count)), None)
    return "" if busy is None else display_name(busy)


_FIRST, _LAST = 20_000, 32_000

_HERE = "this machine"

_MOST_ASKED = 100
"""Times that hosts are asked."""

_GRAIN = 8
"""Ports that are reserved as one."""

_MOST_RESERVED = 8
"""Grains that are kept beside those that were given last: ranks take theirs when they begin. Each is an open file."""

_reserved: deque[tuple[int, ExitStack]] = deque()


def _forget() -> None:
    """Let go of what was reserved first, until little enough is kept."""
    while len(_reserved) > 1 and sum(width for width, _ in _reserved) - _reserved[-1][0] > _MOST_RESERVED:
        _reserved.popleft()[1].close()


def _reserve(grains: range, names: ExitStack) -> bool:
    """Take the names by which the trainmarks of a machine keep ports from each other: they go with their process.

    Returns False where another one has a name; raises ``OSError`` where this process may open no more files.
    """
    for grain in grains:
        name = names.enter_context(socket.socket(socket.AF_UNIX))
        try:
            # Linux's abstract names: no files, and those of one network, as its ports are.
            name.bind(f"\0trainmark-ports-{grain}")
        except OSError:
            return False
    return True


def ports_are_free(first: int, count: int) -> bool:
    """Tell whether nobody listens on ``count`` ports from ``first`` on; another program may take one afterwards."""
    with ExitStack() as stack:
        try:
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("", port))
        except OSError:
            return False
    return True


def usable_cores(allowed: int, quota_cpus: float | None) -> int:
    """Return how many threads can compute at once: the allowed CPUs, or fewer under a container's quota.

    More threads than the quota's CPUs are stopped in the middle of a step until the next period begins.
    """
    return allowed if quota_cpus is None else max(1, min(allowed, int(quota_cpus)))


_known_openmpi: set[tuple[str, int]] = set()
"""Programs that have said that they are OpenMPI's: each is asked once, as a campaign looks for every case."""


def _why_no_openmpi(host: Host) -> str | None:
    """Return why OpenMPI's mpirun cannot be used here and what to do, or None; MPICH's has other flags."""
    way_out = "install OpenMPI (Debian: apt install openmpi-bin)"
    if (mpirun := host.which("mpirun")) is None:
        return f"mpirun was not found on {display_name(host)}; {way_out}"
    program = (mpirun, Path(mpirun).stat().st_mtime_ns)
    if program in _known_openmpi:
        return None
    said = probe_runner(host, _ASK_S).run(Command(0, (mpirun, "--version"), {}))
    if said.stopped is not None or said.code == NOT_FOUND:
        return f"{mpirun} does not run ({said.error_line() or 'no answer'}); {way_out}"
    if b"Open MPI" not in said.out:
        return f"{mpirun} is not OpenMPI's; {way_out} and put it first on PATH"
    _known_openmpi.add(program)
    return None


def _visible() -> tuple[str, ...] | None:
    """Return the GPUs that the caller lets be seen, by name; None where nothing is said of it."""
    said = os.environ.get("CUDA_VISIBLE_DEVICES")
    if said is None:
        return None
    return tuple(word.strip() for word in said.split(",") if word.strip() not in ("", "-1"))


def _gpus() -> int:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()
