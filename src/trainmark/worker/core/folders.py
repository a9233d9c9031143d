"""The existing tasks and frameworks: the worker's folders, and those of extensions."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

from .outcomes import UNSUPPORTED, RunError, first_sentence
from .task import Task

PACKAGE = (__package__ or "").rpartition(".")[0]
"""The worker's package, by the name under which it was loaded."""

TASKS = "tasks"


def framework_names() -> List[str]:
    """Return the frameworks that have a folder."""
    return sorted(set(_folders(sys.modules[PACKAGE])) - {"core", TASKS})


def task_names() -> List[str]:
    """Return the tasks that have a folder."""
    return sorted(_name(folder) for folder in _folders(_import(TASKS)))


def find_task(name: str) -> Task:
    """Return a task by its name: the folder's name with ``-`` for ``_``."""
    task: Task = _import(TASKS, _folder(name)).TASK
    return task


def default_task() -> Task:
    """Return the task of a run that names neither a task nor a model."""
    return next(task for task in map(find_task, task_names()) if task.unnamed)


def task_of_model(model: str) -> Optional[Task]:
    """Return the task that declares a model, or None."""
    tasks = (find_task(name) for name in task_names())
    return next((task for task in tasks if model in task.models), None)


def import_framework(name: str) -> Any:
    """Return the package of a framework, which has ``stopped_by``; raise ``RunError`` if it cannot be imported.

    A folder of the same name in an extension is part of it: another task for this framework.
    """
    package = _import_beside(name)
    places = [str(Path(root) / name) for root in sys.modules[PACKAGE].__path__]
    package.__path__ += [place for place in places if place not in package.__path__ and Path(place).is_dir()]
    return package


def import_trainer(framework: Any, name: str, task: str) -> Any:
    """Return the package of a task in a framework, which has ``open_training``; raise ``RunError`` if it is missing."""
    trained = sorted(set(map(_name, _folders(framework))) & set(task_names()))
    if task not in trained:
        raise RunError(
            UNSUPPORTED, f"{name}'s worker does not train {task}; it trains {', '.join(trained) or 'nothing'}"
        )
    return _import_beside(name, _folder(task))


def _import_beside(framework: str, *folders: str) -> Any:
    """Import a framework's part of the worker, and with it the framework."""
    try:
        return _import(framework, *folders)
    except Exception as error:
        # Not only ImportError: a placeholder may raise any error, and MXNet raises AttributeError for a new numpy.
        reason = first_sentence(error)
        raise RunError(
            UNSUPPORTED, f"{framework} cannot be imported by {sys.executable}: {reason}"
        ) from error


def _folders(package: Any) -> Dict[str, Path]:
    found = (init.parent for root in package.__path__ for init in Path(root).glob("*/__init__.py"))
    return {folder.name: folder for folder in found}


def _import(*folders: str) -> Any:
    return importlib.import_module(".".join([PACKAGE, *folders]))


def _folder(task: str) -> str:
    return task.replace("-", "_")


def _name(folder: str) -> str:
    return folder.replace("_", "-")
