"""The worker's flags: the fields of a task's settings, with every axis of a case, and of its recipe."""

import argparse
from collections.abc import Sequence
from typing import Any

from .folders import find_task, framework_names, task_names, task_of_model
from .queues import DRAIN_STEPS
from .settings import OF_TYPES, SYNTHETIC, Recipe, Settings, flags_of, from_flags
from .task import Task


def parse(arguments: Sequence[str], world_size: int) -> Settings:
    """Return the settings, of the task's type; a flag that cannot be used ends the program with exit code 2."""
    parser, task = _parser(arguments)
    given = parser.parse_args(arguments)
    if given.warmup_steps < 1:
        parser.error("--warmup-steps must be at least 1: the first step is never part of the measured window")
    if given.steps <= given.warmup_steps:
        more = f"--steps ({given.steps}) must be more than --warmup-steps ({given.warmup_steps})"
        parser.error(f"{more}: nothing would be left to measure")
    if given.profile and given.events is None:
        parser.error("--profile needs --events FILE: the trace is written into the folder of that file")
    task.complete(given, world_size)
    drain_steps = 0 if given.data == SYNTHETIC else DRAIN_STEPS
    return from_flags(
        task.settings_type,
        given,
        task=task.name,
        steps=given.steps + drain_steps,
        warmup_steps=given.warmup_steps + drain_steps,
        drain_steps=drain_steps,
        witness_steps=0,
        recipe=from_flags(task.recipe_type(given.model), given),
    )


def _parser(words: Sequence[str]) -> tuple[argparse.ArgumentParser, Task[Any]]:
    """Return the flags of the task that the words ask for, by its name or by its model, and the task."""
    early = argparse.ArgumentParser(prog="trainmark-worker", add_help=False, allow_abbrev=False)
    early.add_argument("--task", choices=task_names())
    early.add_argument("--model")
    given, _ = early.parse_known_args(words)
    task = find_task(given.task) if given.task is not None else task_of_model(given.model)
    parser = argparse.ArgumentParser(
        prog="trainmark-worker",
        description="Train a model for some steps and write what each of them took.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument_group("case").add_argument
    add("--framework", choices=framework_names(), required=True, help="the framework that trains")
    add("--task", choices=task_names(), default=task.name, help="if not given: the model's")
    add("--model", choices=sorted(task.models), default=task.models[0], help="the model to train")
    add_flags(parser.add_argument_group("settings"), task.settings_type)
    # The first model's recipe has the flags of all of the task's recipes.
    add_flags(parser.add_argument_group("recipe"), task.recipe_type(task.models[0]))
    parser.set_defaults(**task.defaults(given.model or task.models[0]))
    return parser, task


def add_flags(group: argparse._ArgumentGroup, kind: type[Settings] | type[Recipe]) -> None:
    """Add the flags of the fields of settings or of a recipe."""
    for name, flag in flags_of(kind).items():
        value = "type" if callable(flag.kind) else "choices"
        more = {value: flag.kind, **OF_TYPES.get(flag.kind, {})}
        word = "--" + (flag.name or name).replace("_", "-")
        group.add_argument(word, dest=name, default=flag.default, help=flag.purpose, **more)
