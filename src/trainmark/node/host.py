"""What a host can be asked for: to start, watch and end processes, what its disk holds, and what it is."""

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
"""What has another path on a host than here: files, or folders with all that they hold, as (here, there)."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is started on one host as one tree of processes; all paths are that host's.

    Several ``commands`` are ranks, which are started and ended together. Every process carries ``mark``, by which it
    is found when it must be ended. Without commands the job is what another host's mpirun starts here with that mark:
    it is watched and ended, but not waited for. What they print goes to ``log``, after ``heading``; their standard
    error goes to ``errors`` where that is given. ``memory`` bounds the private bytes. ``signs`` are further files whose
    growth shows that something goes on. Where ``telemetry`` is given the host writes it while they run. ``ranks`` are
    those of the whole run, on all hosts: of several, each can be asked where it is.
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
    ranks: int = 1


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job that goes on: the bytes that it has written, the last step that it spoke of, and its private memory."""

    written: int
    step: int | None
    private_bytes: int


@dataclass(frozen=True, slots=True)
class JobEnd:
    """A job that has ended: its exit code (negative for a signal), and what the kernel killed for memory meanwhile."""

    code: int
    oom_kills: int


def remote_path(paths: Paths, here: Path) -> Path:
    """Return the path on a host of what has this one here; the longest of the ``paths`` that it begins with counts."""
    fitting = [pair for pair in paths if here.is_relative_to(pair[0])]
    if not fitting:
        return here
    ours, theirs = max(fitting, key=lambda pair: len(pair[0].parts))
    return theirs / here.relative_to(ours)


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far a host's clock is ahead of ours, seconds, and how far that may be wrong."""

    offset_s: float
    error_s: float


def with_mapping(paths: Paths, here: Path, there: Path) -> Paths:
    """Return the paths with another place for what is ``here``."""
    return (*(pair for pair in paths if pair[0] != here), (here, there))


class HostError(TrainmarkError):
    """A host could not do what it was asked for."""


class HostOSError(OSError):
    """The same where its own system refused."""


class HostGoneError(HostError):
    """A host cannot be reached, or not any more; what runs there ends by itself."""


def display_name(host: "Host") -> str:
    """Return what a host is called in a sentence."""
    return "this machine" if host.name == LOCALHOST else host.name


class Host(Protocol):
    """One machine on which ranks, prepare steps, git and probes run; a job there goes by its process id."""

    @property
    def name(self) -> str:
        """What it is called in plans and outcomes."""

    @property
    def address(self) -> str:
        """Where the other hosts reach it."""

    @property
    def labels(self) -> Mapping[str, str]:
        """What the hosts file says of it."""

    @property
    def folder(self) -> Path | None:
        """Where the folders of runs lie on it; None where they lie as ``paths`` say."""

    @property
    def paths(self) -> Paths:
        """What has another path there than here."""

    @property
    def interface(self) -> str | None:
        """The network interface of the ranks' own traffic; None where they find it themselves."""

    @property
    def traffic(self) -> Traffic:
        """How its ranks reach those of other hosts."""

    def unreachable(self) -> str | None:
        """Return why it cannot be reached now, None where it can; a lost connection is made anew.

        All that follows raises ``HostGoneError`` when it is lost meanwhile.
        """

    def machine(self) -> NodeResources:
        """Return what placement must know of it."""

    def facts(
        self, framework: FrameworkVersions | None, environment_lock: str | None, git_dir: Path | None
    ) -> Node:
        """Return what a manifest holds about it, now."""

    def reserve(self, by: str) -> str | None:
        """Hold it against others that measure, in the name of ``by``; return who holds it already, or None."""

    def clock(self) -> ClockOffset | None:
        """Return how its clock stands to ours; None where it is ours."""

    def has_free_ports(self, first: int, count: int) -> bool:
        """Tell whether nobody listens on ``count`` ports from ``first`` on."""

    def which(self, command: str) -> str | None:
        """Return where a command is that can be started there by its name."""

    def has(self, path: Path) -> bool:
        """Tell whether a file or folder is there."""

    def read(self, path: Path) -> bytes | None:
        """Return what a file there holds; None for one that is not there."""

    def digests(self, path: Path) -> Mapping[str, str]:
        """Return the digest of each file below a folder there, or of a file, by its path in it."""

    def put(self, path: Path, content: bytes) -> None:
        """Write a file there, in one piece, its folder with it; raises ``OSError`` when that cannot be done."""

    def get(self, folder: Path, into: Path, without: Collection[str] = ()) -> None:
        """Copy all that a folder there holds into one here, but what has these names in it."""

    def put_folder(self, path: Path, content: IO[bytes]) -> None:
        """Make a folder there of an archive, in one piece, unless it is there; raises ``OSError``."""

    def map_path(self, here: Path, there: Path) -> None:
        """Remember that what has the path ``here`` lies at ``there`` on it."""

    def remove(self, path: Path, without: Collection[str] = ()) -> None:
        """Remove a file or a folder there, if it is there; with names, what a folder holds besides these.

        Raises ``OSError`` when that cannot be done.
        """

    def remove_empty(self, folders: Sequence[Path]) -> None:
        """Remove folders there, one after the other, as far as they are empty; nothing where it is not connected."""

    def locked(self, path: Path) -> AbstractContextManager[None]:
        """Hold the lock that is a file there, against every other trainmark; raises ``OSError``."""

    def scratch(self) -> AbstractContextManager[Path]:
        """Give an empty folder there, which is removed at the end."""

    def start(self, job: Job) -> int:
        """Start a job and return its number; raises ``OSError`` or ``ValueError`` when it cannot be started."""

    def wait(self, pid: int, timeout_s: float) -> int | None:
        """Wait for a job, not longer than that; return its exit code, or None while it goes on."""

    def job_status(self, pid: int) -> JobStatus:
        """Return how a job is doing."""

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to the processes of a job's session."""

    def stopped(self, mark: str, pid: int) -> tuple[int, ...]:
        """Return the ranks of a job that somebody has stopped and not continued."""

    def stop_ranks(self, mark: str, pid: int) -> None:
        """Stop the ranks of a job where they are, for ``stacks``."""

    def stacks(self, mark: str, pid: int) -> Mapping[int, Stack]:
        """End the ranks of a job that can be asked, and return where each was; () of a silent one."""

    def kill(self, mark: str, pid: int | None = None) -> int:
        """End every process that carries the mark, and the whole tree of a job; return how many there were."""

    def reap(self, pid: int) -> JobEnd:
        """Return how a job ended; after this it is forgotten."""
