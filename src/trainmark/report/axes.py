"""Axes that vary among a suite's cases, and the arrangement of tables that follows from them.

A table has one unit. It has devices down its side and precision x batch (or, where there are several, the frameworks)
across its top, as published tables of this field have; whatever else varies makes a table of its own. Where all
cases run on equally many devices, what else varies stands down the side instead.

Where each framework has one compiler or the like of its own, that belongs to its column and makes no table: frameworks
differ in these by nature, and in what their task says.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainmark.schema.case import SYNTHETIC, Case, Option, axes_of
from trainmark.schema.results import CaseResult
from trainmark.tasks import AxisLabel, task_of

Aspect = str
"""One way in which cases can differ: an axis, but that ``data`` holds the loader too, and ``devices`` the nodes."""

WORKLOAD, FRAMEWORK, MODEL, DATA, COMPILER = "workload", "framework", "model", "data", "compiler"
DEVICE, OPTIONS, PRECISION, BATCH, DEVICES = "device", "options", "precision", "batch", "devices"
WHERE = "where"

COMMON = (WORKLOAD, FRAMEWORK, MODEL, DATA, COMPILER, DEVICE, OPTIONS, WHERE, PRECISION, BATCH, DEVICES)
"""The aspects that every case has; those of its task come after the model."""

Key = tuple[str, ...]

NO_COMPILER = "none"

NOTHING = "-"
"""The word of a case that has nothing under an aspect: no options, or another task's axis."""


@dataclass(frozen=True, slots=True)
class Grid:
    """One table: the aspects it is for, those of its rows and columns, and the case in each cell."""

    of: Mapping[Aspect, str]
    row_aspects: tuple[Aspect, ...]
    column_aspects: tuple[Aspect, ...]
    rows: tuple[Key, ...]
    columns: tuple[Key, ...]
    cells: Mapping[tuple[Key, Key], CaseResult]


@dataclass(frozen=True, slots=True)
class Axes:
    """The cases' aspects: all of them, and those that vary."""

    cases: tuple[CaseResult, ...]
    aspects: tuple[Aspect, ...]
    varying: tuple[Aspect, ...]
    several_loaders: bool

    @classmethod
    def of(cls, cases: Sequence[CaseResult]) -> "Axes":
        """Find what varies among ``cases``."""
        several = len({c.case.loader for c in cases if c.case.data != SYNTHETIC}) > 1
        tasks = tuple(dict.fromkeys(c.case.task for c in cases))
        own = tuple(axis for axis in axes_of(*tasks) if axis not in Case.model_fields) if tasks else ()
        aspects = (WORKLOAD, FRAMEWORK, MODEL, *own, *COMMON[3:])
        varying = tuple(a for a in aspects if len({_value(c.case, a, several) for c in cases}) > 1)
        return cls(tuple(cases), aspects, varying, several)

    def value(self, case: Case, aspect: Aspect) -> str:
        """Return the word that a table shows for ``case`` under ``aspect``."""
        return _value(case, aspect, self.several_loaders)

    def key(self, case: Case, aspects: Iterable[Aspect]) -> Key:
        """Return the words of several aspects."""
        return tuple(self.value(case, aspect) for aspect in aspects)

    def constant(self) -> dict[Aspect, str]:
        """Return what is the same for all cases."""
        if not self.cases:
            return {}
        return {a: self.value(self.cases[0].case, a) for a in self.aspects if a not in self.varying}

    def label(self, case: Case, without: Iterable[Aspect] = ()) -> str:
        """Return a short name of ``case``: what varies, and always its precision, batch and devices."""
        always = (PRECISION, BATCH, DEVICES)
        shown = [a for a in self.aspects if (a in self.varying or a in always) and a not in set(without)]
        words = {BATCH: f"b{case.batch_per_device}", DEVICES: case.topology}
        return " ".join(word for a in shown if (word := words.get(a, self._short(case, a))) != NOTHING)

    def of_framework(self) -> tuple[Aspect, ...]:
        """Return what varies among the frameworks, but has one value within each."""
        if FRAMEWORK not in self.varying:
            return ()
        variants = {axis for c in self.cases for axis in task_of(c.case).variant_axes}
        own = {WORKLOAD, *variants, COMPILER, OPTIONS}
        return tuple(a for a in self.varying if a in own and self._follows_framework(a))

    def framework(self, case: Case) -> str:
        """Return a framework's name with what is its own, as a column's title has it: ``tensorflow (graph)``."""
        own = [word for word in self.key(case, self.of_framework()) if word not in (NOTHING, NO_COMPILER)]
        return f"{case.framework} ({', '.join(own)})" if own else case.framework

    def _follows_framework(self, aspect: Aspect) -> bool:
        pairs = {(c.case.framework, self.value(c.case, aspect)) for c in self.cases}
        return len(pairs) == len({framework for framework, _ in pairs})

    def _short(self, case: Case, aspect: Aspect) -> str:
        label = axis_label(case, aspect)
        return self.value(case, aspect) if label is None else label.short.format(case.value(aspect))

    def grids(self) -> list[Grid]:
        """Return the tables that show every case once, in the order of the suite; all cases count in one unit."""
        across = (FRAMEWORK,) if FRAMEWORK in self.varying else (PRECISION, BATCH)
        separate_from = (*across, *self.of_framework(), DEVICES)
        rest = tuple(a for a in self.varying if a not in separate_from)
        scaled = DEVICES in self.varying
        separate = rest if scaled else ()
        down = (DEVICES,) if scaled or not rest else rest
        groups: dict[Key, list[CaseResult]] = {}
        for case in self.cases:
            groups.setdefault(self.key(case.case, separate), []).append(case)
        return [
            Grid(
                of=dict(zip(separate, key, strict=True)),
                row_aspects=down,
                column_aspects=across,
                rows=self._rows(cases, down),
                columns=tuple(dict.fromkeys(self.key(c.case, across) for c in cases)),
                cells={(self.key(c.case, down), self.key(c.case, across)): c for c in cases},
            )
            for key, cases in groups.items()
        ]

    def _rows(self, cases: Sequence[CaseResult], down: tuple[Aspect, ...]) -> tuple[Key, ...]:
        if down == (DEVICES,):
            cases = sorted(cases, key=lambda c: (c.case.world_size, c.case.nodes))
        return tuple(dict.fromkeys(self.key(c.case, down) for c in cases))


