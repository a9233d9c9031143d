"""Mapping of a program's printed options to the axes of a recipe, and of axes to the options that change them.

Modules of this folder, and of ``programs/options`` of extensions, have ``DIALECTS``: dialects by the program's name.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import islice
from pkgutil import iter_modules

from trainmark.files import extension_folders
from trainmark.logs.events import Parameter
from trainmark.schema.recipe import AxisName, AxisValue, Condition, RecipeAxis
from trainmark.tasks import task_choices

__path__ = [*__path__, *map(str, extension_folders("programs/options"))]

Parameters = Mapping[str, Parameter]
RecipeSetting = tuple[AxisName, AxisValue, Parameter]

NONE = {"none", "null", ""}
"""Values that programs print for an option that is not set."""

_TRUE = {"true": True, "1": True, "false": False, "0": False}
DIALECTS: Mapping[str, object] = {}
"""None of these programs prints its options by name."""
_SEARCHED_LINES = 5_000
StatedSetting = tuple[AxisName, AxisValue, str]
"""An axis, its value, and where the log states it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One program's options.

    ``name`` is the program's name for display. A log belongs to the program if its settings have all names of one of
    ``marks``; ``read`` converts its settings to axes. ``flags`` are the options that change an axis, with ``{value}``
    for the new value; ``values`` translate trainmark's values to the program's.
    """

    name: str
    marks: tuple[tuple[str, ...], ...]
    read: Callable[[Parameters], Iterator[RecipeSetting]]
    flags: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def recognises(self, parameters: Parameters) -> bool:
        """Return whether these settings are this program's."""
        return any(all(mark in parameters for mark in marks) for marks in self.marks)


@cache
def dialects() -> Mapping[str, Dialect]:
    """Return the dialect of each program that prints its options, by the program's name."""
    modules = sorted(module.name for module in iter_modules(__path__, f"{__name__}."))
    found = [import_module(name).DIALECTS for name in modules]
    return {name: dialect for known in found for name, dialect in known.items()}


def words(parameters: Parameters, names: Mapping[str, AxisName]) -> Iterator[RecipeSetting]:
    """Yield the axes printed under ``names``, each as a number, a boolean or a valid value of the axis."""
    for name, axis in names.items():
        parameter = parameters.get(name)
        if parameter is None or parameter.value.lower() in NONE:
            continue
        # Axes of every training (such as the optimizer) may have values that none of our tasks supports.
        choices = frozenset() if axis in set(RecipeAxis) else task_choices(axis)
        if not choices or parameter.value.lower() in choices:
            # A version such as 2.10 stays a string; as a number it would lose its last digit.
            value = parameter.value if isinstance(axis, Condition) else typed(parameter.value)
            yield axis, value, parameter


def typed(word: str) -> AxisValue:
    """Return a printed word as a boolean or a number if it is one, else in lower case."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for number in (int, float):
        try:
            value = number(word)
        except ValueError:
            continue
        return value if math.isfinite(value) else word.lower()
    return word.lower()


def flag(parameters: Parameters, name: str) -> bool | None:
    """Return whether the option ``name`` is printed as on; ``None`` if it is not printed or not a switch."""
    return _TRUE.get(parameters[name].value.lower()) if name in parameters else None


def backend(parameters: Parameters, name: str, data: str) -> Iterator[RecipeSetting]:
    """Yield loader and data of NVIDIA's option that sets both; ``data`` is the kind of its real data."""
    if name not in parameters:
        return
    parameter = parameters[name]
    word = parameter.value.lower()
    if word in ("synthetic", "syntetic"):
        yield RecipeAxis.DATA, "synthetic", parameter
        return
    yield RecipeAxis.LOADER, word if word.startswith("dali") else "native", parameter
    yield RecipeAxis.DATA, data, parameter


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence that states the value of an axis; without a ``value`` it is the sentence's first group."""

    axis: AxisName
    pattern: re.Pattern[str]
    value: AxisValue | None = None


@dataclass(frozen=True, slots=True)
class StatingProgram:
    """A program, named for display, and its statements; of those about one axis the first that is found counts.

    ``mark`` is in each of its logs. ``defaults`` are the values of axes that it does not mention; they count if the log
    has all of ``setup``, the lines at the beginning and the end of the program's start. ``settings`` are the names of
    printed settings that are read as axes.
    """

    name: str
    mark: re.Pattern[str]
    statements: tuple[Statement, ...]
    setup: tuple[re.Pattern[str], ...] = ()
    defaults: Mapping[AxisName, AxisValue] = field(default_factory=dict)
    settings: frozenset[str] = frozenset()


