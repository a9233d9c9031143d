"""The host interface: start, watch and end processes, access files, and read facts."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from trainmark.errors import TrainmarkError
from trainmark.node.stacks import Stack
from trainmark.schema.hosts import LOCALHOST, Traffic
from trainmark.schema.manifest import FrameworkVersions, Node
from trainmark.schema.plan import Command, NodeResources

Paths = tuple[tuple[Path, Path], ...]
"""Pairs (local path, host path) of files and folders whose paths differ on a host."""


@dataclass(frozen=True, slots=True)
class Job:
    """A tree of processes to start on one host; all paths are the host's.

    Several ``commands`` are ranks that are started and ended as a group. Every process inherits ``mark``, by which
    it is found when it must be ended. A job without commands represents the processes that another host's mpirun
    starts on this host with that mark: it is watched and ended, but not waited for. Output goes to ``log``, after
    ``heading``; standard error goes to ``errors`` if given. ``memory`` limits the private bytes. ``signs`` are
    further files whose growth shows progress. The host writes telemetry to ``telemetry`` if given, and to
    ``arrivals`` when the bytes of the log arrived. ``ranks`` is the
    number of ranks of the whole run on all hosts; with several, each can be made to dump its stack.
    """

    commands: tuple[Command, ...]
    directory: Path
    log: Path
    mark: str
    memory: int | None = None
    signs: tuple[Path, ...] = ()
    errors: Path | None = None
    heading: bytes = b""
    telemetry: Path | None = None
    arrivals: Path | None = None
    ranks: int = 1

    @property
    def working_directory(self) -> Path:
        """The folder in which its commands start; a node's commands have the same."""
        return (self.commands[0].directory if self.commands else None) or self.directory


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The state of a running job: bytes written, last reported step, private memory."""

    written: int
    step: int | None
    private_bytes: int


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job: its exit code (negative for a signal) and the number of kernel OOM kills meanwhile.

    ``daemons`` describes the ended processes that it left in sessions of their own, with a cleared environment.
    """

    code: int
    oom_kills: int
    daemons: tuple[str, ...] = ()


def remote_path(paths: Paths, here: Path) -> Path:
    """Return the host's path for a local path, mapped by the longest matching prefix in ``paths``."""
    fitting = [pair for pair in paths if here.is_relative_to(pair[0])]
    if not fitting:
        return here
    ours, theirs = max(fitting, key=lambda pair: len(pair[0].parts))
    return theirs / here.relative_to(ours)


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """A host's clock offset from ours (positive if ahead) and its error bound, in seconds."""

    offset_s: float
    error_s: float


def with_mapping(paths: Paths, here: Path, there: Path) -> Paths:
    """Return the paths with the mapping of ``here`` replaced."""
    return (*(pair for pair in paths if pair[0] != here), (here, there))


class HostError(TrainmarkError):
    """An error that a host returned for a request."""


class HostOSError(OSError):
    """An ``OSError`` that was raised on a host."""


class HostGoneError(HostError):
    """The host cannot be reached or the connection was lost; its agent ends the jobs."""


def display_name(host: "Host") -> str:
    """Return a host's name for use in a sentence."""
    return "this machine" if host.name == LOCALHOST else host.name


class Host(Protocol):
    """One machine on which ranks, prepare steps, git and probes run; jobs are identified by their process id."""

    @property
    def name(self) -> str:
        """The host's name in plans and outcomes."""

    @property
    def address(self) -> str:
        """The address at which other hosts reach it."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels from the hosts file."""

    @property
    def folder(self) -> Path | None:
        """The folder of runs on the host; None if ``paths`` map the local one."""

    @property
    def paths(self) -> Paths:
        """Files and folders whose paths on the host differ from the local ones."""

    @property
    def interface(self) -> str | None:
        """The network interface for traffic between ranks; None if the ranks choose it themselves."""

    @property
    def traffic(self) -> Traffic:
        """The settings for traffic between its ranks and those of other hosts."""

    def unreachable(self) -> str | None:
        """Return why the host cannot be reached, or None; reconnects after a lost connection.

        All methods below raise ``HostGoneError`` when the connection is lost.
        """

    def machine(self) -> NodeResources:
        """Return the resources that placement needs."""

    def facts(
        self, framework: FrameworkVersions | None, environment_lock: str | None, git_dir: Path | None
    ) -> Node:
        """Return the host's current facts for a manifest."""

    def reserve(self, by: str) -> str | None:
        """Reserve the host for measurements by ``by``; return the current holder if it is reserved, else None."""

    def clock(self) -> ClockOffset | None:
        """Return its clock's offset from ours; None if both share a clock."""

    def has_free_ports(self, first: int, count: int) -> bool:
        """Return whether ``count`` ports from ``first`` on are free."""

    def which(self, command: str) -> str | None:
        """Return the path of a command on the host's search path, or None."""

    def has(self, path: Path) -> bool:
        """Return whether a file or folder exists on the host."""

    def read(self, path: Path) -> bytes | None:
        """Return the content of a file on the host, or None if it is missing."""

    def digests(self, path: Path) -> Mapping[str, str]:
        """Return the digests of a file, or of all files below a folder, by their relative paths."""

    def put(self, path: Path, content: bytes) -> None:
        """Write a file on the host atomically, creating its folder; raise ``OSError`` on failure."""

    def get(self, folder: Path, into: Path, without: Collection[str] = ()) -> None:
        """Copy the content of a folder on the host into a local one, without the entries named ``without``."""

    def put_folder(self, path: Path, content: IO[bytes]) -> None:
        """Unpack an archive as a new folder on the host, unless it exists; raise ``OSError`` on failure."""

    def map_path(self, here: Path, there: Path) -> None:
        """Map the local path ``here`` to the host's path ``there``."""

    def remove(self, path: Path, without: Collection[str] = ()) -> None:
        """Remove a file or folder on the host if it exists; with ``without``, only a folder's other entries.

        Raises ``OSError`` on failure.
        """

    def remove_empty(self, folders: Sequence[Path]) -> None:
        """Remove those of the folders, in this order, that are empty; does nothing without a connection."""

    def locked(self, path: Path) -> AbstractContextManager[None]:
        """Hold a lock file on the host against other trainmark processes; raise ``OSError`` on failure."""

    def scratch(self) -> AbstractContextManager[Path]:
        """Yield an empty temporary folder on the host, which is removed at the end."""

    def start(self, job: Job) -> int:
        """Start a job and return its number; raise ``OSError`` or ``ValueError`` if it cannot be started."""

    def wait(self, pid: int, timeout_s: float) -> int | None:
        """Wait up to ``timeout_s`` for a job; return its exit code, or None if it still runs."""

    def job_status(self, pid: int) -> JobStatus:
        """Return the state of a running job."""

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to the processes of a job's session."""

    def stopped(self, mark: str, pid: int) -> tuple[int, ...]:
        """Return the ranks of a job that are stopped, as by SIGSTOP."""

    def stop_ranks(self, mark: str, pid: int) -> None:
        """Stop the ranks of a job so that ``stacks`` finds them where they are."""

    def stacks(self, mark: str, pid: int) -> Mapping[int, Stack]:
        """Abort the ranks of a job that dump their stack, and return the stacks; () if a rank wrote none."""

    def kill(self, mark: str, pid: int | None = None) -> int:
        """End every process with the mark, and a job's whole process tree; return the number of ended processes."""

    def reap(self, pid: int) -> JobEnd:
        """Return how a job ended, and release it."""
