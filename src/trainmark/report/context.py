"""Context of every section: the axes that vary among the cases, findings, language, and the marks of numbers.

A table has one unit. Its rows are numbers of devices and its columns are precision x batch (or the frameworks, if there
are several), like the tables published in this field; every other varying axis makes separate tables. If all cases run
on the same number of devices, the other varying axes make the rows instead.

If each framework has its own single compiler (or another such axis), it is part of the framework's column and makes no
separate table: frameworks differ by nature in these axes and in those that their task declares.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from trainmark.errors import InputError
from trainmark.insight import judged
from trainmark.logs.events import read_events
from trainmark.measure.statistics import MIN_RUNS
from trainmark.report.blocks import Span
from trainmark.report.language import Catalogue, Language, catalogue
from trainmark.schema.case import UNKNOWN, Case, Option, axes_of
from trainmark.schema.names import EVENTS
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult, Findings, RatioFinding, Results, RunResult
from trainmark.suite import select_baselines
from trainmark.tasks import TASKS, AxisLabel, is_neutral

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
            # The program's name says more than axes that nothing states, and than the one device that is assumed.
            alone = DEVICES not in self.varying and (case.nodes, case.devices_per_node) == (1, 1)
            dropped = (WORKLOAD, DEVICES) if alone else (WORKLOAD,)
            stated = (a for a in shown if a not in dropped and self.value(case, a) != UNKNOWN)
            shown = [*([] if WORKLOAD in without else [WORKLOAD]), *stated]
        words = {BATCH: f"b{case.batch_per_device}", DEVICES: case.topology}
        return " ".join(word for a in shown if (word := words.get(a, self._short(case, a))) != NOTHING)

    def of_framework(self) -> tuple[Aspect, ...]:
        """Return the aspects that vary among the frameworks but have one value within each."""
        if FRAMEWORK not in self.varying:
            return ()
        variants = {axis for c in self.cases for axis in TASKS[c.case.task].variant_axes}
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
        unit = found.unit or next(likely, None) or TASKS[found.case.task].unit
        groups.setdefault(unit, []).append(found)
    return groups


def _kinds(case: Case) -> tuple[tuple[str, ...], ...]:
    """Return keys of cases that are likely to share a unit, the most reliable first."""
    return (case.workload, case.framework, case.model), (case.task, case.model), (case.task,)


def axis_label(case: Case, aspect: Aspect) -> AxisLabel | None:
    """Return how the case's task writes one of its own axes; None for common axes and other tasks' axes."""
    if aspect in COMMON or aspect not in case.axes:
        return None
    return TASKS[case.task].labels.get(aspect) or AxisLabel(aspect, aspect)


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


MOST_DRAWN = 12
"""The number of cases that are drawn; the series of the others are in their ``events.jsonl``."""


@dataclass(frozen=True, slots=True)
class StepSeries:
    """A run's steps in order: their times (s, NaN if unknown), and which of them were in the measured window."""

    repeat: int
    times_s: NDArray[np.float64]
    measured: NDArray[np.bool_]


def read_series(results: Results, directory: Path) -> dict[str, tuple[StepSeries, ...]]:
    """Return the series of the first measured cases, by case id."""
    measured = [case for case in results.cases if case.estimate is not None][:MOST_DRAWN]
    return {case.id: tuple(_series(case, directory)) for case in measured}


def _series(case: CaseResult, directory: Path) -> Sequence[StepSeries]:
    found = []
    for run in case.runs:
        if run.measurement is None:
            continue
        events = read_events(directory / run.directory / EVENTS)
        if events.measured.any():
            found.append(StepSeries(run.repeat, events.step_times_s, events.measured))
    return found


@dataclass(frozen=True, slots=True)
class UnitPart:
    """The cases of one unit, which can share a table or chart. ``alone``: the results have no other unit."""

    unit: str
    axes: Axes
    alone: bool

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        """The part's cases."""
        return self.axes.cases

    def name(self, chart: str) -> str:
        """Return a chart's name, which is its file's: with the unit if there are several."""
        return chart if self.alone else f"{chart}-{re.sub(r'[^a-z0-9]+', '-', self.unit.lower()).strip('-')}"


@dataclass(frozen=True, slots=True)
class Context:
    """Context of a report: ``findings`` of ``results``, and ``doubted``, the ids of cases with a doubtful number.

    ``parts`` are the cases by unit. ``series`` are the step times of the runs that are drawn, by case id. ``base`` is
    the relative path from the report's folder to the results' folder: empty, or ending in ``/``. ``baselines`` are the
    ids of the cases with which others are compared on the first screen, at most one per model and unit.
    """

    results: Results
    findings: Findings
    doubted: frozenset[str]
    directory: Path
    say: Catalogue
    axes: Axes
    parts: tuple[UnitPart, ...]
    series: Mapping[str, Sequence[StepSeries]] = field(default_factory=dict)
    base: str = ""
    baselines: frozenset[str] = frozenset()

    def aspect(self, name: Aspect) -> str:
        """Return the word for an aspect; the words for a task's own axes come from the task."""
        if name in COMMON:
            return self.say(f"aspect_{name}")
        labels = (axis_label(found.case, name) for found in self.results.cases)
        label = next((label for label in labels if label is not None), None)
        return getattr(label, self.say.language.value) if label else name

    def units(self) -> list[str]:
        """Return the units of the measured throughputs, usually one."""
        return list(dict.fromkeys(case.unit for case in self.results.cases if case.unit))

    def link(self, path: str, text: str) -> tuple[Span, ...]:
        """Return a link to a file of the results' folder, or plain text if the file does not exist."""
        if not (self.directory / path).is_file():
            return (Span(text),)
        return (Span(text, href=quote(self.base + path)),)

    def log(self, run: RunResult, text: str) -> tuple[Span, ...]:
        """Return a link to the log of a run."""
        return self.link(f"{run.directory}/train.log", text)

    def runs(self) -> list[tuple[CaseResult, RunResult]]:
        """Return every run, with its case."""
        return [(case, run) for case in self.results.cases for run in case.runs]