def _line(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


@cache
def _stating_programs() -> tuple[StatingProgram, ...]:
    """Return the programs that state their settings in sentences; their patterns are compiled at the first log."""
    return (
        StatingProgram(
            name="torchtitan",
            mark=_line(r" - root - INFO - step: +\d+ +loss:"),
            statements=(
                Statement(RecipeAxis.COMPILER, _line(r"Compiling .* with torch\.compile"), "torch.compile"),
                Statement(
                    RecipeAxis.ACTIVATION_CHECKPOINTING,
                    _line(r"Applied (\w+) activation checkpointing to the model"),
                ),
                Statement(Condition.PRECISION, _line(r"training active with recipe (mxfp8)")),
                Statement(Condition.PRECISION, _line(r"Float8 (?:\w+ scaled )?training active"), "fp8"),
                Statement(Condition.PRECISION, _line(r"Swapped to Float8Linear layers"), "fp8"),
                Statement(
                    RecipeAxis.SEQUENCE_LENGTH,
                    _line(r"(?:Trainer is initialized|Training starts at step) .*\bsequence length (\d+)"),
                ),
                Statement(
                    RecipeAxis.MICRO_BATCH,
                    _line(r"(?:Trainer is initialized|Training starts at step) .*\blocal batch size (\d+)"),
                ),
                Statement(
                    RecipeAxis.GLOBAL_BATCH,
                    _line(r"(?:Trainer is initialized|Training starts at step) .*\bglobal batch size (\d+)"),
                ),
            ),
            setup=(
                _line(r"Starting job: |device mesh with"),
                _line(r"Trainer is initialized|Training starts at step"),
            ),
            defaults={
                RecipeAxis.COMPILER: "none",
                RecipeAxis.ACTIVATION_CHECKPOINTING: "none",
                Condition.PRECISION: "bf16",
            },
        ),
        StatingProgram(
            name="nanoGPT",
            mark=_line(r"^iter \d+: loss [^\s,]+, time [\d.]+ms"),
            statements=(
                Statement(RecipeAxis.COMPILER, _line(r"^compiling the model\.\.\."), "torch.compile"),
                # The command's words win over the configuration file, which is printed before them.
                *(
                    Statement(RecipeAxis.COMPILER, _line(rf"{start}compile *= *{word}\b"), value)
                    for start in ("^Overriding: ", "^")
                    for word, value in (("True", "torch.compile"), ("False", "none"))
                ),
                Statement(RecipeAxis.ATTENTION, _line(r"^WARNING: using slow attention"), "eager"),
                *(
                    Statement(axis, _line(rf"{start}{name} *= *(\d+)"))
                    for start in ("^Overriding: ", "^")
                    for name, axis in (
                        ("block_size", RecipeAxis.SEQUENCE_LENGTH),
                        ("batch_size", RecipeAxis.MICRO_BATCH),
                        ("gradient_accumulation_steps", RecipeAxis.ACCUMULATION_STEPS),
                    )
                ),
            ),
            setup=(_line(r"^tokens per iteration will be: "), _line(r"^number of parameters: ")),
            defaults={RecipeAxis.COMPILER: "none", RecipeAxis.ATTENTION: "sdpa"},
            settings=frozenset(
                ("compile", "dtype", "block_size", "batch_size", "gradient_accumulation_steps")
            ),
        ),
        StatingProgram(
            name="nanochat",
            mark=_line(r"^step \d+/\d+ \(.*\btok/sec: "),
            statements=(
                Statement(RecipeAxis.ATTENTION, _line(r"using PyTorch SDPA fallback"), "sdpa"),
                Statement(RecipeAxis.ATTENTION, _line(r"Using PyTorch SDPA fallback"), "sdpa"),
                Statement(RecipeAxis.ATTENTION, _line(r"Using Flash Attention (?:2|3)"), "flash"),
                Statement(RecipeAxis.GLOBAL_BATCH, _line(r"^Total batch size ([\d,]+) ")),
            ),
        ),
        StatingProgram(
            name="LLaMA-Factory",
            mark=_line(r"\bllamafactory\."),
            statements=(
                Statement(
                    RecipeAxis.ACTIVATION_CHECKPOINTING, _line(r"Gradient checkpointing enabled\."), "full"
                ),
                Statement(
                    RecipeAxis.ATTENTION, _line(r"Using FlashAttention-2 for faster training"), "flash"
                ),
                Statement(RecipeAxis.ATTENTION, _line(r"Using torch SDPA for faster training"), "sdpa"),
                Statement(RecipeAxis.ATTENTION, _line(r"Using vanilla attention implementation"), "eager"),
            ),
        ),
    )


def stated_settings(lines: Sequence[str]) -> tuple[StatedSetting, ...]:
    """Return the settings that a program states in the lines of a log's head; nothing for any other program."""
    text = "\n".join(islice(lines, _SEARCHED_LINES))
    found = _program(text)
    return () if found is None else tuple(_settings(found, text))


def settings_of_axes(lines: Sequence[str]) -> frozenset[str]:
    """Return the names of the printed settings that ``stated_settings`` reads as axes."""
    found = _program("\n".join(islice(lines, _SEARCHED_LINES)))
    return frozenset() if found is None else found.settings


def _program(text: str) -> StatingProgram | None:
    return next((program for program in _stating_programs() if program.mark.search(text)), None)


def _settings(program: StatingProgram, text: str) -> Iterator[StatedSetting]:
    stated: set[AxisName] = set()
    for statement in program.statements:
        match = None if statement.axis in stated else statement.pattern.search(text)
        if match is None:
            continue
        stated.add(statement.axis)
        value = typed(match[1].replace(",", "")) if statement.value is None else statement.value
        yield statement.axis, value, f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()}"
    if program.setup and all(pattern.search(text) for pattern in program.setup):
        for axis, value in program.defaults.items():
            if axis not in stated:
                yield axis, value, f"{program.name}'s default; the log names no other"
