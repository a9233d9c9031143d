"""What varies among a suite's cases, and how the cases are laid out in tables because of it.

A table has devices down its side and precision x batch (or, where there are several, the frameworks) across
its top, as published tables of this field have; whatever else varies makes a table of its own. Where all
cases run on equally many devices, what else varies stands down the side instead.

Where each framework has one layout, compiler or the like of its own, that belongs to its column and makes no table:
frameworks differ in these by nature.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from trainmark.store import CaseResult
from trainmark.suite import MAX_BATCH, Case


class Aspect(StrEnum):
    """One way in which cases can differ. ``data`` holds the loader too, ``devices`` the nodes."""

    WORKLOAD = "workload"
    FRAMEWORK = "framework"
    MODEL = "model"
    IMAGE_SIZE = "image_size"
    DATA = "data"
    LAYOUT = "layout"
    COMPILER = "compiler"
    DEVICE = "device"
    OPTIONS = "options"
    PRECISION = "precision"
    BATCH = "batch"
    DEVICES = "devices"


Key = tuple[str, ...]

OF_FRAMEWORK = (Aspect.WORKLOAD, Aspect.LAYOUT, Aspect.COMPILER, Aspect.OPTIONS)
"""In what a framework can be of one kind: when it is, its name says it."""

NO_COMPILER = "none"

NOTHING = "-"
"""The word of a case that has nothing under an aspect: no options."""


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
    """The cases' aspects, in three groups that matter to a table."""

    cases: tuple[CaseResult, ...]
    varying: tuple[Aspect, ...]
    several_loaders: bool

    @classmethod
    def of(cls, cases: Sequence[CaseResult]) -> "Axes":
        """Find what varies among ``cases``."""
        several = len({c.case.loader for c in cases if c.case.data != "synthetic"}) > 1
        varying = tuple(a for a in Aspect if len({_value(c.case, a, several) for c in cases}) > 1)
        return cls(tuple(cases), varying, several)

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
        return {a: self.value(self.cases[0].case, a) for a in Aspect if a not in self.varying}

    def label(self, case: Case, without: Iterable[Aspect] = ()) -> str:
        """Return a short name of ``case``: what varies, and always its precision, batch and devices."""
        always = (Aspect.PRECISION, Aspect.BATCH, Aspect.DEVICES)
        shown = [a for a in Aspect if (a in self.varying or a in always) and a not in set(without)]
        words = {
            Aspect.BATCH: f"b{case.batch_per_device}",
            Aspect.IMAGE_SIZE: self.value(case, Aspect.IMAGE_SIZE).replace(" ", ""),
            Aspect.DEVICES: case.topology,
        }
        return " ".join(word for a in shown if (word := words.get(a, self.value(case, a))) != NOTHING)

    def of_framework(self) -> tuple[Aspect, ...]:
        """Return what varies among the frameworks, but has one value within each."""
        if Aspect.FRAMEWORK not in self.varying:
            return ()
        return tuple(
            aspect for aspect in OF_FRAMEWORK if aspect in self.varying and self._follows_framework(aspect)
        )

    def framework(self, case: Case) -> str:
        """Return a framework's name with what is its own, as a column's title has it: ``tensorflow (nhwc)``."""
        own = [word for word in self.key(case, self.of_framework()) if word not in (NOTHING, NO_COMPILER)]
        return f"{case.framework} ({', '.join(own)})" if own else case.framework

    def _follows_framework(self, aspect: Aspect) -> bool:
        pairs = {(c.case.framework, self.value(c.case, aspect)) for c in self.cases}
        return len(pairs) == len({framework for framework, _ in pairs})

    def grids(self) -> list[Grid]:
        """Return the tables that show every case once, in the order of the suite."""
        across = (Aspect.FRAMEWORK,) if Aspect.FRAMEWORK in self.varying else (Aspect.PRECISION, Aspect.BATCH)
        apart_from = (*across, *self.of_framework(), Aspect.DEVICES)
        rest = tuple(a for a in self.varying if a not in apart_from)
        scaled = Aspect.DEVICES in self.varying
        apart = rest if scaled else ()
        down = (Aspect.DEVICES,) if scaled or not rest else rest
        groups: dict[Key, list[CaseResult]] = {}
        for case in self.cases:
            groups.setdefault(self.key(case.case, apart), []).append(case)
        return [
            Grid(
                of=dict(zip(apart, key, strict=True)),
                row_aspects=down,
                column_aspects=across,
                rows=self._rows(cases, down),
                columns=tuple(dict.fromkeys(self.key(c.case, across) for c in cases)),
                cells={(self.key(c.case, down), self.key(c.case, across)): c for c in cases},
            )
            for key, cases in groups.items()
        ]

    def _rows(self, cases: Sequence[CaseResult], down: tuple[Aspect, ...]) -> tuple[Key, ...]:
        if down == (Aspect.DEVICES,):
            cases = sorted(cases, key=lambda c: (c.case.world_size, c.case.nodes))
        return tuple(dict.fromkeys(self.key(c.case, down) for c in cases))


def actual_batch(result: CaseResult) -> int | None:
    """Return the batch per device that ``max`` became, if a run says it."""
    if result.case.batch_per_device != MAX_BATCH:
        return None
    found = (run.parameters.get("batch_per_device") for run in result.runs if run.measurement)
    return next((batch for batch in found if isinstance(batch, int)), None)


def _value(case: Case, aspect: Aspect, several_loaders: bool) -> str:
    match aspect:
        case Aspect.DATA:
            return (
                f"{case.data} ({case.loader})" if several_loaders and case.data != "synthetic" else case.data
            )
        case Aspect.DEVICES:
            return str(case.world_size) if case.nodes == 1 else f"{case.world_size} ({case.topology})"
        case Aspect.IMAGE_SIZE:
            return f"{case.value('image_size')} px" if "image_size" in case.axes else NOTHING
        case Aspect.BATCH:
            return str(case.batch_per_device)
        case Aspect.OPTIONS:
            return ", ".join(f"{name}={value}" for name, value in sorted(case.options.items())) or NOTHING
        case _:
            return str(case.value(aspect.value)) if aspect.value in case.axes else NOTHING
