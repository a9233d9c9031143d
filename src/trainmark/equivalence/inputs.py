"""The inputs of the check: weights and batch for every framework, and the worker's flags to train on them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from trainmark.errors import InputError
from trainmark.schema.task_catalogue import task_of_model
from trainmark.tasks import find_task
from trainmark.tasks.equal_work import EqualWork
from trainmark.worker.core.equivalence import OBSERVED, STEPS

NO_RULES: Mapping[str, str] = {}
"""The defaults of the task's fixed axes."""


def equal_work_of(model: str, rules: Mapping[str, str] = NO_RULES) -> EqualWork:
    """Return the part of the check that belongs to a model's task; ``rules`` are values of the task's fixed axes.

    Raises ``InputError`` if the task has none.
    """
    task = find_task(task_of_model(model))
    if task.equal_work is None:
        raise InputError(f"the task '{task.name}' has no check of equal work")
    return task.equal_work().of(model, rules)


def worker_flags(
    model: str, inputs: Path, compiler: str = OBSERVED, rules: Mapping[str, str] = NO_RULES
) -> tuple[str, ...]:
    """Return the flags that make a worker train the three steps on ``inputs`` and report their values.

    With a compiler the steps are followed but not inspected.
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
    """Write the inputs as ``.npz``; raise ``OSError`` if that fails."""
    # numpy's stubs take the keywords for its own options.
    np.savez(path, **equal_work_of(model).inputs(model, seed))  # type: ignore[arg-type]
