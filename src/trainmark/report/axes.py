"""Axes that vary among a suite's cases, and the arrangement of tables that follows from them.

A table has one unit. Its rows are numbers of devices and its columns are precision x batch (or the frameworks, if there
are several), like the tables published in this field; every other varying axis makes separate tables. If all cases run
on the same number of devices, the other varying axes make the rows instead.

If each framework has its own single compiler (or another such axis), it is part of the framework's column and makes no
separate table: frameworks differ by nature in these axes and in those that their task declares.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainmark.schema.case import UNKNOWN, Case, Option, axes_of
from trainmark.schema.results import CaseResult
from trainmark.schema.task_catalogue import is_neutral
from trainmark.tasks import AxisLabel, task_of

Aspect = str
"""One way in which cases can differ: an axis, except that ``data`` includes the loader and ``devices`` the nodes."""

WORKLOAD, FRAMEWORK, MODEL, DATA, COMPILER = "workload", "framework", "model", "data", "compiler"
DEVICE, OPTIONS, PRECISION, BATCH, DEVICES = "device", "options", "precision", "batch", "devices"
WHERE = "where"

COMMON = (WORKLOAD, FRAMEWORK, MODEL, DATA, COMPILER, DEVICE, OPTIONS, WHERE, PRECISION, BATCH, DEVICES)
"""The aspects that every case has; those of its task come after the model."""

Key = tuple[str, ...]

NO_COMPILER = "none"

MOST_COLUMNS = 6
"""The largest number of columns of a table with several workloads; if there are more, each workload has a table."""

NOTHING = "-"
"""The word for a case that has no value under an aspect: no options, or another task's axis."""


@dataclass(frozen=True, slots=True)
class Grid:
    """One table: the aspects that it is for, those of its rows and columns, and the case in each cell."""

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
        """Find the aspects that vary among ``cases``."""
        several = len({c.case.loader for c in cases if c.case.reads_data_set}) > 1
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
        """Return the aspects that are equal for all cases, with their values."""
        if not self.cases:
            return {}
        return {a: self.value(self.cases[0].case, a) for a in self.aspects if a not in self.varying}

    def label(self, case: Case, without: Iterable[Aspect] = ()) -> str:
        """Return a short name of ``case``: its varying aspects, and always precision, batch and devices.

        An axis that all cases of its tasks have in common follows from the model, and is left out.
        """
        always = (PRECISION, BATCH, DEVICES)
        without = {*without, *(aspect for aspect in self.varying if self._follows_model(aspect))}
        shown = [a for a in self.aspects if (a in self.varying or a in always) and a not in without]
        if is_neutral(case.task):
            # The program's name says more than axes that nothing states.
            stated = (a for a in shown if a != WORKLOAD and self.value(case, a) != UNKNOWN)
            shown = [*([] if WORKLOAD in without else [WORKLOAD]), *stated]
        words = {BATCH: f"b{case.batch_per_device}", DEVICES: case.topology}
        return " ".join(word for a in shown if (word := words.get(a, self._short(case, a))) != NOTHING)

    def of_framework(self) -> tuple[Aspect, ...]:
        """Return the aspects that vary among the frameworks but have one value within each."""
        if FRAMEWORK not in self.varying:
            return ()
        variants = {axis for c in self.cases for axis in task_of(c.case).variant_axes}
        own = {WORKLOAD, *variants, COMPILER, OPTIONS}
        return tuple(a for a in self.varying if a in own and self._follows_framework(a))

    def framework(self, case: Case) -> str:
        """Return a framework's name with its own aspects, as in a column's title: ``tensorflow (graph)``."""
        own = [word for word in self.key(case, self.of_framework()) if word not in (NOTHING, NO_COMPILER)]
        return f"{case.framework} ({', '.join(own)})" if own else case.framework

    def _follows_model(self, aspect: Aspect) -> bool:
        """Return whether an axis of a task varies only because cases of other tasks lack it."""
        values = {self.value(found.case, aspect) for found in self.cases}
        return aspect not in COMMON and len(values - {NOTHING}) == 1

    def _follows_framework(self, aspect: Aspect) -> bool:
        pairs = {(c.case.framework, self.value(c.case, aspect)) for c in self.cases}
        return len(pairs) == len({framework for framework, _ in pairs})

    def _short(self, case: Case, aspect: Aspect) -> str:
        label = axis_label(case, aspect)
        return self.value(case, aspect) if label is None else label.short.format(case.value(aspect))

    def grids(self) -> list[Grid]:
        """Return tables that together show every case once, in the order of the suite; all cases have one unit."""
        across = (FRAMEWORK,) if FRAMEWORK in self.varying else (PRECISION, BATCH)
        separate_from = (*across, *self.of_framework(), DEVICES)
        rest = tuple(a for a in self.varying if a not in separate_from)
        scaled = DEVICES in self.varying
        columns = {self.key(c.case, across) for c in self.cases}
        trained = tuple(a for a in rest if a in (WORKLOAD, MODEL)) if len(columns) > MOST_COLUMNS else ()
        separate = rest if scaled else trained
        down = tuple(a for a in rest if a not in separate) or (DEVICES,)
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

    A case without a number gets the unit of other cases of the same program and model, else of its model, else of its
    task, else the unit that its task declares.
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
    """Return keys of cases that are likely to share a unit, the most reliable first."""
    return (case.workload, case.framework, case.model), (case.task, case.model), (case.task,)


def axis_label(case: Case, aspect: Aspect) -> AxisLabel | None:
    """Return how the case's task writes one of its own axes; None for common axes and other tasks' axes."""
    if aspect in COMMON or aspect not in case.axes:
        return None
    return task_of(case).labels.get(aspect) or AxisLabel(aspect, aspect)


def _word(option: Option) -> str:
    """Return an option's value; text that looks like a number or a truth value is quoted, to tell it from one."""
    return f"'{option}'" if isinstance(option, str) and _LIKE_ANOTHER.fullmatch(option) else str(option)


_LIKE_ANOTHER = re.compile(
    r"True|False|[-+]?(\d[\d_]*\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(nan|inf)|.*[,=].*", re.IGNORECASE
)


def _value(case: Case, aspect: Aspect, several_loaders: bool) -> str:
    match aspect:
        case "data":
            return f"{case.data} ({case.loader})" if several_loaders and case.reads_data_set else case.data
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
