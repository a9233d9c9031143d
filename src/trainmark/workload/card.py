"""Cards, which describe how to obtain, start and read a training program, built-in or foreign.

The words of a card have placeholders for a run's values (``{batch}``) and expressions over them (``{=batch * 2}``).
"""

import re
import sys
from ast import expr
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from trainmark.errors import InputError
from trainmark.expressions import evaluate, names_in, parse_expression
from trainmark.schema.case import Case, Option, Word, axes_of
from trainmark.schema.frozen import Frozen
from trainmark.schema.suite import Launcher
from trainmark.tasks import BUILT_IN_SOURCE, TASKS, task_of_source
from trainmark.workload.generate import IMAGE_LIST
from trainmark.workload.image import Image
from trainmark.workload.source import Source

PLACEHOLDERS: Mapping[str, str] = {
    "value": "the axis's or the option's value",
    "source": "the program's folder",
    "framework": "the framework's name",
    "task": "the task's name",
    "run": "the run's folder, in which the program is started",
    "prepared": "the folder for the results of the prepare steps",
    "compile_cache": "the folder for compiled programs, which the runs of one environment share",
    "python": "the interpreter of the environment (in prepare steps)",
    "events": "the file for DLLogger events",
    "data": "the data set's training samples, or 'synthetic'",
    "dataset": "the folder of the whole data set, or 'synthetic'",
    "steps": "steps of the run, warm-up included",
    "warmup_steps": "steps that are not measured",
    "samples": "samples of all steps and all devices",
    "threads": "the cores of one rank",
    "loader_workers": "loader processes of one rank",
    "node_loader_workers": "loader processes of all ranks of a node",
    "seed": "the number of the run",
    "batch": "the batch of one device",
    "node_batch": "the batch of all devices of a node",
    "global_batch": "the batch of all devices of the run",
    "micro_batch": "the batch of one device divided by its accumulation steps (the axis accumulation; default: 1)",
    "learning_rate": "the learning rate for the global batch, by the card's scaling",
    "world_size": "the number of ranks",
    "nodes": "the number of nodes",
    "node": "the number of this node, from 0",
    "devices_per_node": "the number of a node's devices",
    "devices": "a node's devices as 0,1,2,3",
    "hosts": "the nodes' addresses, separated by commas",
    "master": "the address of the rendezvous",
    "port": "the port of the rendezvous",
}
"""Every valid placeholder, and the meaning of its text."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"\{(?:(?:axis|option)\.)?([A-Za-z_]\w*)\}")
_COMPUTED = re.compile(r"\{=([^{}]*)\}")
NUMBERS = (
    *("batch", "node_batch", "global_batch", "micro_batch", "world_size", "nodes", "devices_per_node"),
    *("steps", "warmup_steps", "threads", "loader_workers", "seed"),
)
"""The placeholders that are numbers, besides axes and options."""


@lru_cache(maxsize=4096)
def placeholders_in(word: str) -> tuple[str, ...]:
    """Return the placeholders of a word."""
    return tuple(_PLACEHOLDER.findall(word)) if "{" in word else ()


def filled(word: str, known: Mapping[str, str], value: str | None = None) -> str:
    """Return the word with its placeholders replaced, in one pass: braces in a text stay as they are.

    ``value`` is the text of the placeholder of that name, if the word has an axis's or an option's value.
    """
    if "{" not in word:
        return word
    return filled_template(_parts(word), known if value is None else {**known, "value": value})


Template = str | tuple[tuple[str, str | None], ...]
"""A word of which some placeholders are filled in already: its parts, each with the name of the placeholder that it
still is, or None; a text if none is left."""


def template(word: str, known: Mapping[str, str], value_is: str = "value") -> Template:
    """Return the word with the placeholders in ``known`` filled in; ``{value}`` is then named ``value_is``."""
    parts: list[tuple[str, str | None]] = []
    for text, name in _parts(word):
        if name is not None and name in known:
            parts.append((known[name], None))
        else:
            parts.append((text, value_is if name == "value" else name))
    return tuple(parts) if any(name for _, name in parts) else "".join(text for text, _ in parts)


def filled_template(template: Template, known: Mapping[str, str]) -> str:
    """Return the text of a template; a placeholder without a text in ``known`` stays as it is."""
    if isinstance(template, str):
        return template
    return "".join([text if name is None else known.get(name, text) for text, name in template])


@lru_cache(maxsize=4096)
def _parts(word: str) -> tuple[tuple[str, str | None], ...]:
    """Return the texts of which a word consists, each with the name of the placeholder that it is, or None."""
    pieces = _PLACEHOLDER.split(word)
    return tuple(
        (f"{{{piece}}}", piece) if at % 2 else (piece, None)
        for at, piece in enumerate(pieces)
        if at % 2 or piece
    )


class NoNumberError(ValueError):
    """An error for an expression whose value is not known; ``names`` are the names without a number."""

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        unknown = ", ".join(names)
        super().__init__(f"'{text}' has no value: {unknown} has no number in this case" if names else text)
        self.names = names


def parse_work(text: str, where: str) -> expr:
    """Return an expression with names in braces (``{axis.NAME}``, ``{option.NAME}``, ``{NAME}``) or without, parsed.

    Raises ``InputError`` if it has more than names, numbers and ``+ - * / // ()``.
    """
    return parse_expression(_NAME.sub(r"\1", text), where)


def expressions_in(word: str) -> list[str]:
    """Return the expressions in a word of a command: ``{=batch * 2}`` has one."""
    return _COMPUTED.findall(word) if "{=" in word else []


def expression_names(text: str, where: str) -> frozenset[str]:
    """Return the names in an expression; raise ``InputError`` as ``parse_work``."""
    return names_in(parse_work(text, where))


def computed(text: str, numbers: Mapping[str, float]) -> float:
    """Return the value of an expression; raise ``NoNumberError`` if it has none."""
    tree = parse_work(text, "expression")
    if missing := sorted(name for name in names_in(tree) if name not in numbers):
        raise NoNumberError(text, tuple(missing))
    value = evaluate(tree, numbers.get)
    if value is None:
        raise NoNumberError(f"'{text}' divides by 0", ())
    return value


def with_numbers(word: str, numbers: Mapping[str, float]) -> str:
    """Return a word with its expressions replaced by their values; raise ``NoNumberError`` if one has none."""
    return _COMPUTED.sub(lambda match: f"{computed(match[1], numbers):.15g}", word)


def numbers_of(case: Case, texts: Mapping[str, str], options: Mapping[str, object]) -> dict[str, float]:
    """Return the numbers by name: a case's axes, then the placeholders' ``texts``, then its ``options``."""
    axes = {axis: case.value(axis) for axis in case.axes}
    found = {name: float(value) for name, value in axes.items() if _is_number(value)}
    found |= {name: float(texts[name]) for name in NUMBERS if name in texts}
    return found | {name: float(str(value)) for name, value in options.items() if _is_number(value)}


def whole(text: str, value: float) -> int:
    """Return the value of an expression as a positive integer; raise ``InputError`` for any other."""
    if value < 1 or value != int(value):
        raise InputError(f"'{text}' is {value:g}; expected a whole number from 1")
    return int(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


OWN_FORMAT = "trainmark"
"""The log format of trainmark's own events, which contain the measured window."""

