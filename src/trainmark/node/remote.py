"""A host that is reached through an agent: calls become messages, and the agent reports its jobs' state."""

import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter

from trainmark.files import default_home
from trainmark.node.archives import unpack
from trainmark.node.connection import Connection, agent_command, with_remedy
from trainmark.node.jobs import (
    ClockOffset,
    Host,
    HostError,
    HostGoneError,
    Job,
    JobEnd,
    JobStatus,
    Paths,
    map_hosts,
    with_mapping,
)
from trainmark.node.local import LocalHost
from trainmark.node.reserving import same_holder
from trainmark.node.stacks import Stack
from trainmark.schema.hosts import LOCALHOST, EngineName, HostEntry, HostSet, SshSettings
from trainmark.schema.manifest import FrameworkVersions, Node
from trainmark.schema.plan import NodeResources
from trainmark.version import __version__

CLOCK_SAMPLES = 8

LONG_CALL_LIMIT_S = 24 * 3600.0
"""Time limit for requests that move much data or wait for a lock; heartbeats show that the agent is alive."""

_STACKS = TypeAdapter(dict[int, Stack])
_JOB, _MACHINE, _NODE = TypeAdapter(Job), TypeAdapter(NodeResources), TypeAdapter(Node)


class RemoteHost:
    """A host behind an agent, which is started on first use and restarted after a lost connection."""

    def __init__(self, entry: HostEntry, engine: EngineName, ssh: SshSettings) -> None:
        self._entry, self._engine, self._ssh = entry, engine, ssh
        self._connection: Connection | None = None
        self._machine: NodeResources | None = None
        self._interface = entry.interface
        self._sent: dict[Path, Path] = {}
        self._unreachable_reason: str | None = None
        self._reserved_by: str | None = None
        self.name, self.address, self.folder = entry.name, entry.reached_at, entry.folder
        self.labels, self.traffic = entry.labels, entry.traffic
        self.paths: Paths = tuple((here, there) for here, there in entry.paths.items())

    @property
    def interface(self) -> str | None:
        """The network interface for traffic between ranks."""
        return self._interface

    def unreachable(self) -> str | None:
        """Connect if needed; return why that failed, or None."""
        if self._connection is not None and self._lost():
            self.close()
        try:
            self._connect()
        except HostGoneError as error:
            self._unreachable_reason = str(error)
            return self._unreachable_reason
        self._unreachable_reason = None
        return None

    def close(self) -> None:
        """Disconnect the agent, which then ends its jobs."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def machine(self) -> NodeResources:
        """Return the host's resources; none while it is unreachable, until ``unreachable`` reconnects."""
        if self._machine is None and self._unreachable_reason is None:
            try:
                found = _MACHINE.validate_python(self._call("machine"))
                self._machine = replace(found, slots=self._entry.slots)
            except HostGoneError as error:
                self._unreachable_reason = str(error)
        reason = self._unreachable_reason
        return self._machine or NodeResources(cores=0, gpus=0, no_openmpi=reason, unreachable=reason)

    def facts(
        self, framework: FrameworkVersions | None, environment_lock: str | None, git_dir: Path | None
    ) -> Node:
        """Return the host's facts for a manifest."""
        versions = None if framework is None else framework.model_dump(mode="json")
        git = None if git_dir is None else str(git_dir)
        return _NODE.validate_python(
            self._call("facts", framework=versions, lock=environment_lock, git_dir=git)
        )

    def reserve(self, by: str) -> str | None:
        """Reserve the host as long as its agent lives, and again for each agent that replaces it."""
        try:
            other = _held_by_another(self._call("reserve", by=by), by)
        finally:
            # An unreachable host is reserved as soon as it is reachable.
            self._reserved_by = by
        return other

    def clock(self) -> ClockOffset:
        """Return its clock's offset from ours, from the fastest of several round trips."""
        offsets = []
        for _ in range(CLOCK_SAMPLES):
            sent_at = time.time()
            there = float(self._call("time"))
            received_at = time.time()
            offsets.append(ClockOffset(there - (sent_at + received_at) / 2, (received_at - sent_at) / 2))
        return min(offsets, key=lambda one: one.error_s)

    def has_free_ports(self, first: int, count: int) -> bool:
        """Return whether these ports are free on the host."""
        return bool(self._call("has_free_ports", first=first, count=count))

    def which(self, command: str) -> str | None:
        """Return the path of a command on the agent's search path, or None."""
        found = self._call("which", command=command)
        return None if found is None else str(found)

    def has(self, path: Path) -> bool:
        """Return whether a file or folder exists on the host."""
        return bool(self._call("has", path=str(path)))

    def read(self, path: Path) -> bytes | None:
        """Return the content of a file on the host, or None."""
        there, content = self._connect().call("read", path=str(path))
        with content:
            return content.read() if there else None

    def digests(self, path: Path) -> Mapping[str, str]:
        """Return the digests of files on the host."""
        return dict(self._connect().call("digests", b"", LONG_CALL_LIMIT_S, path=str(path))[0])

    def put(self, path: Path, content: bytes) -> None:
        """Write a file on the host."""
        self._connect().call("put", content, path=str(path))

    def get(self, folder: Path, into: Path, without: Collection[str] = ()) -> None:
        """Copy the content of a folder on the host; devices, and links that lead out of it, are skipped."""
        _, content = self._connect().call(
            "get", b"", LONG_CALL_LIMIT_S, folder=str(folder), without=list(without)
        )
        with content:
            unpack(content, into)

    def put_folder(self, path: Path, content: IO[bytes]) -> None:
        """Unpack an archive as a new folder on the host."""
        self._connect().call("put_folder", content, LONG_CALL_LIMIT_S, path=str(path))

    def map_path(self, here: Path, there: Path) -> None:
        """Map a local path to one on the host."""
        self._sent[here] = there
        self.paths = with_mapping(self.paths, here, there)

    def remove(self, path: Path, without: Collection[str] = ()) -> None:
        """Remove a file or folder on the host."""
        self._call("remove", path=str(path), without=list(without))

    def remove_empty(self, folders: Sequence[Path]) -> None:
        """Remove those folders on the host that are empty."""
        if self._connection is not None:
            self._call("remove_empty", folders=[str(folder) for folder in folders])

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Hold a lock file on the host."""
        self._connect().call("lock", b"", LONG_CALL_LIMIT_S, path=str(path))
        try:
            yield
        finally:
            with suppress(HostError, OSError):
                self._call("unlock", path=str(path))

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield an empty temporary folder on the host."""
        folder = Path(str(self._call("scratch")))
        try:
            yield folder
        finally:
            with suppress(HostError, OSError):
                self.remove(folder)

    def start(self, job: Job) -> int:
        """Start a job on the host."""
        connection = self._connect()
        pid = int(connection.call("start", job=_JOB.dump_python(job, mode="json"))[0])
        connection.jobs.setdefault(pid, {})
        return pid

    def wait(self, pid: int, timeout_s: float) -> int | None:
        """Return a job's exit code if it is reported within ``timeout_s``, else None."""
        return self._connect().code(pid, timeout_s)

    def job_status(self, pid: int) -> JobStatus:
        """Return the last reported state of a job."""
        status = self._connect().jobs.get(pid, {})
        return JobStatus(
            status.get("written", 0),
            status.get("step"),
            status.get("private_bytes", 0),
            status.get("steps"),
        )

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a job's session."""
        self._call("signal", pid=pid, number=number)

    def stopped(self, mark: str, pid: int) -> tuple[int, ...]:
        """Return the ranks of a job that are stopped, as by SIGSTOP."""
        return tuple(self._call("stopped", mark=mark, pid=pid))

    def stop_ranks(self, mark: str, pid: int) -> None:
        """Stop the ranks of a job."""
        self._call("stop_ranks", mark=mark, pid=pid)

    def stacks(self, mark: str, pid: int) -> dict[int, Stack]:
        """Abort the ranks of a job, and return the stacks that they dump."""
        return _STACKS.validate_python(self._call("stacks", mark=mark, pid=pid))

    def kill(self, mark: str, pid: int | None = None) -> int:
        """End every process with the mark; through a new agent if the old one was lost."""
        if self._connection is not None and not self._lost():
            with suppress(HostGoneError):
                return int(self._call("kill", mark=mark, pid=pid))
        if (why := self.unreachable()) is not None:
            raise HostGoneError(why)
        # The new agent does not know the job, and its process id may be reused by now.
        return int(self._call("kill", mark=mark, pid=None))

    def reap(self, pid: int) -> JobEnd:
        """Return how a job ended."""
        connection = self._connect()
        if pid not in connection.jobs:
            raise HostGoneError(f"{self.name}: the agent that started it was lost")
        code, oom_kills, daemons = connection.call("reap", pid=pid)[0]
        connection.jobs.pop(pid, None)
        return JobEnd(code, oom_kills, tuple(daemons))

    def _lost(self) -> bool:
        try:
            self._connect().raise_if_gone()
        except HostGoneError:
            return True
        return False

    def _restore_reservation(self, connection: Connection) -> None:
        by = self._reserved_by
        other = None if by is None else _held_by_another(connection.call("reserve", by=by)[0], by)
        if other is not None:
            self.close()
            raise HostGoneError(f"{self.name}: another campaign measures on it ({other.partition(' ')[2]})")

    def _call(self, call: str, **message: Any) -> Any:
        return self._connect().call(call, **message)[0]

    def _connect(self) -> Connection:
        if self._connection is None:
            python = self._entry.python or Path(sys.executable)
            connection = Connection(self.name, agent_command(self._entry, self._engine, self._ssh, python))
            self._connection = connection
            assert connection.hello is not None
            if connection.hello["version"] != __version__:
                self.close()
                versions = f"it has trainmark {connection.hello['version']}, this machine has {__version__}"
                raise HostGoneError(f"{self.name}: {with_remedy(versions)}")
            if connection.hello.get("problem"):
                self.close()
                raise HostGoneError(f"{self.name}: {with_remedy(connection.hello['problem'])}")
            self._restore_reservation(connection)
            self.paths = _paths(self._entry, connection.hello)
            for here, there in self._sent.items():
                self.paths = with_mapping(self.paths, here, there)
            if self._interface is None:
                self._interface = connection.call("interface", address=self.address)[0]
        return self._connection


