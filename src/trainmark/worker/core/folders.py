"""The existing tasks, backends and models: the worker's folders, and those of extensions."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .outcomes import UNSUPPORTED, RunError, first_sentence
from .task import Task

PACKAGE = (__package__ or "").rpartition(".")[0]
"""The worker's package, by the name under which it was loaded."""

TASKS, BACKENDS, MODELS = "tasks", "backends", "models"


def framework_names() -> list[str]:
    """Return the frameworks that have a backend."""
    return sorted(_folders(_import(BACKENDS)))


def task_names() -> list[str]:
    """Return the tasks that have a folder."""
    return sorted(_name(folder) for folder in _folders(_import(TASKS)))


def find_task(name: str) -> Task[Any]:
    """Return a task by its name: the folder's name with ``-`` for ``_``."""
    task: Task[Any] = _import(TASKS, _folder(name)).TASK
    return task


def default_task() -> Task[Any]:
    """Return the task of a run that names neither a task nor a model."""
    return next(task for task in map(find_task, task_names()) if task.is_default)


def task_of_model(model: str) -> Task[Any] | None:
    """Return the task that declares a model, or None."""
    tasks = (find_task(name) for name in task_names())
    return next((task for task in tasks if model in task.models), None)


def import_framework(name: str) -> Any:
    """Return the package of a framework, which has ``FAILURES``; raise ``RunError`` if it cannot be imported."""
    return _import_of(name, BACKENDS, name)


def import_loading(framework: str) -> Any:
    """Return the module with a framework's loaders; raise ``RunError`` if it cannot be imported."""
    return _import_of(framework, BACKENDS, framework, "loading")


def import_trainer(framework: str, task: str) -> Any:
    """Return the module of a framework's model for a task, which has ``open_training``; raise ``RunError`` without one.

    ``open_training(settings, place)`` returns the ``Training`` of one rank, ready for its first step.
    """
    models = {name: f"{framework}_{_folder(name)}" for name in task_names()}
    trained = {name: model for name, model in models.items() if model in _modules(_import(MODELS))}
    if task not in trained:
        raise RunError(
            UNSUPPORTED,
            f"{framework}'s worker does not train {task}; it trains {', '.join(trained) or 'nothing'}",
        )
    return _import_of(framework, MODELS, trained[task])


def _import_of(framework: str, *path: str) -> Any:
    """Import a framework's part of the worker, and with it the framework."""
    try:
        return _import(*path)
    except Exception as error:
        # Not only ImportError: a placeholder may raise any error, and MXNet raises AttributeError for a new numpy.
        reason = first_sentence(error)
        raise RunError(
            UNSUPPORTED, f"{framework} cannot be imported by {sys.executable}: {reason}"
        ) from error


def _folders(package: Any) -> dict[str, Path]:
    found = (init.parent for root in package.__path__ for init in Path(root).glob("*/__init__.py"))
    return {folder.name: folder for folder in found}


def _modules(package: Any) -> Iterator[str]:
    return (path.stem for root in package.__path__ for path in Path(root).glob("*.py"))


def _import(*path: str) -> Any:
    return importlib.import_module(".".join([PACKAGE, *path]))


def _folder(task: str) -> str:
    return task.replace("-", "_")


def _name(folder: str) -> str:
    return folder.replace("_", "-")