AUTO_FORMAT = "auto"
"""The log format of a program whose log is read by whichever format it has."""

VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable as defined by POSIX."""


def _no_path(environment: Any) -> Any:
    if isinstance(environment, str) and "/" in environment:
        raise ValueError(
            f"'{environment}' is a path, which only a suite's key 'environment' and --environment take; name an "
            "environment here, or system, docker or apptainer"
        )
    return environment


def _relative_to_the_run(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or PurePosixPath(path).is_absolute() or ".." in parts:
        raise ValueError(
            f"'{path}' is not a path within the run's folder; write it relative to that folder, without '..'"
        )
    return path


def _requirement(text: str) -> str:
    if not _REQUIREMENT.fullmatch(text):
        raise ValueError(f"'{text}' is not a package requirement, such as einops or einops>=0.7")
    return text


_PACKAGE = r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?"
_REQUIREMENT = re.compile(
    rf"!{_PACKAGE}|{_PACKAGE}(?:\[[\w., -]+\])?"
    r"(?: *(?:==|>=|<=|!=|~=|<|>) *[\w.*+!-]+(?: *, *(?:==|>=|<=|!=|~=|<|>) *[\w.*+!-]+)*)?"
)
Requirement = Annotated[str, AfterValidator(_requirement)]
"""A package to install from an index, with limits of its version; or ``!NAME``, one that is not installed."""

PathInRun = Annotated[str, AfterValidator(_relative_to_the_run)]
"""The path of a file or folder that a run makes, relative to the run's folder and within it."""