def context(
    results: Results,
    directory: Path,
    language: Language,
    base: str = "",
    series: Mapping[str, Sequence[StepSeries]] | None = None,
    baseline: str | None = None,
) -> Context:
    """Return the context of a report in ``language``; see ``Context``.

    ``baseline`` selects the baselines, like ``--only``; None: the suite's choice. Raises ``InputError`` if it selects
    nothing, several cases of a model, or a case without a number.
    """
    results = judged(results)
    assert results.findings is not None
    groups = by_unit(results.cases)
    return Context(
        results=results,
        findings=results.findings,
        doubted=frozenset(results.findings.doubtful),
        directory=directory,
        say=catalogue(language),
        axes=Axes.of(results.cases),
        parts=tuple(UnitPart(unit, Axes.of(cases), len(groups) == 1) for unit, cases in groups.items()),
        series=series or {},
        base=base,
        baselines=_baselines(results, baseline),
    )


def _baselines(results: Results, baseline: str | None) -> frozenset[str]:
    expression = results.baseline if baseline is None else baseline
    if expression is None:
        return frozenset()
    by_id = {result.id: result for result in results.cases}
    cases = [result.case for result in results.cases]
    chosen = [by_id[case.id] for case in select_baselines(cases, expression, "--baseline")]
    if baseline is not None:
        for result in chosen:
            if result.estimate is None:
                raise InputError(
                    f"--baseline {expression!r}: {result.id} has no number ({result.outcome.label})"
                )
    return frozenset(result.id for result in chosen)


class Mark(StrEnum):
    """A sign behind a number, in the order of writing; the name is the footnote's key."""

    DOUBT = "†"
    SOME_RUNS_NOT_OK = "‡"
    SETTLED_SEPARATELY = "§"


def marks(context: Context, result: CaseResult) -> tuple[Mark, ...]:
    """Return the signs of a case that has a number."""
    found = []
    if result.id in context.doubted:
        found.append(Mark.DOUBT)
    if any(run.outcome is not Outcome.OK for run in result.runs):
        found.append(Mark.SOME_RUNS_NOT_OK)
    return tuple(found)


def marks_of_ratio(found: RatioFinding) -> tuple[Mark, ...]:
    """Return the signs of a ratio: if either side is in doubt, so is the ratio."""
    signs = ((Mark.DOUBT, found.doubtful), (Mark.SETTLED_SEPARATELY, found.settled_apart))
    return tuple(mark for mark, why in signs if why)


def shown(result: CaseResult, say: Catalogue) -> str | None:
    """Return the text for a ``result`` without a number: its outcome, or ``-`` if it has no run."""
    if result.estimate is not None:
        return None
    return say.outcome(result.outcome) if result.runs else "-"


def footnotes(
    context: Context, results: list[CaseResult], blanks: bool, ratios: Iterable[RatioFinding] = ()
) -> list[str]:
    """Return the footnotes that a table of ``results`` and ``ratios`` needs.

    ``blanks`` is true if it has cells without a case.
    """
    say, notes = context.say, []
    numbers = [result for result in results if result.estimate is not None]
    notes += _intervals(context, numbers)
    notes += of_marks(context, numbers, ratios)
    if blanks or any(not result.runs for result in results):
        notes.append(say("blank_cell"))
    return notes


def of_marks(
    context: Context, numbers: Iterable[CaseResult], ratios: Iterable[RatioFinding] = ()
) -> list[str]:
    """Return the footnotes of the signs behind these numbers."""
    ratios = list(ratios)
    signs = {mark for result in numbers for mark in marks(context, result)}
    signs |= {mark for found in ratios for mark in marks_of_ratio(found)}
    separate = dict.fromkeys(
        context.say(
            "settled_apart",
            axis=context.aspect(BATCH if one.axis == "batch_per_device" else one.axis),
            value=one.value,
            against=one.against,
        )
        for found in ratios
        for one in found.settled_apart
    )
    what = context.say("semicolon").join(separate)
    return [
        f"{mark.value} {context.say(f'mark_{mark.name.lower()}', what=what)}"
        for mark in Mark
        if mark in signs
    ]


def _intervals(context: Context, numbers: list[CaseResult]) -> list[str]:
    """Return the reasons why numbers have no interval."""
    say, notes = context.say, []
    estimates = [result.estimate for result in numbers if result.estimate]
    without = [found for found in estimates if found.interval is None]
    few = [found for found in without if found.n < MIN_RUNS]
    if few:
        notes.append(
            say("no_interval_any" if len(few) == len(numbers) else "no_interval_some", least=MIN_RUNS)
        )
    reasons = dict.fromkeys(found.no_interval for found in without if found.n >= MIN_RUNS)
    notes += [say(f"no_interval_{reason.value.replace('-', '_')}") for reason in reasons if reason]
    return notes
