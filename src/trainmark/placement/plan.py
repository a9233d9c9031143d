"""A plan: the commands of one run, one a node, readable before anything is started."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.suite import Case


@dataclass(frozen=True, slots=True)
class Machine:
    """What placement must know of a node: the cores that may be used, and its GPUs."""

    cores: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python of the framework's environment.

    ``variables`` are added to the process's environment; an isolated interpreter does not see the caller's
    ``PYTHONPATH`` or user site, because its packages are all its own.
    """

    python: Path
    isolated: bool
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Command:
    """One process to start on one node: its words, the variables to add and those to take away.

    A node has one of them, or one a rank where nothing else starts its ranks.
    """

    node: int
    words: tuple[str, ...]
    variables: Mapping[str, str]
    without: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the command as one line for a POSIX shell."""
        unset = [word for name in self.without for word in ("-u", name)]
        pairs = [f"{name}={value}" for name, value in self.variables.items()]
        prefix = ["env", *unset, *pairs] if unset else pairs
        return " ".join([*(_assignment(word) for word in prefix), shlex.join(self.words)])


@dataclass(frozen=True, slots=True)
class Plan:
    """One run as it would be started.

    ``events`` is the file that the program is told to write its events to. ``cannot_run`` says why this
    machine cannot carry the plan out (too few devices, more nodes than one), or is None.
    """

    case: Case
    repeat: int
    commands: tuple[Command, ...]
    events: Path
    log_format: str
    unit: str
    cannot_run: str | None


def _assignment(word: str) -> str:
    name, sign, value = word.partition("=")
    return f"{name}={shlex.quote(value)}" if sign else word
