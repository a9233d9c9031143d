"""The declaration of a task: its axes, models, units of work and names in reports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from trainmark.schema.frozen import Frozen

if TYPE_CHECKING:
    from trainmark.tasks.equal_work import EqualWork


class TaskAxes(Frozen):
    """The axes that only the cases of one task have; each task declares a subclass.

    ``recipe_names`` maps an axis to the name that published recipes and other programs use for it.
    """

    recipe_names: ClassVar[Mapping[str, str]] = {}

    def id_words(self, compiler: str) -> tuple[str, ...]:
        """Return these axes as words of a case's id, with the compiler's among them."""
        return (compiler, *(f"{name}{value}" for name, value in self.model_dump(mode="json").items()))


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