class Counts(StrEnum):
    """The devices that a program's batch is counted for."""

    PER_DEVICE = "per-device"
    PER_NODE = "per-node"
    GLOBAL = "global"


class Axis(Frozen):
    """The words of the command that pass one axis of a case to the program.

    ``flags`` are words of the command, in which ``{value}`` is the axis's value; ``only`` lists the supported values if
    not all are. Alternatively, ``values`` has the flags of each supported value. ``counts``: the program takes the
    batch per device, per node or for all devices.
    """

    flags: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    values: Mapping[str, tuple[str, ...]] | None = None
    counts: Counts = Counts.PER_DEVICE

    @property
    def choices(self) -> tuple[str, ...] | None:
        """The values that the program supports; None if it takes any."""
        return self.only if self.values is None else tuple(self.values)


When = Annotated[Mapping[str, str], Field(min_length=1)]
"""Conditions on axes, all of which must be met: ``{loader: dali-cpu, data: "!synthetic"}``; ``!value`` is any other.

``device`` is the device that a rank uses, ``cpu`` or ``cuda``, never ``auto``.
"""


class Gap(Frozen):
    """A combination of values (``when``) that a program cannot do, and the ``reason``."""

    when: When
    reason: str


class Combination(Frozen):
    """Words and variables for cases that meet all of ``when``, for example a combination of two axes."""

    when: When
    words: tuple[str, ...] = ()
    environment_variables: Mapping[VariableName, str] = Field(default_factory=dict)


class Scaling(Frozen):
    """The linear scaling rule: the learning rate is ``learning_rate`` for a global batch of ``batch`` samples.

    Goyal et al., "Accurate, Large Minibatch SGD", 2017, arXiv:1706.02677, section 2.1.
    """

    learning_rate: Annotated[float, Field(gt=0)]
    batch: Annotated[int, Field(strict=True, gt=0)]


class Where(StrEnum):
    """The place of a prepare step: on the host, or in the program's environment."""

    HOST = "host"
    ENVIRONMENT = "environment"


class Step(Frozen):
    """A command that must have succeeded once before the program can run.

    It runs once for each combination of words, commit and environment. ``leaves`` are files or folders that it must
    create. Only cases that meet ``when`` need it (default: all).
    """

    description: str
    words: Annotated[tuple[str, ...], Field(min_length=1)]
    where: Where = Where.ENVIRONMENT
    when: Mapping[str, str] = Field(default_factory=dict)
    leaves: tuple[str, ...] = ()


class WorkingDirectory(StrEnum):
    """The folder in which a program is started, besides a path: its source's, or the run's own."""

    SOURCE = "source"
    RUN = "run"


