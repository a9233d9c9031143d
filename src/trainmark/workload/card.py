"""Cards: how a training program is obtained, started and read; built-in and foreign programs alike."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from trainmark.suite import AXES, Word


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable as POSIX has it."""


class BuiltinSource(_Frozen):
    """trainmark's own worker, started as ``PYTHON worker/start.py``."""

    kind: Literal["builtin"]


class FolderSource(_Frozen):
    """A program in a folder of this machine; a relative path counts from the card's own file."""

    kind: Literal["folder"]
    path: str


Source = Annotated[BuiltinSource | FolderSource, Field(discriminator="kind")]


class Launcher(StrEnum):
    """Who starts the ranks of one node.

    ``process``: nobody, there is one process. ``torchrun``. ``ranks``: each rank is a process of its own that
    finds its place in the variables that torchrun would set, as the built-in workers do.
    """

    PROCESS = "process"
    TORCHRUN = "torchrun"
    RANKS = "ranks"


class DataFormat(StrEnum):
    """In which form a program takes its images; see ``trainmark data convert``."""

    IMAGE_FOLDER = "image-folder"
    TFRECORD = "tfrecord"
    RECORDIO = "recordio"


class Axis(_Frozen):
    """How one axis of a case reaches the program.

    ``flags`` are words of the command; ``{value}`` in them is the axis's value. ``values`` gives the flags
    of single values instead, and then lists every value that the program can do. ``counts`` says for a
    batch whether the program wants it per device or for all devices together.
    """

    flags: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] | None = None
    counts: Literal["per-device", "global"] = "per-device"


class Gap(_Frozen):
    """What a program cannot do although it has the axes: all of ``when`` holds, for the ``reason``.

    ``device`` in ``when`` is what a rank really computes on, ``cpu`` or ``cuda``, never ``auto``.
    """

    when: Mapping[str, str] = Field(min_length=1)
    reason: str


class Card(_Frozen):
    """One training program.

    ``command`` is the program and its constant words, after the interpreter; ``axes`` says which axes it
    has and how each is passed. An axis that is not listed can only have the one value that ``fixed`` gives
    it, or the default of a case. ``options`` are the further names that a case may set. Placeholders in
    words: ``{value}`` (of the axis), ``{source}`` (the program's folder), ``{events}`` (the file for
    DLLogger events), ``{data}`` (its folder or list, or ``synthetic``), ``{steps}``, ``{warmup_steps}``,
    ``{threads}``, ``{loader_workers}``, ``{seed}``. ``log_format`` names the reader of its output in
    ``logs/``. ``gaps`` are combinations of values that the program lacks. ``data_formats`` says for a loader in
    which form it takes real images; one that is not named takes an image folder.
    """

    name: Word
    description: str
    framework: Word
    environment: Word
    source: Source
    launcher: Launcher
    log_format: str
    rule: str | None = None
    unit: str = "images/s"
    command: tuple[str, ...]
    axes: Mapping[str, Axis]
    fixed: Mapping[str, Any] = Field(default_factory=dict)
    options: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    data_formats: Mapping[Word, DataFormat] = Field(default_factory=dict)
    environment_variables: Mapping[VariableName, str] = Field(default_factory=dict)

    def unknown_axes(self) -> list[str]:
        """Return the names under ``axes`` and ``fixed`` that are no axes of a case."""
        return [name for name in (*self.axes, *self.fixed) if name not in AXES]

    def data_format(self, loader: str) -> DataFormat:
        """Return the form in which a loader of this program takes real images."""
        return self.data_formats.get(loader, DataFormat.IMAGE_FOLDER)
