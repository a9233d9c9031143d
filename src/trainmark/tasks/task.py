"""What a task is: its axes, its models, and what a step's work is counted in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainmark.schema.frozen import Frozen
from trainmark.schema.task_catalogue import TaskAxes

if TYPE_CHECKING:
    from trainmark.tasks.equal_work import EqualWork


@dataclass(frozen=True, slots=True)
class Model:
    """A model under the names that others publish it by; trainmark's own name is its key in the task.

    ``short`` is DLPerf's word in the names of logs, ``published`` that of the framework-benchmark template. ``axes``
    are the values that the model has on axes of its task where the task's own default is not its own.
    """

    short: str
    published: str
    axes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AxisLabel:
    """How a report writes an axis of the task: its name in English and Chinese, and how a value is said.

    ``{}`` in ``value`` and ``short`` is the value: of a table's cell, and of a case's short label.
    """

    en: str
    zh: str
    value: str = "{}"
    short: str = "{}"


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of training whose cases have axes of their own and whose work is counted in units of its own.

    A step's work is an amount of each of ``counters``; the first of them is the headline, which a throughput is told
    in. ``ways`` are the axes, with enumerated values, that change how a step is computed and not what it computes;
    ``rules`` those that change what it computes: a certificate of equal work is about one value of each.
    ``repository`` is the word of the framework-benchmark template for programs of this task (``clas``). ``is_default``
    is true of the one task that documents mean which name none. ``loose_units`` are other words, in the singular,
    that programs use for what the headline counts (``sample``). ``recipe_axes`` are ways in which published recipes
    of this task differ, beside its axes. ``model_word`` returns trainmark's word for a model as a program spells it,
    or None for a name of no family that the task knows. ``data_kind`` is the folder of ``dataset/`` for its data,
    ``make`` the values by which a data set can be made, ``forms`` those in which it can lie, the first of them by the
    ``path`` of a suite. ``equal_work`` loads the task's part of the check of equal work.
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
    loose_units: frozenset[str] = frozenset()
    recipe_axes: tuple[str, ...] = ()
    model_word: Callable[[str], str | None] | None = None
    data_kind: str | None = None
    make: type[Frozen] | None = None
    ways: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    equal_work: Callable[[], "EqualWork"] | None = None

    @property
    def unit(self) -> str:
        """The unit of the headline's throughput, such as ``samples/s``."""
        return f"{self.counters[0]}/s"
