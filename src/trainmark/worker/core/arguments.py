"""The worker's flags: every axis of a case, the recipe, and where the events go; a task adds its own."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .folders import find_task, framework_names, task_names, task_of_model
from .precision import PRECISIONS
from .queues import DRAIN_STEPS
from .settings import SYNTHETIC, Settings, count, from_flags, loss_scale, positive
from .task import Task

SCHEDULES = ("cosine", "step", "linear", "constant")
NATIVE = "native"  # the collective, and the exchange of gradients, that every framework has: its own


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
    if given.learning_rate is None:
        given.learning_rate = task.learning_rate(given.batch_per_device * world_size)
    task.complete(given)
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


def _path(text: str) -> str:
    return str(Path(text).absolute())


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
    add("--precision", choices=PRECISIONS, default="fp32", help="fp32 means that TF32 is off")
    add("--batch-per-device", type=positive, default=32, metavar="N", help="samples per rank")
    add("--compiler", default="none", help="a compiler of the framework")
    data = "synthetic, or the path of real data"
    add("--data", type=lambda text: text if text == SYNTHETIC else _path(text), default=SYNTHETIC, help=data)
    add("--loader", default="native", help="the loader of real data")
    add("--loader-workers", type=count, default=2, metavar="N", help="for each rank")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="the device of the rank")
    add("--threads", type=count, default=0, metavar="N", help="of this rank; 0: the default")
    add("--collective", default=NATIVE, help="the ranks' collectives; native: the framework's")
    add("--gradients", default=NATIVE, help="the exchange of gradients; native: the framework's usual one")
    add = parser.add_argument_group("protocol").add_argument
    add("--steps", type=positive, default=120, metavar="N", help="all steps, including the first")
    add("--warmup-steps", type=count, default=20, metavar="N", help="steps not measured")
    add("--seed", type=count, default=0, metavar="N", help="of weights and data")
    add("--events", type=_path, metavar="FILE", help="the file for rank 0's events; default: standard output")
    add("--memory-limit", type=positive, metavar="BYTES", help="of this process's data")
    equivalence = "train the three steps in this file (.npz) instead, and write their results as the events"
    add("--equivalence", type=_path, metavar="FILE", help=equivalence)
    profile = "profile N more steps instead of verifying the run; needs --events: the trace is written there"
    add("--profile", type=count, default=0, metavar="N", help=profile)
    add = parser.add_argument_group("recipe").add_argument
    add("--learning-rate", type=float, help="if not given: the task's, by the global batch")
    add("--momentum", type=float, default=0.9, help="of SGD")
    add("--weight-decay", type=float, default=0.0, help="L2 penalty")
    add("--schedule", choices=SCHEDULES, default="constant", help="of the learning rate")
    add("--epochs", type=positive, default=1, metavar="N", help="length of the schedule")
    add("--warmup-epochs", type=count, default=0, metavar="N", help="of the learning rate")
    add("--loss-scale", type=loss_scale, default="dynamic", help="dynamic, or a number")
    task.add_flags(parser)
    parser.set_defaults(**task.defaults(given.model or task.models[0]))
    return parser, task
