"""``trainmark init``: write a small suite for this machine."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.errors import InputError, nearest

if TYPE_CHECKING:
    from trainmark.schema.plan import NodeResources

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_MOST_DEVICES = 8


@dataclass(frozen=True, slots=True)
class _Choices:
    """The answers: a model, a framework, precisions, and the batch of each device."""

    model: str
    framework: str
    precision: str
    batch: int


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="The file to write.", metavar="FILE")] = Path("suite.yaml"),
    model: Annotated[
        str | None, typer.Option(help="The model to train; default: a small one on CPUs, ResNet-50 on GPUs.")
    ] = None,
    framework: Annotated[
        str | None, typer.Option(help="The framework; default: the first with an environment.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Precisions, separated by commas.", metavar="NAME,…")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="The batch size per device.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a small commented suite for this machine, which `trainmark plan` and `trainmark run` accept.

    The suite trains a model that comes with trainmark. A program of your own needs no suite: trainmark run -- COMMAND.

    On a terminal it asks for the values that no option gives; elsewhere it uses the defaults.
    """
    from trainmark.files import write_atomically
    from trainmark.node import LocalHost
    from trainmark.suite import parse_suite

    if path.exists() and not force:
        raise InputError(f"{path}: exists already; name another file, or replace it with --force")
    machine = LocalHost().machine()
    choices = _choices(machine, model, framework, precision, batch)
    text = suite_text(machine, choices, path)
    suite = parse_suite(text, str(path))
    write_atomically(path, text)
    steps = [f"trainmark check {path}", f"trainmark run {path}"]
    if _made((choices.framework,)) is None:
        steps.insert(0, f"trainmark env create {choices.framework}")
    sys.stderr.write(f"{path}: {len(suite.cases)} cases; next: {', then '.join(steps)}\n")


def _choices(
    machine: "NodeResources",
    model: str | None,
    framework: str | None,
    precision: str | None,
    batch: int | None,
) -> _Choices:
    """Return the options, and for those not given the answers of a person at a terminal, or the defaults."""
    on_gpus = machine.gpus > 0
    known_models, frameworks = _models(), _frameworks()
    model = _answer("Model", model, "resnet50_v1.5" if on_gpus else "mobilenet_v1", known_models)
    framework = _answer("Framework", framework, _made(("pytorch", *frameworks)) or "pytorch", frameworks)
    precision = _answer("Precisions", precision, "fp32,amp-fp16" if on_gpus else "fp32,amp-bf16", ())
    size = _answer(
        "Batch size of each device", None if batch is None else str(batch), "64" if on_gpus else "8", ()
    )
    if not size.isdecimal() or int(size) < 1:
        raise InputError(f"--batch {size}: is not a whole number from 1")
    return _Choices(model, framework, _precisions(precision), int(size))


def _answer(question: str, given: str | None, default: str, known: Sequence[str]) -> str:
    if given is None and sys.stdin.isatty():
        more = f" ({', '.join(known)})" if known else ""
        given = typer.prompt(f"{question}{more}", default=default, err=True)
    value = given or default
    if known and value not in known:
        raise InputError(
            f"no {question.lower()} '{value}'{nearest(value, known)} (known: {', '.join(known)})"
        )
    return value


def _precisions(text: str) -> str:
    from trainmark.schema.precision import Precision

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in set(Precision):
            raise InputError(
                f"no precision '{name}'{nearest(name, Precision)} (known: {', '.join(Precision)})"
            )
    if not names:
        raise InputError("--precision: names no precision")
    return ", ".join(names)


def _models() -> tuple[str, ...]:
    from trainmark.tasks import TASKS

    return tuple(model for task in TASKS.values() for model in task.models)


def _frameworks() -> tuple[str, ...]:
    from trainmark.environment import entries

    return tuple(dict.fromkeys(entry.framework for entry in entries()))


def _made(frameworks: Sequence[str]) -> str | None:
    """Return the first of the frameworks whose environment is made; None if none is."""
    from trainmark.environment import EnvironmentState, entries, state_of
    from trainmark.files import default_home

    home = default_home(os.environ)
    made = [entry.framework for entry in entries() if state_of(entry, home) is EnvironmentState.READY]
    return next((name for name in frameworks if name in made), None)


def suite_text(machine: "NodeResources", choices: _Choices, path: Path) -> str:
    """Return the suite for a machine as YAML with comments; it is read back before it is written."""
    on_gpus = machine.gpus > 0
    there = min(machine.gpus if on_gpus else machine.cores, _MOST_DEVICES)
    devices = [count for count in (1, 2, 4, 8) if count <= max(there, 1)][: 4 if on_gpus else 2]
    cores = f"{machine.cores} CPU core{'s' if machine.cores != 1 else ''}"
    gpus = f"{machine.gpus} GPU{'s' if machine.gpus != 1 else ''}" if on_gpus else "no GPU"
    steps, warmup = (120, 20) if on_gpus else (40, 10)
    return f"""\
# A suite for this machine ({cores}, {gpus}), written by trainmark init.
#   trainmark plan {path}     prints the commands
#   trainmark run {path}      measures every case, and writes a report
# If the framework has no environment yet: trainmark env create {choices.framework}
name: {path.stem if _is_word(path.stem) else "suite"}
description: {choices.model} in {choices.framework} on {gpus if on_gpus else cores}
# The steps of a run, of which the first are warm-up; a case gets 3 to 5 runs, until its interval is narrow.
protocol: {{name: adaptive, steps: {steps}, warmup_steps: {warmup}, max_repeats: 5, target_half_width: 0.02}}
# The time limit of all runs; cases that do not fit are skipped, the longest first.
budget: {"15min" if on_gpus else "5min"}
# What all cases have in common.
defaults:
  framework: {choices.framework}
  model: {choices.model}
  device: {"cuda" if on_gpus else "cpu"}
# Every combination of these values is a case.
axes:
  precision: [{choices.precision}]
  batch_per_device: [{choices.batch}]
  devices_per_node: {devices}
"""


def _is_word(text: str) -> bool:
    return (
        bool(text)
        and text[0].isalnum()
        and all(one.isalnum() or one in "._+-" for one in text)
        and text.isascii()
    )