class OptionType(StrEnum):
    """The type of an option's values."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TEXT = "text"

    def accepts(self, value: Option) -> bool:
        """Return whether ``value`` has this type; an integer is a float too."""
        match self:
            case OptionType.BOOL:
                return isinstance(value, bool)
            case OptionType.INT:
                return isinstance(value, int) and not isinstance(value, bool)
            case OptionType.FLOAT:
                return isinstance(value, int | float) and not isinstance(value, bool)
            case OptionType.TEXT:
                return isinstance(value, str)


class TypedOption(Frozen):
    """An option with a type; a case that does not set it has its ``default``, whose ``flags`` are passed too."""

    type: OptionType
    flags: tuple[str, ...] = ()
    default: Option | None = None

    @model_validator(mode="after")
    def _default_has_its_type(self) -> Self:
        if self.default is not None and not self.type.accepts(self.default):
            raise ValueError(f"the default {self.default!r} is no {self.type}")
        return self


def _form_of_option(declared: Any) -> str:
    if isinstance(declared, TypedOption) or (isinstance(declared, Mapping) and "type" in declared):
        return "typed"
    return "by_value" if isinstance(declared, Mapping) else "flags"


OPTION_FORMS = ("flags", "by_value", "typed")
"""The tags of the forms of an option, which pydantic puts into the places of mistakes."""

DeclaredOption = Annotated[
    Annotated[tuple[str, ...], Tag("flags")]
    | Annotated[Mapping[str, tuple[str, ...]], Tag("by_value")]
    | Annotated[TypedOption, Tag("typed")],
    Discriminator(_form_of_option),
]
"""An option: its flags for any value, the flags of each value, or a type with flags and a default."""


class StopAfter(Frozen):
    """When a run is ended on purpose: after ``seconds``, or once its log shows ``steps`` or whole ``epochs``.

    SIGINT comes first.
    """

    steps: Annotated[int, Field(strict=True, gt=0)] | None = None
    epochs: Annotated[int, Field(strict=True, gt=0)] | None = None
    seconds: Annotated[float, Field(gt=0)] | None = None


class ResultFile(Frozen):
    """The number of a program that computes it itself: ``path`` (``train.rate``, ``runs.-1.rate``) in a JSON ``file``.

    The file is relative to the run's folder.
    """

    file: PathInRun
    path: Annotated[str, StringConstraints(min_length=1)]


class DataFile(Frozen):
    """A file or folder of data that the program reads where it is; ``path`` is relative to the card's file.

    A run is refused if it is missing, or if its ``sha256`` or its ``size`` (bytes) is another one.
    """

    path: Annotated[str, StringConstraints(min_length=1)]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    size: Annotated[int, Field(strict=True, ge=0)] | None = None


class Generator(StrEnum):
    """The generators of stand-ins for data."""

    TOKENS = "tokens"
    """A file of ``count`` random token numbers below ``vocabulary``, of 16 bits each."""
    TEXT = "text"
    """A file of ``count`` random words."""
    IMAGES = "images"
    """A folder with ``count`` random PNG files of ``size`` pixels in 10 folders, listed in ``list.txt``."""


class StandIn(Frozen):
    """Data that takes the place of a download, made by a ``generator`` or a ``command``; results and report say so.

    ``path`` is where the program reads it, relative to the folder in which it starts. The ``command`` makes
    ``{prepared}/NAME``, with the last part of the path as NAME; its ``description`` says what it makes.
    """

    path: PathInRun
    generator: Generator | None = None
    command: tuple[str, ...] = ()
    description: str = ""
    count: Annotated[int, Field(strict=True, gt=0)] = 1_000_000
    vocabulary: Annotated[int, Field(strict=True, gt=1, le=65536)] = 50257
    size: Annotated[int, Field(strict=True, gt=0)] = 224

    @model_validator(mode="after")
    def _is_made_once(self) -> Self:
        if (self.generator is None) is (not self.command):
            raise ValueError("give either a 'generator' or a 'command' that makes it")
        if self.command and not self.description:
            raise ValueError(
                "the key 'description' is missing: what the command makes, such as 'random tokens'"
            )
        return self

    @property
    def name(self) -> str:
        """The name of the file or folder that is made."""
        return PurePosixPath(self.path).name

    @property
    def label(self) -> str:
        """A description of the data, for results and reports."""
        return self.description or f"random {self.generator}"

    @property
    def step(self) -> Step:
        """The prepare step that makes it."""
        words = self.command
        listed = (f"{self.name}/{IMAGE_LIST}",) if self.generator is Generator.IMAGES else ()
        if self.generator is not None:
            most = self.size if self.generator is Generator.IMAGES else self.vocabulary
            made = f"{{prepared}}/{self.name}"
            words = (sys.executable, str(_GENERATE), self.generator.value, made, str(self.count), str(most))
        description = f"stand-in for {self.path}: {self.label}"
        return Step(description=description, words=words, where=Where.HOST, leaves=(self.name, *listed))


_GENERATE = Path(__file__).with_name("generate.py")


def _default_task(read: Mapping[str, Any]) -> str:
    """Return the task of a card that states none; ``read`` has its fields before ``task``."""
    return task_of_source(read["source"].kind if "source" in read else BUILT_IN_SOURCE)


class Card(Frozen):
    """One training program for one ``task``.

    Without a task, a program of another project is of the neutral task, whose axes are unknown unless stated.

    ``command`` is the program and its constant words, after the interpreter; ``axes`` has the supported axes and their
    words. An axis that is not listed has only one value: its value in ``fixed``, or the default of a case.
    ``combinations`` are words that depend on several axes. ``options`` are further names that a case may set, with
    words for any value or for each value, or a type and a default. ``log_format`` names the format of its output, or
    describes it (``trainmark.logs.description``); ``rule`` names the rule that computes the throughput. ``gaps`` are
    combinations of values that the program does not support. ``data_formats`` maps a loader to the form of its real
    data (default: the task's first form). ``unit`` is the log's unit, if it is not the task's.
    ``log_format: auto`` reads the log by whichever known format it has, or else by a guess, which is a doubt.
    ``work_per_step`` is the number of units of one step of all devices, for a log that does not print it: a number, or
    an expression over placeholders, axes and options (``{block_size} * {global_batch}``); ``parameters``
    is the number of the model's parameters, and ``layers``, ``hidden_size`` and ``sequence_length`` its shape, from
    which the MFU follows; ``skip`` is the number of records that the rule leaves out as
    warm-up (default: the format's). ``stop_after`` ends a program that has no step limit. ``working_directory`` is the
    folder in which the program is started: ``run`` (its run's own), ``source`` (the program's), or a path relative to
    the card's file.

    ``result`` is a value in a JSON file that the program writes, used as the number instead of its log.
    ``unlogged_steps`` is the number of steps for which the log has no record.

    Programs that can run in a container have an ``image``; ``environment`` (also ``docker`` or ``apptainer``) is the
    meaning of ``auto`` in a suite. ``starter`` is the script that starts the ranks, for launchers that need one.
    ``prepare`` are steps before the first run; ``expects`` are files that a run must leave, relative to its folder.
    ``packages`` are installed in addition to those of the environment (``trainmark.environment.packages``).
    ``data_files`` are files that the program reads, with their digests; ``stand_ins`` are made in the place of
    downloads.

    The placeholders in words are listed in ``PLACEHOLDERS``.
    """

    name: Word
    description: str
    framework: Word
    environment: Annotated[Word, BeforeValidator(_no_path)]
    packages: tuple[Requirement, ...] = ()
    source: Source
    task: Word = Field(default_factory=_default_task)
    launcher: Launcher
    log_format: str | Mapping[str, Any]
    rule: str | None = None
    result: ResultFile | None = None
    unit: str | None = None
    parameters: Annotated[int, Field(strict=True, gt=0)] | None = None
    layers: Annotated[int, Field(strict=True, gt=0)] | None = None
    hidden_size: Annotated[int, Field(strict=True, gt=0)] | None = None
    sequence_length: Annotated[int, Field(strict=True, gt=0)] | None = None
    skip: Annotated[int, Field(strict=True, ge=0)] | None = None
    stop_after: StopAfter | None = None
    work_per_step: Annotated[int, Field(strict=True, gt=0)] | str | None = None
    unlogged_steps: Annotated[int, Field(strict=True, ge=0)] = 0
    image: Image | None = None
    starter: str | None = None
    working_directory: str = WorkingDirectory.RUN
    prepare: tuple[Step, ...] = ()
    expects: tuple[PathInRun, ...] = ()
    data_files: tuple[DataFile, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()
    command: tuple[str, ...]
    axes: Mapping[str, Axis]
    fixed: Mapping[str, Any] = Field(default_factory=dict)
    combinations: tuple[Combination, ...] = ()
    options: Mapping[str, DeclaredOption] = Field(default_factory=dict)
    scaling: Scaling | None = None
    gaps: tuple[Gap, ...] = ()
    data_formats: Mapping[Word, Word] = Field(default_factory=dict)
    environment_variables: Mapping[VariableName, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _needs_no_log(cls, values: Any) -> Any:
        """Read a card with ``result`` without ``log_format``."""
        if isinstance(values, Mapping) and values.get("result") is not None:
            return {"log_format": AUTO_FORMAT} | dict(values)
        return values

    @model_validator(mode="after")
    def _result_is_the_number(self) -> Self:
        if self.result is None:
            return self
        if self.unit is None:
            raise ValueError("the key 'unit' is missing: 'result' is a number without a unit")
        if self.log_format == OWN_FORMAT or self.rule is not None or self.skip is not None:
            raise ValueError(
                "'result' is the number: remove 'rule', 'skip' and 'log_format: trainmark', which have no effect"
            )
        return self

    @property
    def format_name(self) -> str:
        """The name of the format of the program's log: a described one has the name of the card."""
        return self.log_format if isinstance(self.log_format, str) else self.name

    @property
    def takes_steps(self) -> bool:
        """True if the command passes the number of steps to the program."""
        return any("{steps}" in word for word in self.command)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The prepare steps, with those that make stand-ins."""
        return (*self.prepare, *(stand_in.step for stand_in in self.stand_ins))

    def unknown_axes(self) -> list[str]:
        """Return the names under ``axes`` and ``fixed`` that are not axes of a case."""
        return [name for name in (*self.axes, *self.fixed) if name not in axes_of()]

    def data_format(self, loader: str) -> str:
        """Return the form in which a loader of this program takes real data."""
        return self.data_formats.get(loader) or TASKS[self.task].forms[0]

    @cached_property
    def named_options(self) -> frozenset[str]:
        """The options whose values are used in words of the command as ``{name}``."""
        words = (*self.command, *self.environment_variables.values())
        names = {name for word in words for name in placeholders_in(word) if name in self.options}
        # Only in a whole command line an option may have the name of a placeholder.
        return frozenset(names if self.launcher is Launcher.COMMAND else names - PLACEHOLDERS.keys())

    @cached_property
    def is_computed(self) -> bool:
        """True if a word of the command has an expression."""
        return any("{=" in word for word in self.command)

    def option_values(self, case: Case) -> dict[str, Option]:
        """Return the options of a case, with the card's defaults for those that it does not set."""
        return self._default_options | dict(case.options)

    @cached_property
    def _default_options(self) -> dict[str, Option]:
        return {
            name: declared.default
            for name, declared in self.options.items()
            if isinstance(declared, TypedOption) and declared.default is not None
        }

    @cached_property
    def axes_of_gaps(self) -> tuple[str, ...]:
        """The axes that the gaps name."""
        return tuple(dict.fromkeys(axis for gap in self.gaps for axis in gap.when))

    @cached_property
    def gap_by_texts(self) -> dict[tuple[str | None, ...], str | None]:
        """A cache of the reason of the gap that fits, by device and texts on ``axes_of_gaps``; None if none does."""
        return {}

    @property
    def counted_in(self) -> str:
        """The unit of the program's throughput."""
        return self.unit or TASKS[self.task].unit

    def conditions(self) -> dict[tuple[str, int], Mapping[str, str]]:
        """Return every ``when`` of the card, by its section and position."""
        return {
            **{("gaps", number): gap.when for number, gap in enumerate(self.gaps)},
            **{("combinations", number): entry.when for number, entry in enumerate(self.combinations)},
            **{("prepare", number): step.when for number, step in enumerate(self.prepare)},
        }

    def worded(self) -> dict[tuple[str | int, ...], tuple[str, ...]]:
        """Return every list of words of the card that may contain placeholders, by its key."""
        words: dict[tuple[str | int, ...], tuple[str, ...]] = {
            ("command",): self.command,
            ("starter",): (self.starter,) if self.starter else (),
        }
        for axis, rule in self.axes.items():
            words["axes", axis, "flags"] = rule.flags
            words |= {("axes", axis, "values", value): flags for value, flags in (rule.values or {}).items()}
        for option, declared in self.options.items():
            flags = declared.flags if isinstance(declared, TypedOption) else declared
            by_value = flags if isinstance(flags, Mapping) else {"": flags}
            words |= {("options", option, value): flags for value, flags in by_value.items()}
        words["environment_variables",] = tuple(self.environment_variables.values())
        for i, entry in enumerate(self.combinations):
            words["combinations", i, "words"] = (*entry.words, *entry.environment_variables.values())
        for i, step in enumerate(self.prepare):
            words |= {("prepare", i, "words"): step.words, ("prepare", i, "leaves"): step.leaves}
        words |= {("stand_ins", i, "command"): one.command for i, one in enumerate(self.stand_ins)}
        return words
