"""A host that is reached through an agent: each call becomes a message, and what its jobs do is told unasked."""

import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter

from trainmark import __file__ as package
from trainmark import __version__
from trainmark.home import default_home
from trainmark.node.archives import unpack
from trainmark.node.connection import Connection
from trainmark.node.engines import agent_command
from trainmark.node.host import (
    ClockOffset,
    Host,
    HostError,
    HostGoneError,
    Job,
    JobEnd,
    JobStatus,
    Paths,
    with_mapping,
)
from trainmark.node.local import LocalHost
from trainmark.node.parallel import map_hosts
from trainmark.node.reserving import same_holder
from trainmark.node.stacks import Stack
from trainmark.schema.hosts import LOCALHOST, EngineName, HostEntry, HostSet, SshSettings
from trainmark.schema.manifest import FrameworkVersions, Node
from trainmark.schema.plan import NodeResources

CLOCK_QUESTIONS = 8

PATIENT_S = 24 * 3600.0
"""How long it may take over much data, or wait for another's lock; that it lives is known by its beats."""

_STACKS = TypeAdapter(dict[int, Stack])
_JOB, _MACHINE, _NODE = TypeAdapter(Job), TypeAdapter(NodeResources), TypeAdapter(Node)


class RemoteHost:
    """A host behind an agent, which is started when it is first needed and anew when it was lost."""

    def __init__(self, entry: HostEntry, engine: EngineName, ssh: SshSettings) -> None:
        self._entry, self._engine, self._ssh = entry, engine, ssh
        self._connection: Connection | None = None
        self._machine: NodeResources | None = None
        self._interface = entry.interface
        self._sent: dict[Path, Path] = {}
        self._absent: str | None = None
        self._reserved_by: str | None = None
        self.name, self.address, self.folder = entry.name, entry.reached_at, entry.folder
        self.labels, self.traffic = entry.labels, entry.traffic
        self.paths: Paths = tuple((here, there) for here, there in entry.paths.items())

    @property
    def interface(self) -> str | None:
        """The interface that the ranks are to use."""
        return self._interface

    def unreachable(self) -> str | None:
        """Connect where there is no connection; return why that failed."""
        if self._connection is not None and self._lost():
            self.close()
        try:
            self._connected()
        except HostGoneError as error:
            self._absent = str(error)
            return self._absent
        self._absent = None
        return None

    def close(self) -> None:
        """Let the agent go; what it started is ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def machine(self) -> NodeResources:
        """Return what the host has; nothing while it cannot be reached, which ``unreachable`` tries anew."""
        if self._machine is None and self._absent is None:
            try:
                found = _MACHINE.validate_python(self._ask("machine"))
                self._machine = replace(found, slots=self._entry.slots)
            except HostGoneError as error:
                self._absent = str(error)
        return self._machine or NodeResources(cores=0, gpus=0, no_openmpi=self._absent)

    def facts(
        self, framework: FrameworkVersions | None, environment_lock: str | None, git_dir: Path | None
    ) -> Node:
        """Return what a manifest holds about the host."""
        versions = None if framework is None else framework.model_dump(mode="json")
        git = None if git_dir is None else str(git_dir)
        return _NODE.validate_python(
            self._ask("facts", framework=versions, lock=environment_lock, git_dir=git)
        )

    def reserve(self, by: str) -> str | None:
        """Hold the host as long as its agent lives, and each agent that takes its place."""
        try:
            other = _held_by_another(self._ask("reserve", by=by), by)
        finally:
            # One that cannot be reached now is held once it can be.
            self._reserved_by = by
        return other

    def clock(self) -> ClockOffset:
        """Return how its clock stands to ours, by the quickest of some questions."""
        seen = []
        for _ in range(CLOCK_QUESTIONS):
            asked = time.time()
            there = float(self._ask("time"))
            answered = time.time()
            seen.append(ClockOffset(there - (asked + answered) / 2, (answered - asked) / 2))
        return min(seen, key=lambda one: one.error_s)

    def has_free_ports(self, first: int, count: int) -> bool:
        """Tell whether nobody listens on these ports there."""
        return bool(self._ask("has_free_ports", first=first, count=count))

    def which(self, command: str) -> str | None:
        """Return where on the agent's path a command is."""
        found = self._ask("which", command=command)
        return None if found is None else str(found)

    def has(self, path: Path) -> bool:
        """Tell whether a file or folder is there."""
        return bool(self._ask("has", path=str(path)))

    def read(self, path: Path) -> bytes | None:
        """Return what a file there holds, or None."""
        there, content = self._connected().call("read", path=str(path))
        with content:
            return content.read() if there else None

    def digests(self, path: Path) -> Mapping[str, str]:
        """Return the digests of files there."""
        return dict(self._connected().call("digests", b"", PATIENT_S, path=str(path))[0])

    def put(self, path: Path, content: bytes) -> None:
        """Write a file there."""
        self._connected().call("put", content, path=str(path))

    def get(self, folder: Path, into: Path, without: Collection[str] = ()) -> None:
        """Copy what a folder there holds; links that lead out of it, and devices, are left."""
        _, content = self._connected().call("get", b"", PATIENT_S, folder=str(folder), without=list(without))
        with content:
            unpack(content, into)

    def put_folder(self, path: Path, content: IO[bytes]) -> None:
        """Make a folder there of an archive."""
        self._connected().call("put_folder", content, PATIENT_S, path=str(path))

    def map_path(self, here: Path, there: Path) -> None:
        """Remember where on it something of ours lies."""
        self._sent[here] = there
        self.paths = with_mapping(self.paths, here, there)

    def remove(self, path: Path, without: Collection[str] = ()) -> None:
        """Remove a file or folder there."""
        self._ask("remove", path=str(path), without=list(without))

    def remove_empty(self, folders: Sequence[Path]) -> None:
        """Remove folders there as far as they are empty."""
        if self._connection is not None:
            self._ask("remove_empty", folders=[str(folder) for folder in folders])

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Hold a lock there."""
        self._connected().call("lock", b"", PATIENT_S, path=str(path))
        try:
            yield
        finally:
            with suppress(HostError, OSError):
                self._ask("unlock", path=str(path))

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give an empty folder there."""
        folder = Path(str(self._ask("scratch")))
        try:
            yield folder
        finally:
            with suppress(HostError, OSError):
                self.remove(folder)

    def start(self, job: Job) -> int:
        """Start a job there."""
        connection = self._connected()
        pid = int(connection.call("start", job=_JOB.dump_python(job, mode="json"))[0])
        connection.jobs.setdefault(pid, {})
        return pid

    def wait(self, pid: int, timeout_s: float) -> int | None:
        """Return a job's exit code when it is told in time."""
        return self._connected().code(pid, timeout_s)

    def job_status(self, pid: int) -> JobStatus:
        """Return what was told last of a job."""
        told = self._connected().jobs.get(pid, {})
        return JobStatus(told.get("written", 0), told.get("step"), told.get("private_bytes", 0))

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a job's session."""
        self._ask("signal", pid=pid, number=number)

    def stopped(self, mark: str, pid: int) -> tuple[int, ...]:
        """Return the ranks of a job that somebody has stopped and not continued there."""
        return tuple(self._ask("stopped", mark=mark, pid=pid))

    def stop_ranks(self, mark: str, pid: int) -> None:
        """Stop the ranks of a job there."""
        self._ask("stop_ranks", mark=mark, pid=pid)

    def stacks(self, mark: str, pid: int) -> dict[int, Stack]:
        """End the ranks of a job there, and return where each of them was that says so."""
        return _STACKS.validate_python(self._ask("stacks", mark=mark, pid=pid))

    def kill(self, mark: str, pid: int | None = None) -> int:
        """End every process there that carries the mark; through a new agent where the old one is lost."""
        if self._connection is not None and not self._lost():
            with suppress(HostGoneError):
                return int(self._ask("kill", mark=mark, pid=pid))
        if (why := self.unreachable()) is not None:
            raise HostGoneError(why)
        # The new agent never knew the job, whose session may by now be another's.
        return int(self._ask("kill", mark=mark, pid=None))

    def reap(self, pid: int) -> JobEnd:
        """Return how a job ended."""
        connection = self._connected()
        if pid not in connection.jobs:
            raise HostGoneError(f"{self.name}: the agent that started it was lost")
        code, oom_kills = connection.call("reap", pid=pid)[0]
        connection.jobs.pop(pid, None)
        return JobEnd(code, oom_kills)

    def _lost(self) -> bool:
        try:
            self._connected().require()
        except HostGoneError:
            return True
        return False

    def _hold_again(self, connection: Connection) -> None:
        by = self._reserved_by
        other = None if by is None else _held_by_another(connection.call("reserve", by=by)[0], by)
        if other is not None:
            self.close()
            raise HostGoneError(f"{self.name}: another campaign measures there ({other.partition(' ')[2]})")

    def _ask(self, call: str, **message: Any) -> Any:
        return self._connected().call(call, **message)[0]

    def _connected(self) -> Connection:
        if self._connection is None:
            python = self._entry.python or Path(sys.executable)
            connection = Connection(self.name, agent_command(self._entry, self._engine, self._ssh, python))
            self._connection = connection
            assert connection.hello is not None
            if connection.hello["version"] != __version__:
                self.close()
                raise HostGoneError(
                    f"{self.name}: trainmark {connection.hello['version']} is installed there, and {__version__} here; "
                    "install the same on both"
                )
            if connection.hello.get("trouble"):
                self.close()
                raise HostGoneError(f"{self.name}: {connection.hello['trouble']}")
            self._hold_again(connection)
            self.paths = _paths(self._entry, connection.hello)
            for here, there in self._sent.items():
                self.paths = with_mapping(self.paths, here, there)
            if self._interface is None:
                self._interface = connection.call("interface", address=self.address)[0]
        return self._connection


def _held_by_another(said: Any, by: str) -> str | None:
    """Return who holds a host; an agent of ours that was lost lives on for a while, and is no other."""
    return None if said is None or same_holder(said, by) else str(said)


def connect_hosts(chosen: HostSet) -> tuple[Host, ...]:
    """Return the hosts of a set, connected at once as far as they can be reached."""
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
    """Return what has another path there: what the entry says, and trainmark's own folders."""
    ours = {
        Path(sys.executable): Path(hello["python"]),
        Path(package).parent: Path(hello["package"]),
        default_home(os.environ): Path(hello["home"]),
    }
    said = {**ours, **entry.paths}
    return tuple((here, there) for here, there in said.items() if here != there)