def _held_by_another(holder: Any, by: str) -> str | None:
    """Return the other holder of a host, or None; a lost agent of ours that still runs is not another holder."""
    return None if holder is None or same_holder(holder, by) else str(holder)


def connect_hosts(chosen: HostSet) -> tuple[Host, ...]:
    """Return the hosts of a set, and connect to them in parallel; some may stay unreachable."""
    hosts = tuple(_host(entry, chosen) for entry in chosen.hosts)
    try:
        map_hosts(hosts, lambda host: host.unreachable())
        map_hosts(hosts, lambda host: host.machine())
    except BaseException:
        map_hosts([host for host in hosts if isinstance(host, RemoteHost)], RemoteHost.close)
        raise
    return hosts


def _host(entry: HostEntry, chosen: HostSet) -> Host:
    if entry.name != LOCALHOST:
        return RemoteHost(entry, chosen.engine, chosen.ssh)
    here = LocalHost()
    machine = replace(here.machine(), slots=entry.slots)
    paths = tuple(entry.paths.items())
    return LocalHost(
        LOCALHOST,
        entry.address or here.address,
        entry.folder,
        machine,
        paths,
        entry.interface,
        entry.labels,
        entry.traffic,
    )


def _paths(entry: HostEntry, hello: Mapping[str, Any]) -> Paths:
    """Return the path mappings of a host: trainmark's own folders, and those of its entry in the hosts file."""
    ours = {
        Path(sys.executable): Path(hello["python"]),
        Path(__file__).parents[1]: Path(hello["package"]),
        default_home(os.environ): Path(hello["home"]),
    }
    mappings = {**ours, **entry.paths}
    return tuple((here, there) for here, there in mappings.items() if here != there)
