"""The tasks, a folder each; its ``TASK`` declares everything that the rest of trainmark knows about it."""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from trainmark.errors import InputError, nearest
from trainmark.files import extension_folders
from trainmark.schema.case import Case, own_axes, recipe_axis
from trainmark.schema.recipe import OF_LARGE_MODELS, AxisName, AxisValue, Condition, RecipeAxis
from trainmark.tasks.task import AxisLabel, Model, Task

__all__ = [
    "TASKS",
    "AxisLabel",
    "EqualWork",
    "KnownAxis",
    "Model",
    "Task",
    "all_axes",
    "axes_of_model",
    "case_of",
    "find_task",
    "model_word",
    "published_name",
    "rules_of",
    "same_model",
    "same_unit",
    "task_of",
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


def task_of(case: Case) -> Task:
    """Return the task of a case."""
    return TASKS[case.task]


def fixed_axes_of(case: Case) -> dict[str, str]:
    """Return the values of a case on the axes that change what its step computes, such as the optimizer."""
    return {axis: str(case.value(axis)) for axis in task_of(case).fixed_axes}


def case_of(**axes: Any) -> Case:
    """Return the case with these values, and the defaults of its task on all other axes.

    Raises pydantic's ``ValidationError`` for an axis that the task lacks and for a value that the axis cannot have.
    """
    return Case.model_validate(axes)


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
    own = (task.unit_aliases | {_singular(task.unit)} for task in TASKS.values())
    return len(pair) == 1 or any(pair <= words for words in (*_LOOSE, *own))


def _singular(unit: str) -> str:
    return unit.lower().replace(" ", "").partition("/")[0].removesuffix("s")


def same_model(one: AxisValue, other: AxisValue) -> bool:
    """Return whether two names can be one model: ``resnet50`` may be any version, v1 is not v1.5."""
    (name, _, version), (other_name, _, other_version) = str(one).partition("_v"), str(other).partition("_v")
    return name == other_name and (not version or not other_version or version == other_version)
