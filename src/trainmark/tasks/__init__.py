"""The tasks, a folder each; its ``TASK`` declares everything that the rest of trainmark knows about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator

from trainmark.errors import InputError, nearest
from trainmark.files import extension_folders
from trainmark.schema.case import Case, TaskAxes, own_axes, recipe_axis
from trainmark.schema.frozen import Frozen
from trainmark.schema.recipe import OF_LARGE_MODELS, AxisName, AxisValue, Condition, RecipeAxis

if TYPE_CHECKING:
    from trainmark.tasks.equal_work import EqualWork

__all__ = [
    "TASKS",
    "AxisLabel",
    "KnownAxis",
    "Model",
    "Task",
    "all_axes",
    "axes_of_model",
    "case_of",
    "find_task",
    "model_word",
    "published_name",
    "same_model",
    "same_unit",
    "task_of",
]

__path__ = [*__path__, *map(str, extension_folders("tasks"))]


@dataclass(frozen=True, slots=True)
class Model:
    """The published names of a model; trainmark's own name is its key in the task.

    ``short`` is DLPerf's name in log files, ``published`` the framework-benchmark template's name. ``axes`` are the
    model's defaults that differ from the task's.
    """

    short: str
    published: str
    axes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AxisLabel:
    """An axis in reports: its name in English and Chinese, and the templates of its values.

    ``{}`` in ``value`` (for a table's cell) and ``short`` (for a case's short label) is replaced by the value.
    """

    en: str
    zh: str
    value: str = "{}"
    short: str = "{}"


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of training with its own axes and units of work.

    - ``counters``: the units of a step's work; the headline throughput uses the first.
    - ``variant_axes``: enumerated axes that change how a step is computed, but not its result.
    - ``fixed_axes``: axes that change the result; a certificate of equal work applies to one value of each.
    - ``is_default``: whether this is the task of documents without a task; true for one task.
    - ``is_neutral``: whether it is the task of programs about which only what somebody states is known.
    - ``unit_aliases``: other words, in the singular, that programs use for the first counter (``sample``).
    - ``recipe_axes``: further axes on which published recipes of this task differ.
    - ``model_word``: returns trainmark's name for a program's spelling of a model; None for an unknown family.
    - ``repository``: the framework-benchmark template's word for programs of this task (``clas``).
    - ``data_kind``: the folder of ``dataset/`` for its data; ``make`` are the settings for making a data set.
    - ``forms``: the forms of a data set on disk; a suite's ``path`` means the first.
    - ``equal_work``: loads the task's part of the check of equal work.
    """

    name: str
    en: str
    zh: str
    axes: type[TaskAxes]
    counters: tuple[str, ...]
    models: Mapping[str, Model] = field(default_factory=dict)
    labels: Mapping[str, AxisLabel] = field(default_factory=dict)
    repository: str | None = None
    is_default: bool = False
    is_neutral: bool = False
    unit_aliases: frozenset[str] = frozenset()
    recipe_axes: tuple[str, ...] = ()
    model_word: Callable[[str], str | None] | None = None
    data_kind: str | None = None
    make: type[Frozen] | None = None
    variant_axes: tuple[str, ...] = ()
    fixed_axes: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    equal_work: Callable[[], "EqualWork"] | None = None

    @property
    def unit(self) -> str:
        """The unit of the headline's throughput, such as ``samples/s``."""
        return f"{self.counters[0]}/s"


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
