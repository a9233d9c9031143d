"""Measured scales of one configuration, from results or from published figures."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import median, stdev

from trainmark.measure.statistics import spread_of
from trainmark.reference import Reference
from trainmark.schema.case import UNKNOWN
from trainmark.schema.names import STEPS_UNIT
from trainmark.schema.prediction import Limit, Term
from trainmark.schema.recipe import RecipeAxis
from trainmark.schema.results import Bound, CaseResult, Results, RunResult, pooled

_ASSUMED_PER_NODE = 8
"""The devices of a host, if a publisher does not state them: that of most hosts with accelerators."""
_DIFFERENT_FIGURES = 1.02
_SCALE_AXES = frozenset({"nodes", "devices_per_node", "batch_per_device", "where"})
_SCALE_RECIPE = frozenset(
    {
        RecipeAxis.GLOBAL_BATCH.value,
        RecipeAxis.ACCUMULATION_STEPS.value,
        RecipeAxis.MICRO_BATCH.value,
        RecipeAxis.DISTRIBUTION.value,
        RecipeAxis.WORKERS.value,
        RecipeAxis.AFFINITY.value,
    }
)
"""What changes with the scale without making it another configuration."""


_SAME_STEPS = (
    "a step has the same work at every scale, because only steps are counted (--work-per-step states it)"
)

_Key = tuple[str | None, tuple[tuple[str, str], ...]]
"""The unit and the axes of a configuration of results."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A measured scale: ``rate`` of all devices, ``batch`` of one device, ``spread`` of the runs' logarithms."""

    devices: int
    nodes: int
    batch: float | None
    rate: float
    spread: float | None = None
    runs: int = 1
    evidence: tuple[Term, ...] = ()

    @property
    def time(self) -> float:
        """The device-seconds that a unit of work takes."""
        return self.devices / self.rate


