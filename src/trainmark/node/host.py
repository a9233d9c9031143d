"""What a host can be asked for: to start, watch and end processes, to hand files over, and what it is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainmark.words.manifest import FrameworkVersions, Node
from trainmark.words.plan import Command, Machine


@dataclass(frozen=True, slots=True)
class Job:
    """What is started on one host as one tree of processes; all paths are that host's.

    Several ``commands`` are ranks, which are started and ended together. Every process carries ``mark``, by which it
    is found when it must be ended. What they print goes to ``log``, after ``heading``; their standard error goes to
    ``errors`` where that is given. ``memory`` bounds the private bytes. ``signs`` are further files whose growth shows
    that something goes on. Where ``telemetry`` is given the host writes it while they run.
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


@dataclass(frozen=True, slots=True)
class Look:
    """A job that goes on: the bytes that it has written, the end of its log, and the private memory that it uses."""

    written: int
    tail: bytes
    private_bytes: int


@dataclass(frozen=True, slots=True)
class JobEnd:
    """A job that has ended: its exit code (negative for a signal), and what the kernel killed for memory meanwhile."""

    code: int
    oom_kills: int


class Host(Protocol):
    """One machine on which ranks, prepare steps, git and probes run; a job there goes by its process id."""

    @property
    def name(self) -> str:
        """What it is called in plans and outcomes."""

    @property
    def address(self) -> str:
        """Where the other hosts reach it."""

    @property
    def folder(self) -> Path | None:
        """Where the folders of runs lie on it; None where they have the same paths as here."""

    def machine(self) -> Machine:
        """Return what placement must know of it."""

    def facts(
        self, framework: FrameworkVersions | None, environment_lock: str | None, git_dir: Path | None
    ) -> Node:
        """Return what a manifest holds about it, now."""

    def has_free_ports(self, first: int, count: int) -> bool:
        """Tell whether nobody listens on ``count`` ports from ``first`` on."""

    def has(self, path: Path) -> bool:
        """Tell whether a file or folder is there."""

    def put(self, path: Path, content: bytes) -> None:
        """Write a file there, in one piece."""

    def get(self, folder: Path, into: Path) -> None:
        """Copy all files of a folder there into one here."""

    def start(self, job: Job) -> int:
        """Start a job and return its process id; raises ``OSError`` or ``ValueError`` when it cannot be started."""

    def wait(self, pid: int, timeout_s: float) -> int | None:
        """Wait for a job, not longer than that; return its exit code, or None while it goes on."""

    def look(self, pid: int) -> Look:
        """Return how a job is doing."""

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to the processes of a job's session."""

    def kill(self, mark: str, pid: int | None = None) -> int:
        """End every process that carries the mark, and the whole tree of a job; return how many there were."""

    def reap(self, pid: int) -> JobEnd:
        """Return how a job ended; after this it is forgotten."""
