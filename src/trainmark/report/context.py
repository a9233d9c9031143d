"""Context of every section: results, findings, language, varying axes, and the marks of numbers."""

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
from trainmark.report.axes import BATCH, COMMON, Aspect, Axes, axis_label, by_unit
from trainmark.report.blocks import Span
from trainmark.report.language import Catalogue, Language, catalogue
from trainmark.schema.findings import Findings, RatioFinding
from trainmark.schema.names import EVENTS
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult, Results, RunResult
from trainmark.suite import select_baselines

MOST_CASES = 12
"""The number of cases that are drawn; the series of the others are in their ``events.jsonl``."""


@dataclass(frozen=True, slots=True)
class StepSeries:
    """A run's steps in order: their times (s, NaN if unknown), and which of them were in the measured window."""

    repeat: int
    times_s: NDArray[np.float64]
    measured: NDArray[np.bool_]


def read_series(results: Results, directory: Path) -> dict[str, tuple[StepSeries, ...]]:
    """Return the series of the first measured cases, by case id."""
    measured = [case for case in results.cases if case.estimate is not None][:MOST_CASES]
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
