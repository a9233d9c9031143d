"""The tasks, a folder each; its ``TASK`` declares everything that the rest of trainmark knows about it."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, get_args

from pydantic import AfterValidator

from trainmark.errors import InputError, nearest
from trainmark.files import extension_folders
from trainmark.schema.recipe import OF_LARGE_MODELS, AxisName, AxisValue, Condition, RecipeAxis
from trainmark.tasks.declaration import AxisLabel, Model, Task, TaskAxes

__all__ = [
    "BUILT_IN_SOURCE",
    "TASKS",
    "AxisLabel",
    "KnownAxis",
    "Model",
    "Task",
    "TaskAxes",
    "all_axes",
    "axes_of_model",
    "default_model",
    "find_task",
    "is_neutral",
    "model_word",
    "neutral_task",
    "own_axes",
    "published_name",
    "recipe_axis",
    "same_model",
    "same_unit",
    "task_choices",
    "task_of_model",
    "task_of_source",
]

__path__ = [*__path__, *map(str, extension_folders("tasks"))]


def _find() -> dict[str, Task]:
    names = sorted(path.parent.name for room in __path__ for path in Path(room).glob("*/__init__.py"))
    found: list[Task] = [import_module(f"{__name__}.{name}").TASK for name in names]
    return {task.name: task for task in found}


TASKS = _find()
"""Every task by its name, including those of extensions."""


def find_task(name: str) -> Task:
    """Return a task by name; raise ``InputError`` for an unknown name."""
    if name not in TASKS:
        raise InputError(f"unknown task '{name}'{nearest(name, TASKS)} (known: {', '.join(TASKS)})")
    return TASKS[name]


@cache
def default_task() -> str:
    """Return the task of documents that name neither a task nor a known model."""
    return next(task.name for task in TASKS.values() if task.is_default)


def is_neutral(task: object) -> bool:
    """Return whether ``task`` is the neutral task, whose cases have no defaults on the axes of a training's recipe."""
    return isinstance(task, str) and task in TASKS and TASKS[task].is_neutral


@cache
def neutral_task() -> str:
    """Return the name of the neutral task."""
    return next(task.name for task in TASKS.values() if task.is_neutral)


BUILT_IN_SOURCE = "builtin"
"""The kind of source of trainmark's own programs in a card."""


def task_of_source(kind: str) -> str:
    """Return the task of a card without a task: the default one for trainmark's own programs, or the neutral one."""
    return default_task() if kind == BUILT_IN_SOURCE else neutral_task()


@cache
def _task_by_model() -> Mapping[str, str]:
    return {model: task.name for task in TASKS.values() for model in task.models}


def task_of_model(model: object) -> str:
    """Return the task that declares a model, or the default task."""
    return _task_by_model().get(str(model)) or default_task()


def default_model(task: object = None) -> str | None:
    """Return the first model of a task, of the default one if none is given or it is unknown; None without models."""
    models = TASKS[task].models if isinstance(task, str) and task in TASKS else {}
    return next(iter(models or TASKS[default_task()].models), None)


def own_axes(*tasks: str) -> tuple[str, ...]:
    """Return the names of the axes that only these tasks have; those of all tasks without arguments."""
    return tuple(dict.fromkeys(axis for task in tasks or TASKS for axis in TASKS[task].axes.model_fields))


def recipe_axis(axis: str) -> str:
    """Return the name that published recipes use for an axis."""
    declared = (task.axes.recipe_names for task in TASKS.values())
    return next((names[axis] for names in declared if axis in names), axis)


def task_choices(axis: str) -> frozenset[str]:
    """Return the enumerated values of a task's axis, over all tasks that have it; empty if none are enumerated."""
    fields = (task.axes.model_fields for task in TASKS.values())
    types = (own[axis].annotation for own in fields if axis in own)
    candidates = (candidate for type_ in types for candidate in (type_, *get_args(type_)))
    enums = (enum for enum in candidates if isinstance(enum, type) and issubclass(enum, StrEnum))
    return frozenset(member.value for enum in enums for member in enum)


def published_name(model: str) -> str:
    """Return the published name of a model; for an unknown model, the name itself."""
    found = (task.models[model].published for task in TASKS.values() if model in task.models)
    return next(found, model)


@cache
def all_axes() -> tuple[AxisName, ...]:
    """Return every axis on which two measurements are compared, in the order of lists."""
    own = (*map(recipe_axis, own_axes()), *(axis for task in TASKS.values() for axis in task.recipe_axes))
    return tuple(dict.fromkeys((*own, *RecipeAxis, *Condition)))


def axes_of_model(model: str) -> tuple[AxisName, ...]:
    """Return the axes on which trainings of ``model`` can differ: all but the axes of tasks that do not train it.

    Trainings of an unknown model can differ on any axis.
    """
    trained = [task for task in TASKS.values() if any(same_model(model, known) for known in task.models)]
    if not trained:
        return all_axes()
    mine = {axis for task in trained for axis in _declared(task)}
    declared = {axis for task in TASKS.values() for axis in _declared(task)}
    foreign = (declared - set(RecipeAxis)) | _OF_SEQUENCES
    return tuple(axis for axis in all_axes() if axis in mine or axis not in foreign)


_OF_SEQUENCES = frozenset({RecipeAxis.SEQUENCE_LENGTH, RecipeAxis.MAX_PREDICTIONS}) | OF_LARGE_MODELS
"""Axes of programs that read sequences, for any task."""


def _declared(task: Task) -> tuple[AxisName, ...]:
    return (*map(recipe_axis, task.axes.model_fields), *task.recipe_axes)


def _known(name: str) -> AxisName:
    if name not in all_axes():
        raise ValueError(f"unknown axis '{name}'{nearest(name, all_axes())} (known: {', '.join(all_axes())})")
    return name


KnownAxis = Annotated[AxisName, AfterValidator(_known)]
"""The name of an axis of recipes or conditions, of any task."""


def model_word(name: str) -> str:
    """Return trainmark's name for another program's spelling of a model; the lower-case name for an unknown family."""
    spellings = (task.model_word(name) for task in TASKS.values() if task.model_word is not None)
    return next((word for word in spellings if word is not None), name.strip().lower())


_LOOSE = (
    frozenset({"sequence", "seq", "sentence", "sample", "example"}),
    frozenset({"word", "token", "tok"}),
)
"""Synonyms in the logs of programs with another task."""


def same_unit(one: str, other: str) -> bool:
    """Return whether two units can count the same things, in any spelling: ``img/s`` and ``samples/s`` can."""
    pair = {_singular(one), _singular(other)}
    own = (task.unit_aliases | {_singular(task.counters[0])} for task in TASKS.values())
    return len(pair) == 1 or any(pair <= words for words in (*_LOOSE, *own))


def _singular(unit: str) -> str:
    return unit.lower().replace(" ", "").partition("/")[0].removesuffix("s")


def same_model(one: AxisValue, other: AxisValue) -> bool:
    """Return whether two names can be one model: ``resnet50`` may be any version, v1 is not v1.5."""
    (name, _, version), (other_name, _, other_version) = str(one).partition("_v"), str(other).partition("_v")
    return name == other_name and (not version or not other_version or version == other_version)
