"""Programs that state their settings in sentences: torchtitan, nanoGPT, nanochat and LLaMA-Factory.

What such a program prints only if a setting is on has its default where the log shows the whole start of the program.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from trainmark.programs.options import typed
from trainmark.schema.recipe import AxisName, AxisValue, Condition, RecipeAxis

DIALECTS: Mapping[str, object] = {}
"""None of these programs prints its options by name."""

_SEARCHED_LINES = 5_000


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


STATING = (
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
        settings=frozenset(("compile", "dtype", "block_size", "batch_size", "gradient_accumulation_steps")),
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
            Statement(RecipeAxis.ATTENTION, _line(r"Using FlashAttention-2 for faster training"), "flash"),
            Statement(RecipeAxis.ATTENTION, _line(r"Using torch SDPA for faster training"), "sdpa"),
            Statement(RecipeAxis.ATTENTION, _line(r"Using vanilla attention implementation"), "eager"),
        ),
    ),
)


StatedSetting = tuple[AxisName, AxisValue, str]
"""An axis, its value, and where the log states it."""


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
    return next((program for program in STATING if program.mark.search(text)), None)


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
