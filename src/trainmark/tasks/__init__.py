"""The tasks: a folder each, found by looking, whose ``TASK`` says all that the rest of trainmark knows of it."""

from importlib import import_module
from pathlib import Path
from typing import Any

from trainmark.errors import InputError, nearest
from trainmark.extensions import folders
from trainmark.tasks.task import AxisLabel, Model, Task
from trainmark.words.case import Case, declare_axes

__all__ = [
    "TASKS",
    "AxisLabel",
    "EqualWork",
    "Model",
    "Task",
    "case_of",
    "find_task",
    "published_name",
    "task_of",
]

__path__ = [*__path__, *map(str, folders("tasks"))]


def _find() -> dict[str, Task]:
    names = sorted(path.parent.name for room in __path__ for path in Path(room).glob("*/__init__.py"))
    found: list[Task] = [import_module(f"{__name__}.{name}").TASK for name in names]
    for task in found:
        declare_axes(task.name, task.axes, task.models, task.unnamed)
    return {task.name: task for task in found}


TASKS = _find()
"""Every task by its name, our own and those of extensions."""


def find_task(name: str) -> Task:
    """Return a task; raise ``InputError`` for a name that none has."""
    if name not in TASKS:
        raise InputError(f"no task '{name}'{nearest(name, TASKS)} (there are: {', '.join(TASKS)})")
    return TASKS[name]


def task_of(case: Case) -> Task:
    """Return the task of a case."""
    return TASKS[case.task]


def case_of(**axes: Any) -> Case:
    """Return the case with these values, and the defaults of its task on all other axes.

    Raises pydantic's ``ValidationError`` for an axis that the task lacks and for a value that the axis cannot have.
    """
    return Case.model_validate(axes)


def published_name(model: str) -> str:
    """Return the name by which others publish a model of any task; of one that no task has, the name itself."""
    found = (task.models[model].published for task in TASKS.values() if model in task.models)
    return next(found, model)