@dataclass(frozen=True, slots=True)
class ScaleSeries:
    """One configuration at several scales and batches, in the order of devices and batches.

    With ``hosts_assumed`` the source does not state the devices of a host.
    """

    name: str
    unit: str
    devices_per_node: int
    scales: tuple[Scale, ...]
    assumptions: tuple[str, ...] = ()
    hosts_assumed: bool = False

    def nodes(self, devices: int) -> int:
        """Return the hosts that so many devices need."""
        return -(-devices // self.devices_per_node)

    def at_batch(self, batch: float | None) -> tuple[Scale, ...]:
        """Return the scales that have this batch a device."""
        return tuple(scale for scale in self.scales if same_batch(scale.batch, batch))

    @property
    def batches(self) -> tuple[float | None, ...]:
        """The measured batches a device, ascending; None is one that is not stated."""
        return tuple(sorted({scale.batch for scale in self.scales}, key=lambda batch: batch or 0.0))


def same_batch(one: float | None, other: float | None) -> bool:
    """Return whether two batches a device are equal up to rounding."""
    return one == other if one is None or other is None else math.isclose(one, other, rel_tol=0.02)


def series_from_results(results: Results) -> list[ScaleSeries]:
    """Return the configurations of the results that have a number at two scales or more."""
    groups: dict[_Key, list[tuple[CaseResult, Scale]]] = {}
    for result in results.cases:
        if result.estimate is None:
            continue
        case = result.settled
        axes = tuple((axis, case.texts[axis]) for axis in case.axes if axis not in _SCALE_AXES)
        groups.setdefault((result.unit, axes), []).append((result, _scale_of(result)))
    groups_found = {
        key: members for key, members in groups.items() if len({scale.devices for _, scale in members}) > 1
    }
    different = _different_axes(groups_found)
    return [
        ScaleSeries(
            name=_series_name(members[0][0], different),
            unit=members[0][0].unit or "",
            devices_per_node=max(result.case.devices_per_node for result, _ in members),
            scales=_ordered(scale for _, scale in members),
            assumptions=tuple(_assumptions(members)),
        )
        for members in groups_found.values()
    ]


def _assumptions(members: list[tuple[CaseResult, Scale]]) -> Iterator[str]:
    if members[0][0].unit == STEPS_UNIT:
        yield _SAME_STEPS
    alone = sorted({scale.devices for _, scale in members if scale.spread is None})
    if alone:
        yield (
            f"the runs on {', '.join(map(str, alone))} devices vary by 1 %, because they show no variation "
            "(measure three or more)"
        )


def _different_axes(keys: Iterable[_Key]) -> list[str]:
    """Return the axes on which the configurations differ."""
    values: dict[str, set[str]] = {}
    for _, axes in keys:
        for axis, value in axes:
            values.setdefault(axis, set()).add(value)
    return [axis for axis, found in values.items() if len(found) > 1]


def _series_name(result: CaseResult, different: list[str]) -> str:
    case = result.settled
    # A program of no known model has the name of its workload.
    named = case.workload if case.model == UNKNOWN else case.model
    usual = [value for value in (case.framework, named, str(case.precision)) if value != UNKNOWN]
    more = [
        f"{axis}={case.texts[axis]}"
        for axis in different
        if axis in case.axes and case.texts[axis] not in usual
    ]
    return " ".join([*usual, *more])


def _scale_of(result: CaseResult) -> Scale:
    estimate, case = result.estimate, result.settled
    assert estimate is not None
    batch = result.largest_batch if case.batch_per_device == "max" else case.batch_per_device
    return Scale(
        devices=case.world_size,
        nodes=case.nodes,
        batch=float(batch) if isinstance(batch, int) else None,
        rate=estimate.median,
        # Runs without an interval show a spread too, if they are two or more.
        spread=spread_of(estimate) or (estimate.std or 0.0) / estimate.mean or None,
        runs=estimate.n,
        evidence=tuple(_evidence(pooled(result.runs))),
    )


def _evidence(runs: list[RunResult]) -> Iterator[Term]:
    """Yield the shares of a step that the runs themselves recorded: the wait for data and for the slowest rank."""
    waits = [
        check.share
        for run in runs
        if run.bound is not None
        for check in run.bound.checks
        if check.bound is Bound.DATA and check.share is not None
    ]
    if waits:
        share = median(waits)
        yield Term(limit=Limit.INPUT, share=share, sentence=f"the runs waited for data {share:.1%} of a step")
    slow = [run.ranks.waits for run in runs if run.ranks is not None and run.ranks.waits is not None]
    if slow:
        share = median(slow)
        sentence = f"the ranks waited for the slowest rank {share:.1%} of a step"
        yield Term(limit=Limit.STRAGGLERS, share=share, sentence=sentence)


def series_from_references(references: Iterable[Reference]) -> list[ScaleSeries]:
    """Return the published configurations that have a number at two scales or more."""
    groups: dict[tuple[object, ...], list[Reference]] = {}
    for figure in references:
        if figure.value is not None:
            groups.setdefault(_configuration(figure), []).append(figure)
    found = [_published(figures) for group in groups.values() for figures in _consistent(group)]
    return [series for series in found if len({scale.devices for scale in series.scales}) > 1]


def _consistent(figures: list[Reference]) -> list[list[Reference]]:
    """Return the figures by the sections of their document if those contradict each other, else all of them."""
    if all(_cell(*_place(cell[0]), 1, cell) is not None for cell in _cells(figures)):
        return [figures]
    sections: dict[str, list[Reference]] = {}
    for figure in figures:
        sections.setdefault(figure.source.section, []).append(figure)
    return list(sections.values())


def _cells(figures: list[Reference]) -> list[list[Reference]]:
    """Return the figures by the number of devices and the batch."""
    cells: dict[tuple[int, float | None], list[Reference]] = {}
    for figure in figures:
        cells.setdefault(_place(figure), []).append(figure)
    return list(cells.values())


def _place(figure: Reference) -> tuple[int, float | None]:
    return figure.devices, _batch(figure)


def _configuration(figure: Reference) -> tuple[object, ...]:
    """Return everything that a figure's publisher states, except for what changes with the scale."""
    recipe = sorted((axis, value) for axis, value in figure.recipe.items() if axis not in _SCALE_RECIPE)
    hardware = figure.hardware
    return (
        figure.source.document,
        figure.source.publisher,
        figure.framework,
        figure.software.framework_version,
        figure.software.program,
        figure.model,
        figure.precision,
        figure.unit,
        hardware.device,
        hardware.device_memory_gb,
        # MLPerf's names of systems count their nodes.
        re.sub(r"\d+", "#", hardware.system or ""),
        tuple(recipe),
        figure.recipe.get(RecipeAxis.DISTRIBUTION.value)
        if figure.devices > 1 and "fsdp" in str(recipe)
        else None,
    )


def _published(figures: list[Reference]) -> ScaleSeries:
    first = figures[0]
    stated = first.hardware.devices_per_node
    assumptions = []
    if stated is None:
        assumptions.append(
            f"the source does not state the devices of a host: {_ASSUMED_PER_NODE} are assumed "
            "(--devices-per-node changes it)"
        )
    per_node = stated or _ASSUMED_PER_NODE
    scales = []
    for cell in _cells(figures):
        devices, batch = _place(cell[0])
        scale = _cell(devices, batch, -(-devices // per_node), cell)
        if scale is None:
            assumptions.append(f"{devices} devices are left out: the source has several different figures")
        else:
            scales.append(scale)
    hardware = first.hardware
    memory = f" {hardware.device_memory_gb} GB" if hardware.device_memory_gb else ""
    words = (first.framework, first.model, first.precision or "", f"on {hardware.device}{memory}")
    name = f"{first.source.document}: {' '.join(filter(None, words))}"
    return ScaleSeries(name, first.unit, per_node, _ordered(scales), tuple(assumptions), stated is None)


def _cell(devices: int, batch: float | None, nodes: int, figures: list[Reference]) -> Scale | None:
    """Return the scale of the figures of one cell; None if they contradict each other."""
    repeats = [figure.value or 0.0 for figure in figures if figure.repeat is not None]
    summaries = [figure.value or 0.0 for figure in figures if figure.repeat is None]
    if summaries and max(summaries) > _DIFFERENT_FIGURES * min(summaries):
        return None
    spread = stdev([math.log(rate) for rate in repeats]) if len(repeats) > 2 else None
    rate = median(summaries or repeats)
    return Scale(devices, nodes, batch, rate, spread, max(len(repeats), 1))


def _batch(figure: Reference) -> float | None:
    total = figure.recipe.get(RecipeAxis.GLOBAL_BATCH.value)
    if isinstance(total, int) and not isinstance(total, bool):
        return total / figure.devices
    if figure.tokens_per_step is not None:
        return figure.tokens_per_step / figure.devices
    return None if figure.batch_per_device is None else float(figure.batch_per_device)


def _ordered(scales: Iterable[Scale]) -> tuple[Scale, ...]:
    return tuple(sorted(scales, key=lambda scale: (scale.devices, scale.batch or 0.0)))


def with_hosts(series: ScaleSeries, devices_per_node: int) -> ScaleSeries:
    """Return the series for hosts of so many devices; measured hosts stay as the source states them."""
    scales = series.scales
    if series.hosts_assumed:
        scales = tuple(replace(scale, nodes=-(-scale.devices // devices_per_node)) for scale in scales)
    return replace(
        series,
        devices_per_node=devices_per_node,
        scales=scales,
        assumptions=tuple(one for one in series.assumptions if "--devices-per-node" not in one),
    )
