"""The weights and the batch that every framework is given, and the words that make a worker train on them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from trainmark.errors import InputError
from trainmark.schema.task_catalogue import task_of_model
from trainmark.tasks import find_task
from trainmark.tasks.equal_work import EqualWork
from trainmark.worker.core.equivalence import OBSERVED, STEPS

NO_RULES: Mapping[str, str] = {}
"""The task's ``rules`` as they are where nobody asks for another."""


def equal_work_of(model: str, rules: Mapping[str, str] = NO_RULES) -> EqualWork:
    """Return a model's task's part of the check, ``rules`` being values of the task's axes of that name.

    Raises ``InputError`` where the task has none.
    """
    task = find_task(task_of_model(model))
    if task.equal_work is None:
        raise InputError(f"nothing shows equal work for the task '{task.name}'")
    return task.equal_work().of(model, rules)


def worker_flags(
    model: str, inputs: Path, compiler: str = OBSERVED, rules: Mapping[str, str] = NO_RULES
) -> tuple[str, ...]:
    """Return the words that make a worker train the three steps on ``inputs`` and tell what they computed.

    With a compiler the steps are done and not looked into.
    """
    task = equal_work_of(model, rules)
    recipe = task.recipe
    flags = {
        "model": model,
        "precision": "fp32",
        "compiler": compiler,
        "batch-per-device": task.batch,
        "learning-rate": recipe.learning_rate,
        "momentum": recipe.momentum,
        "weight-decay": recipe.weight_decay,
        "schedule": recipe.schedule,
        "epochs": recipe.epochs,
        "warmup-epochs": recipe.warmup_epochs,
        **task.flags(),
        "steps": STEPS + 1,
        "warmup-steps": 1,
        "equivalence": inputs,
    }
    return tuple(f"--{name}={value}" for name, value in flags.items())


def write_inputs(model: str, path: Path, seed: int = 0) -> None:
    """Write the inputs as ``.npz``; raises OSError."""
    # numpy's stubs take the keywords for its own options.
    np.savez(path, **equal_work_of(model).inputs(model, seed))  # type: ignore[arg-type]
