"""The inputs of the check: weights and batch for every framework, and the worker's flags to train on them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from trainmark.errors import InputError
from trainmark.schema.precision import Precision
from trainmark.tasks import find_task, task_of_model
from trainmark.tasks.equal_work import REDUCED, EqualWork
from trainmark.worker.core.equivalence import STEPS
from trainmark.worker.core.precision import PRECISIONS

LOSS_SCALE = 1024
"""The fixed scale of the loss in FP16: a dynamic one would skip steps until it fits."""

NO_RULES: Mapping[str, str] = {}
"""The defaults of the task's fixed axes."""


def equal_work_of(model: str, rules: Mapping[str, str] = NO_RULES) -> EqualWork:
    """Return the part of the check that belongs to the task of a model or of its reduced form.

    ``rules`` are values of the task's fixed axes.
    Raises ``InputError`` if the task has none.
    """
    task = find_task(task_of_model(model.removesuffix(REDUCED)))
    if task.equal_work is None:
        raise InputError(f"the task '{task.name}' has no check of equal work")
    return task.equal_work().of(model, rules)


def worker_flags(
    model: str,
    inputs: Path,
    compiler: str = "none",
    rules: Mapping[str, str] = NO_RULES,
    precision: Precision = Precision.FP32,
) -> tuple[str, ...]:
    """Return the flags that make a worker train the three steps on ``inputs`` and report their values.

    With a compiler the steps are followed but not inspected.
    """
    task = equal_work_of(model, rules)
    recipe = task.recipe
    flags = {
        "model": task.form(model),
        "precision": precision.value,
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
        **({"loss-scale": LOSS_SCALE} if PRECISIONS[precision].scaled else {}),
    }
    return tuple(f"--{name}={value}" for name, value in flags.items())


def write_inputs(model: str, path: Path, seed: int = 0, rules: Mapping[str, str] = NO_RULES) -> None:
    """Write the inputs as ``.npz``; raise ``OSError`` if that fails."""
    task = equal_work_of(model, rules)
    # numpy's stubs take the keywords for its own options.
    np.savez(path, **task.inputs(task.form(model), seed))  # type: ignore[arg-type]
