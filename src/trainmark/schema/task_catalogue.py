"""The parts of the task catalogue that a case needs: axes, models and defaults.

A task is a plug-in: a folder under ``tasks/``, of trainmark or of an extension. The catalogue imports them on first
use, so that reading a case does not depend on earlier imports.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import ClassVar, Protocol, get_args

from trainmark.schema.frozen import Frozen


class TaskAxes(Frozen):
    """The axes that only the cases of one task have; each task declares a subclass.

    ``recipe_names`` maps an axis to the name that published recipes and other programs use for it.
    """

    recipe_names: ClassVar[Mapping[str, str]] = {}

    def id_words(self, compiler: str) -> tuple[str, ...]:
        """Return these axes as words of a case's id, with the compiler's among them."""
        return (compiler, *(f"{name}{value}" for name, value in self.model_dump(mode="json").items()))


class DeclaredModel(Protocol):
    """A model of a task."""

    @property
    def axes(self) -> Mapping[str, object]:
        """The model's own defaults on the task's axes, where they differ from the task's."""


class DeclaredTask(Protocol):
    """The part of a task that a case needs."""

    @property
    def name(self) -> str:
        """The task's name in documents."""

    @property
    def axes(self) -> type[TaskAxes]:
        """The type of the axes that only its cases have."""

    @property
    def models(self) -> Mapping[str, DeclaredModel]:
        """Its models by name, the default one first."""

    @property
    def is_default(self) -> bool:
        """True for the task of documents that name neither a task nor a known model."""

    @property
    def is_neutral(self) -> bool:
        """True for the task of foreign programs, which have no default axes: only stated facts count."""


@cache
def declared_tasks() -> Mapping[str, DeclaredTask]:
    """Return every task by its name; the first call imports the task folders."""
    tasks: Mapping[str, DeclaredTask] = import_module("trainmark.tasks").TASKS
    return tasks


@cache
def default_task() -> str:
    """Return the task of documents that name neither a task nor a known model."""
    return next(task.name for task in declared_tasks().values() if task.is_default)


def is_neutral(task: object) -> bool:
    """Return whether ``task`` is the neutral task, whose cases have no defaults on the axes of a training's recipe."""
    known = declared_tasks()
    return isinstance(task, str) and task in known and known[task].is_neutral


@cache
def neutral_task() -> str:
    """Return the name of the neutral task."""
    return next(task.name for task in declared_tasks().values() if task.is_neutral)


BUILT_IN_SOURCE = "builtin"
"""The kind of source of trainmark's own programs in a card."""


def task_of_source(kind: str) -> str:
    """Return the task of a card without a task: the default one for trainmark's own programs, or the neutral one."""
    return default_task() if kind == BUILT_IN_SOURCE else neutral_task()


@cache
def _task_by_model() -> Mapping[str, str]:
    return {model: task.name for task in declared_tasks().values() for model in task.models}


def task_of_model(model: object) -> str:
    """Return the task that declares a model, or the default task."""
    return _task_by_model().get(str(model)) or default_task()


def default_model(task: object = None) -> str | None:
    """Return the first model of a task, of the default one if none is given or it is unknown; None without models."""
    tasks = declared_tasks()
    models = tasks[task].models if isinstance(task, str) and task in tasks else {}
    return next(iter(models or tasks[default_task()].models), None)


def own_axes(*tasks: str) -> tuple[str, ...]:
    """Return the names of the axes that only these tasks have; those of all tasks without arguments."""
    known = declared_tasks()
    return tuple(dict.fromkeys(axis for task in tasks or known for axis in known[task].axes.model_fields))


def recipe_axis(axis: str) -> str:
    """Return the name that published recipes use for an axis."""
    declared = (task.axes.recipe_names for task in declared_tasks().values())
    return next((names[axis] for names in declared if axis in names), axis)


def task_choices(axis: str) -> frozenset[str]:
    """Return the enumerated values of a task's axis, over all tasks that have it; empty if none are enumerated."""
    fields = (task.axes.model_fields for task in declared_tasks().values())
    types = (own[axis].annotation for own in fields if axis in own)
    candidates = (candidate for type_ in types for candidate in (type_, *get_args(type_)))
    enums = (enum for enum in candidates if isinstance(enum, type) and issubclass(enum, StrEnum))
    return frozenset(member.value for enum in enums for member in enum)
