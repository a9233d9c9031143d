"""The table of all results with its filters; from its rows, the page's script draws plots over chosen axes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainmark.report.blocks import Cell, Column, Span, cell
from trainmark.report.context import BATCH, DEVICES, FRAMEWORK, MODEL, PRECISION, Axes, Mark, axis_label
from trainmark.report.language import Catalogue, decimals, interval, number
from trainmark.report.sections.summary import trained
from trainmark.schema.results import CaseResult
from trainmark.site.entries import Entry

MACHINE, SUITE, DAY = "machine", "suite", "day"
"""The axes of a site besides those of cases."""

CARRIED = "↷"
MOST_CHOICES = 400
"""The largest number of values of an axis that a list offers."""


@dataclass(frozen=True, slots=True)
class AxisChoice:
    """An axis of the table: its name in addresses, its title, and its values in the order of lists and plots."""

    name: str
    title: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A result: the number of its value on each axis, the table's cells, and whether a newer one exists.

    ``throughput`` is the number as plots need it; None for a result without one.
    """

    values: tuple[int, ...]
    cells: tuple[Cell, ...]
    older: bool
    throughput: float | None


@dataclass(frozen=True, slots=True)
class Explorer:
    """The table and its axes; ``rows`` are newest first."""

    axes: tuple[AxisChoice, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def explorer(
    entries: Sequence[Entry], say: Catalogue, root: str = "", choices: Sequence[AxisChoice] | None = None
) -> Explorer:
    """Return the explorer of ``entries``, which are newest first.

    ``root`` is the relative address of the folder with ``results/``. ``choices`` are the axes if the table is only a
    part of all results, so that its lists offer the values of all.
    """
    results = [entry.result for entry in entries]
    axes = Axes.of(results)
    values = [_values(entry, axes) for entry in entries]
    every = dict.fromkeys((*_AXES_FIRST, *axes.aspects))
    names = [name for name in every if _varies(name, values)]
    if choices is None:
        choices = [
            AxisChoice(name, _title(name, results, say), ordered(one.get(name, "-") for one in values))
            for name in names
        ]
    places = {choice.name: {value: i for i, value in enumerate(choice.values)} for choice in choices}
    numbered = [
        tuple(places[choice.name].get(one.get(choice.name, "-"), -1) for choice in choices) for one in values
    ]
    rows = tuple(
        Row(numbers, _cells(entry, axes, say, root), entry.older, _throughput(entry))
        for entry, numbers in zip(entries, numbered, strict=True)
    )
    return Explorer(
        axes=tuple(choices),
        columns=columns(say),
        rows=rows,
        notes=tuple(_notes(entries, say)),
    )


def columns(say: Catalogue) -> tuple[Column, ...]:
    """Return the columns of the table."""
    return (
        Column(say("column_case"), numeric=False),
        Column(say("site_throughput")),
        Column(say("column_unit"), numeric=False),
        Column(say("column_runs")),
        Column(say("column_machine"), numeric=False),
        Column(say("column_suite"), numeric=False),
        Column(say("column_day"), numeric=False),
        Column(say("column_doubt"), numeric=False),
    )


_AXES_FIRST = (MODEL, FRAMEWORK, PRECISION, MACHINE, BATCH, DEVICES, SUITE, DAY)
"""The axes that most readers choose by come before all others."""


def _values(entry: Entry, axes: Axes) -> dict[str, str]:
    case = entry.result.case
    own = {aspect: axes.value(case, aspect) for aspect in axes.aspects} | {MODEL: trained(entry.result)}
    return {MACHINE: entry.machine or "-", **own, SUITE: entry.suite, DAY: f"{entry.at:%Y-%m-%d}"}


def _varies(name: str, values: Iterable[Mapping[str, str]]) -> bool:
    return len({one.get(name, "-") for one in values}) > 1


def _title(name: str, results: Sequence[CaseResult], say: Catalogue) -> str:
    if name in (MACHINE, SUITE, DAY):
        return say(f"column_{name}")
    if f"aspect_{name}" in say.sentences:
        return say(f"aspect_{name}")
    labels = (axis_label(found.case, name) for found in results)
    label = next((label for label in labels if label is not None), None)
    return str(getattr(label, say.language.value)) if label else name


def ordered(values: Iterable[str]) -> tuple[str, ...]:
    """Return the different values, numbers by size and before words."""
    return tuple(sorted(set(values), key=lambda value: (*_as_number(value), value))[:MOST_CHOICES])


def _as_number(value: str) -> tuple[int, float]:
    head = value.split(" ", 1)[0]
    try:
        return 0, float(head)
    except ValueError:
        return 1, 0.0


def _throughput(entry: Entry) -> float | None:
    estimate = entry.result.estimate
    return None if estimate is None else estimate.median


def _cells(entry: Entry, axes: Axes, say: Catalogue, root: str) -> tuple[Cell, ...]:
    result = entry.result
    href = f"{root}results/{entry.key}.html#{entry.anchor}"
    name = Cell((Span(axes.label(result.case), href=href),))
    doubts = cell(", ".join(entry.doubts) or "-")
    day = cell(f"{entry.at:%Y-%m-%d}")
    about = (cell(entry.machine or "-"), cell(entry.suite), day, doubts)
    if result.estimate is None:
        outcome = say.outcome(result.outcome)
        return (name, cell(outcome), cell("-"), cell(str(entry.runs)), *about)
    bounds = result.estimate.interval
    ends = (bounds.low, bounds.high) if bounds else ()
    digits = decimals([result.estimate.median, *ends])
    signs = (Mark.DOUBT.value if entry.doubtful else "") + (CARRIED if entry.carried else "")
    shown = cell(f"{number(result.estimate.median, digits)}{signs}", interval(bounds, digits))
    return (name, shown, cell(result.unit or "-"), cell(str(entry.runs)), *about)


def _notes(entries: Sequence[Entry], say: Catalogue) -> Iterable[str]:
    yield say("site_throughput_note")
    if any(entry.doubtful for entry in entries):
        yield f"{Mark.DOUBT.value} {say('mark_doubt')}"
    if any(entry.carried for entry in entries):
        yield f"{CARRIED} {say('carried_note')}"
