"""A plan: the commands of one run by node and rank, readable before anything is started."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.schema.case import Case
from trainmark.schema.names import EVENTS

_NEEDS_QUOTES = re.compile(r"[^\w@%+=:,./-]", re.ASCII)
"""A character that ``shlex.quote`` quotes; most commands have none, which is found at once for the whole command."""


@dataclass(frozen=True, slots=True)
class NodeResources:
    """The facts about a node that placement needs: usable cores, GPUs, and whether it has OpenMPI.

    ``visible`` are the GPUs as named in ``CUDA_VISIBLE_DEVICES``, if that is set. ``no_openmpi`` explains why
    OpenMPI's mpirun cannot be used and what to do, or is None. ``slots`` is the maximum number of devices of a run
    there, or None if there is no limit. ``unreachable`` is a sentence on why the node's resources are unknown.
    """

    cores: int
    gpus: int
    visible: tuple[str, ...] = ()
    no_openmpi: str | None = None
    slots: int | None = None
    unreachable: str | None = None

    def devices(self, count: int) -> tuple[str, ...]:
        """Return the names of the first ``count`` GPUs, even if there are fewer."""
        return self.visible[:count] if self.visible else tuple(str(number) for number in range(count))


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """One node of a plan: its host, the address at which the other nodes reach it, and the run's folder there."""

    host: str
    address: str
    directory: Path


@dataclass(frozen=True, slots=True)
class Command:
    """One process to start on one node: its words, the variables to add and those to remove.

    A node has one command, or one per rank if no launcher starts its ranks; then ``rank`` is that rank. It
    starts in ``directory``, by default the run's folder on the node.
    """

    node: int
    words: tuple[str, ...]
    variables: Mapping[str, str]
    without: tuple[str, ...] = ()
    rank: int | None = None
    directory: Path | None = None

    def text(self) -> str:
        """Return the command as one line for a POSIX shell."""
        unset = [word for name in self.without for word in ("-u", name)]
        pairs = [f"{name}={value}" for name, value in self.variables.items()]
        prefix = ["env", *unset, *pairs] if unset else pairs
        if _NEEDS_QUOTES.search("".join([*prefix, *self.words])) or not all(
            (*self.words, *self.variables.values())
        ):
            line = " ".join([*(_assignment(word) for word in prefix), shlex.join(self.words)])
        else:
            line = " ".join([*prefix, *self.words])
        return line if self.directory is None else f"cd {shlex.quote(str(self.directory))} && {line}"


@dataclass(frozen=True, slots=True)
class Checkout:
    """A working tree of one commit: the repository, the cache that has the commit, and the tree's path.

    With ``paths``, only these files and folders are in the tree, and no other file is fetched.
    """

    url: str
    commit: str
    cache: Path
    tree: Path
    paths: tuple[str, ...] = ()

    def cached(self) -> tuple[tuple[str, ...], ...]:
        """Return the commands that fetch only this commit into the cache."""
        part = ("--filter=blob:none",) if self.paths else ()
        fetch = ("fetch", "--quiet", "--depth", "1", "--no-tags", *part, self.url, self.commit)
        return (
            ("git", "init", "--quiet", "--bare", str(self.cache)),
            ("git", "--git-dir", str(self.cache), *fetch),
        )

    def made(self) -> tuple[tuple[str, ...], ...]:
        """Return the commands that make the working tree."""
        part = ("--no-checkout",) if self.paths else ()
        add = ("worktree", "add", "--quiet", "--detach", *part, str(self.tree), self.commit)
        tree = (("git", "--git-dir", str(self.cache), *add),)
        if not self.paths:
            return tree
        # Git fetches the files of these paths here, if the cache has not got them yet.
        return (*tree, ("git", "-C", str(self.tree), "checkout", "--quiet", "HEAD", "--", *self.paths))


@dataclass(frozen=True, slots=True)
class PrepareStep:
    """A command that must have succeeded once before the run: an image's, or a prepare step's.

    ``leaves`` are the files that it must have created. ``present`` is a command that succeeds if nothing is left to do.
    """

    description: str
    command: Command
    leaves: tuple[Path, ...] = ()
    present: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Preparation:
    """The prerequisites of a run on its ``node``: the program's source, and the results of prepare steps in ``folder``.

    ``source`` is the run's own working tree, ``workshop`` that of the prepare steps; ``subfolder`` is the program's
    folder in it. ``links`` are symbolic links, each with its target, that exist during the run: the places at which a
    program reads stand-ins. ``files`` are written into the folder before the tasks.
    """

    folder: Path
    subfolder: str = "."
    source: Checkout | None = None
    workshop: Checkout | None = None
    tasks: tuple[PrepareStep, ...] = ()
    node: int = 0
    links: tuple[tuple[Path, Path], ...] = ()
    files: Mapping[Path, str] = field(default_factory=dict)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield a description and a command line for each step, in order, for people to read or type."""
        for checkout, whose in ((self.workshop, "to prepare with"), (self.source, "of this run")):
            if checkout is not None:
                for words in checkout.cached():
                    yield f"the source: {checkout.url} at {checkout.commit}", shlex.join(words)
                for words in checkout.made():
                    yield f"the working tree {whose}", shlex.join(words)
            if whose == "to prepare with":
                yield from ((task.description, task.command.text()) for task in self.tasks)
        for link, target in self.links:
            yield f"the stand-in for {link.name}", f"mkdir -p {shlex.quote(str(link.parent))}"
            yield f"the stand-in for {link.name}", shlex.join(("ln", "-s", str(target), str(link)))


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one run: its nodes, commands and preparations.

    ``nodes`` are in order, ``commands`` are the processes started on them. ``directory`` is the run's folder here, in
    which the program's first rank writes its ``events``. ``cannot_run`` is the reason why these hosts cannot run the
    plan (too few devices, fewer hosts than nodes), or None. ``preparations`` are the prerequisites of the run, by node.
    ``expects`` are files that the run must leave. ``by_hand`` are sentences on steps that no command of the plan does.
    """

    case: Case
    repeat: int
    nodes: tuple[PlannedNode, ...]
    commands: tuple[Command, ...]
    directory: Path
    log_format: str
    unit: str
    cannot_run: str | None
    preparations: tuple[Preparation, ...] = ()
    expects: tuple[Path, ...] = ()
    by_hand: tuple[str, ...] = ()

    @property
    def events(self) -> Path:
        """The file of the run's events."""
        return self.directory / EVENTS


def _assignment(word: str) -> str:
    name, sign, value = word.partition("=")
    return f"{name}={shlex.quote(value)}" if sign else word
