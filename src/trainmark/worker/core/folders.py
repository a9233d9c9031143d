"""The existing tasks, backends and models: the worker's folders, and those of extensions."""

import importlib
import sys
from pathlib import Path
from typing import Any

from .outcomes import UNSUPPORTED, RunError, first_sentence
from .task import Task

PACKAGE = (__package__ or "").rpartition(".")[0]  # the worker's, by the name under which it was loaded
TASKS, BACKENDS, MODELS = "tasks", "backends", "models"
# By module: a second import would fail in another way than the first.
_failed: dict[tuple[str, ...], RunError] = {}


def framework_names() -> list[str]:
    """Return the frameworks that have a backend."""
    return _folders(BACKENDS)


def task_names() -> list[str]:
    """Return the tasks that have a folder."""
    return [folder.replace("_", "-") for folder in _folders(TASKS)]


def find_task(name: str) -> Task[Any]:
    """Return a task by its name: the folder's name with ``-`` for ``_``."""
    task: Task[Any] = _import(TASKS, name.replace("-", "_")).TASK
    return task


def task_of_model(model: str | None) -> Task[Any]:
    """Return the task that declares a model; that of a run that names neither a task nor a model, if none does."""
    tasks = [find_task(name) for name in task_names()]
    trained = [task for task in tasks if model in task.models]
    return (trained or [task for task in tasks if task.is_default])[0]


def import_backend(framework: str, *module: str) -> Any:
    """Return a framework's package, which has ``FAILURES``, or a module of it; raise ``RunError`` if that fails."""
    return _import_of(framework, BACKENDS, framework, *module)


def import_trainer(framework: str, task: str) -> Any:
    """Return the module of a framework's model for a task, which has ``open_training``; raise ``RunError`` without one.

    ``open_training(settings, place)`` returns the ``Training`` of one rank, ready for its first step.
    """
    modules = {path.stem for root in _import(MODELS).__path__ for path in Path(root).glob("*.py")}
    models = {name: f"{framework}_{name.replace('-', '_')}" for name in task_names()}
    trained = {name: model for name, model in models.items() if model in modules}
    if task not in trained:
        does = ", ".join(trained) or "nothing"
        raise RunError(UNSUPPORTED, f"{framework}'s worker does not train {task}; it trains {does}")
    return _import_of(framework, MODELS, trained[task])


def _import_of(framework: str, *path: str) -> Any:
    if path in _failed:
        raise _failed[path]
    try:
        return _import(*path)
    except Exception as error:
        # Not only ImportError: a placeholder may raise any error, and MXNet raises AttributeError for a new numpy.
        reason = f"{framework} cannot be imported by {sys.executable}: {first_sentence(error)}"
        _failed[path] = RunError(UNSUPPORTED, reason)
        raise _failed[path] from error


def _folders(kind: str) -> list[str]:
    roots = _import(kind).__path__
    return sorted({init.parent.name for root in roots for init in Path(root).glob("*/__init__.py")})


def _import(*path: str) -> Any:
    return importlib.import_module(".".join([PACKAGE, *path]))
