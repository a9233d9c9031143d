"""Detection of this machine's resources for placement: cores, GPUs, ports, OpenMPI, Slurm's allocation."""

import atexit
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

_TIMEOUT_S = 30.0
_FIRST, _LAST = 20_000, 32_000
_HERE = "this machine"
_MAX_ATTEMPTS = 100
"""Attempts to find ports that are free on all hosts."""
_GRAIN = 8
"""Ports per reservation unit."""
_MOST_RESERVED = 8
"""Reserved grains in addition to the latest ones, because ranks bind their ports later; each is an open file."""
_reserved: deque[tuple[int, ExitStack]] = deque()
_known_openmpi: set[tuple[str, int]] = set()
"""mpirun programs known to be OpenMPI's; each is probed once although a campaign checks it for every case."""
ALLOCATION = "TRAINMARK_SLURM_JOB_ID"
"""The variable in which an agent keeps the number of its allocation, so that only srun finds it."""
_LONGEST_PREFIX = 8
"""The words of a command in which srun is searched: ``env NAME=VALUE … srun``."""


def this_machine(host: Host) -> NodeResources:
    """Return the cores that this process may use, the GPUs that NVML reports, and whether OpenMPI is installed.

    ``host`` is this machine, on which mpirun is probed.
    """
    quota = read_cpu(Path("/proc"), Path("/sys")).quota_cpus
    cores = usable_cores(len(os.sched_getaffinity(0)), quota)
    visible = _visible()
    there = _gpus()
    gpus = there if visible is None else min(there, len(visible))
    return NodeResources(cores=cores, gpus=gpus, visible=visible or (), no_openmpi=_why_no_openmpi(host))


def free_ports(count: int, hosts: Sequence[Host] = ()) -> int:
    """Return the first of ``count`` consecutive ports that are free on this machine, or on all of ``hosts``.

    They are below the kernel's ephemeral ports. Other trainmark processes on this machine do not get them, and this
    one does not reuse them soon. If another program takes one before the ranks do, the run fails with that reason.
    Raises ``HostError`` naming the host without free ports.
    """
    where, width, attempts = "", -(-count // _GRAIN), 0
    starts = range((_LAST - _FIRST) // _GRAIN - width + 1)
    for grain in random.sample(starts, len(starts)):
        with ExitStack() as names:
            if not _reserve(range(grain, grain + width), names):
                continue
            first = _FIRST + grain * _GRAIN
            where, attempts = _busy(first, count, hosts), attempts + 1
            if not where:
                _reserved.append((width, names.pop_all()))
                _forget()
                return first
        if attempts == _MAX_ATTEMPTS:
            break
    raise HostError(f"{where or _HERE}: no {count} free ports in a row between {_FIRST} and {_LAST}")


def _busy(first: int, count: int, hosts: Sequence[Host]) -> str:
    """Return the host on which one of these ports is in use, or an empty string."""
    if not hosts:
        return "" if ports_are_free(first, count) else _HERE
    busy = next((host for host in hosts if not host.has_free_ports(first, count)), None)
    return "" if busy is None else display_name(busy)


def _forget() -> None:
    """Release the oldest reservations until at most ``_MOST_RESERVED`` grains remain."""
    while len(_reserved) > 1 and sum(width for width, _ in _reserved) - _reserved[-1][0] > _MOST_RESERVED:
        _reserved.popleft()[1].close()


@atexit.register
def _release() -> None:
    """Release all reservations when this process exits, as it would do with a warning about open sockets."""
    while _reserved:
        _reserved.popleft()[1].close()


def _reserve(grains: range, names: ExitStack) -> bool:
    """Bind the socket names that reserve ports among the trainmark processes of a machine until this one exits.

    Returns False if another process has a name; raises ``OSError`` if this process may open no more files.
    """
    for grain in grains:
        name = names.enter_context(socket.socket(socket.AF_UNIX))
        try:
            # Linux abstract names: no files, and one name space per network namespace, like ports.
            name.bind(f"\0trainmark-ports-{grain}")
        except OSError:
            return False
    return True


def ports_are_free(first: int, count: int) -> bool:
    """Return whether ``count`` ports from ``first`` on are free; another program may take one afterwards."""
    with ExitStack() as stack:
        try:
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("", port))
        except OSError:
            return False
    return True


def usable_cores(allowed: int, quota_cpus: float | None) -> int:
    """Return how many threads can run in parallel: the allowed CPUs, or fewer under a container's quota.

    With more threads than the quota's CPUs, all are paused in the middle of a step until the next period begins.
    """
    return allowed if quota_cpus is None else max(1, min(allowed, int(quota_cpus)))


def _why_no_openmpi(host: Host) -> str | None:
    """Return why OpenMPI's mpirun cannot be used and how to fix it, or None; MPICH's mpirun has other flags."""
    remedy = "install OpenMPI (Debian: apt install openmpi-bin)"
    if (mpirun := host.which("mpirun")) is None:
        return f"mpirun was not found on {display_name(host)}; {remedy}"
    program = (mpirun, Path(mpirun).stat().st_mtime_ns)
    if program in _known_openmpi:
        return None
    result = probe_runner(host, _TIMEOUT_S).run(Command(0, (mpirun, "--version"), {}))
    if result.stopped is not None or result.code == NOT_FOUND:
        return f"{mpirun} does not run ({result.error_line() or 'no answer'}); {remedy}"
    if b"Open MPI" not in result.out:
        return f"{mpirun} is not OpenMPI's; {remedy} and put it first on PATH"
    _known_openmpi.add(program)
    return None


def _visible() -> tuple[str, ...] | None:
    """Return the names in ``CUDA_VISIBLE_DEVICES``; None if it is not set."""
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return None
    return tuple(word.strip() for word in value.split(",") if word.strip() not in ("", "-1"))


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


def keep_allocation(number: str | None) -> None:
    """Keep the number of the allocation for later commands; None: there is no allocation."""
    if number is not None:
        os.environ[ALLOCATION] = number


def allocation_variables(words: Sequence[str]) -> dict[str, str]:
    """Return the variables by which an srun becomes a step of the allocation, next to the agent; empty for others."""
    number = os.environ.get(ALLOCATION)
    if number is None or "srun" not in (Path(word).name for word in words[:_LONGEST_PREFIX]):
        return {}
    return {"SLURM_JOB_ID": number, "SLURM_OVERLAP": "1"}