def by_unit(cases: Sequence[CaseResult]) -> dict[str, list[CaseResult]]:
    """Return the cases by the unit of their throughput.

    A case without a number counts in that of the same program's other cases of its model, else of its model's, else of
    its task's, else in the unit that its task declares.
    """
    known: dict[tuple[str, ...], str] = {}
    for found in cases:
        for key in _kinds(found.case) if found.unit else ():
            known.setdefault(key, found.unit or "")
    groups: dict[str, list[CaseResult]] = {}
    for found in cases:
        likely = (known[key] for key in _kinds(found.case) if key in known)
        unit = found.unit or next(likely, None) or task_of(found.case).unit
        groups.setdefault(unit, []).append(found)
    return groups


def _kinds(case: Case) -> tuple[tuple[str, ...], ...]:
    """Return what cases of one unit have in common, the surest first."""
    return (case.workload, case.framework, case.model), (case.task, case.model), (case.task,)


def axis_label(case: Case, aspect: Aspect) -> AxisLabel | None:
    """Return how the case's task writes one of its own axes; None for what every case has, and for other tasks'."""
    if aspect in COMMON or aspect not in case.axes:
        return None
    return task_of(case).labels.get(aspect) or AxisLabel(aspect, aspect)


def _word(option: Option) -> str:
    """Return an option's value; a text that is written as a number or a truth is quoted, for it is another value."""
    return f"'{option}'" if isinstance(option, str) and _LIKE_ANOTHER.fullmatch(option) else str(option)


_LIKE_ANOTHER = re.compile(
    r"True|False|[-+]?(\d[\d_]*\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(nan|inf)|.*[,=].*", re.IGNORECASE
)


def _value(case: Case, aspect: Aspect, several_loaders: bool) -> str:
    match aspect:
        case "data":
            return f"{case.data} ({case.loader})" if several_loaders and case.data != SYNTHETIC else case.data
        case "devices":
            return str(case.world_size) if case.nodes == 1 else f"{case.world_size} ({case.topology})"
        case "batch":
            return str(case.batch_per_device)
        case "where":
            return case.where or NOTHING
        case "options":
            return (
                ", ".join(f"{name}={_word(value)}" for name, value in sorted(case.options.items())) or NOTHING
            )
        case _ if aspect not in case.axes:
            return NOTHING
        case _:
            label = axis_label(case, aspect)
            return (label.value if label else "{}").format(case.value(aspect))
