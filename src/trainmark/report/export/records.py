"""Records of cases and runs, as every export carries them: figures with units, facts in words, doubts as sentences.

An outcome is a word here and never a figure: a run without a measurement has no figures at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any

from trainmark.insight import judged
from trainmark.report.csvfile import case_rows, run_rows
from trainmark.schema.case import Case
from trainmark.schema.comparison import ComparedCase, Comparison
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult, Doubt, Findings, Results, RunResult

_RATE, _ENERGY, _SECONDS, _RATIO = "{rate}", "{energy}", "s", "ratio"

UNIT_OF_COLUMN: Mapping[str, str] = {
    **dict.fromkeys(("throughput", "throughput_median", "throughput_mean", "throughput_std"), _RATE),
    **dict.fromkeys(("throughput_min", "throughput_max", "interval_low", "interval_high"), _RATE),
    **dict.fromkeys(("speedup", "speedup_low", "speedup_high"), _RATIO),
    **dict.fromkeys(("efficiency", "efficiency_low", "efficiency_high"), _RATIO),
    **dict.fromkeys(("half_width", "half_width_target", "data_wait"), _RATIO),
    **dict.fromkeys(("energy_j_per_unit", "energy_low", "energy_high"), _ENERGY),
    **dict.fromkeys(("runs", "runs_ok", "runs_counted", "runs_spoiled"), "runs"),
    **dict.fromkeys(("spent_s", "duration_s", "window_s", "first_step_s", "compile_s", "looked_s"), _SECONDS),
    **dict.fromkeys(("step_mean_s", "step_min_s", "step_p50_s", "step_p90_s"), _SECONDS),
    **dict.fromkeys(("step_p99_s", "step_max_s"), _SECONDS),
    **dict.fromkeys(("measured_steps", "warmup_steps", "settled_after"), "steps"),
    "samples": "samples",
    "looked_samples": "telemetry samples",
    "peak_memory_bytes": "bytes",
    "cpu_s_per_sample": "s/sample",
    "energy_w": "W",
    "final_loss": "loss",
}
"""The unit of each column of the tables of cases and runs that holds a measured number."""

NOT_MEASURED = ("world_size", "repeat")
"""Columns with a whole number that identifies a case or a run."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured, finite number with its unit."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run. ``figures`` is empty unless it is measured; ``facts`` are the remaining columns of the runs' table.

    ``key`` identifies the run: the same run has the same key in every export.
    """

    key: str
    case: str
    repeat: int
    outcome: Outcome
    reason: str | None
    unit: str | None
    started_at: datetime | None
    duration_s: float | None
    axes: Mapping[str, str]
    figures: tuple[Figure, ...]
    facts: Mapping[str, str]
    doubts: tuple[Doubt, ...]
    result: RunResult


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """One case over its runs. ``figures`` is empty unless it has an estimate.

    ``doubts`` are all of its runs' and its own. ``compared`` is its row of the comparison with a baseline, if any.
    """

    id: str
    case: Case
    outcome: Outcome
    reason: str | None
    unit: str | None
    axes: Mapping[str, str]
    figures: tuple[Figure, ...]
    facts: Mapping[str, str]
    doubts: tuple[Doubt, ...]
    runs: tuple[RunRecord, ...]
    compared: ComparedCase | None = None

    def figure(self, name: str) -> Figure | None:
        """Return a figure by its name."""
        return next((figure for figure in self.figures if figure.name == name), None)


@dataclass(frozen=True, slots=True)
class ExportedResults:
    """The results to export. ``directory`` has the runs' files, None if there is none; ``comparison`` may be None."""

    results: Results
    findings: Findings
    cases: tuple[CaseRecord, ...]
    directory: Path | None
    comparison: Comparison | None


def exported(
    results: Results, directory: Path | None = None, comparison: Comparison | None = None
) -> ExportedResults:
    """Return what exports need of ``results``; ``comparison`` has them as candidate."""
    results = judged(results)
    assert results.findings is not None
    found, compared = (
        results.findings,
        {case.against: case for case in comparison.cases} if comparison else {},
    )
    runs = iter(run_rows(results)[1])
    records = []
    for case, row in zip(results.cases, case_rows(results)[1], strict=True):
        doubts = tuple(doubt for doubt in found.doubts if doubt.case == case.id)
        energy = next((one.unit for one in found.energy if one.case == case.id), None)
        records.append(
            _case_record(
                case,
                row,
                found,
                doubts,
                energy,
                tuple(_run_record(results, case, run, next(runs), doubts) for run in case.runs),
                compared.get(case.id),
            )
        )
    return ExportedResults(results, found, tuple(records), directory, comparison)


def unit_of(column: str, rate: str | None, energy: str | None) -> str | None:
    """Return the unit of a column for a throughput in ``rate`` and an energy of one ``energy``; None: not a figure."""
    unit = UNIT_OF_COLUMN.get(column)
    if unit == _RATE:
        return rate
    if unit == _ENERGY:
        return f"J/{energy}" if energy else None
    return unit


def _case_record(
    case: CaseResult,
    row: Mapping[str, Any],
    found: Findings,
    doubts: tuple[Doubt, ...],
    energy: str | None,
    runs: tuple[RunRecord, ...],
    compared: ComparedCase | None,
) -> CaseRecord:
    facts = _facts(row, case.case)
    bound = found.bound(case.id)
    if bound is not None:
        facts["bound_by"] = bound.bound.value
    return CaseRecord(
        id=case.id,
        case=case.case,
        outcome=case.outcome,
        reason=case.reason,
        unit=case.unit,
        axes=_axes(row, case.case),
        figures=() if case.estimate is None else _figures(row, case.unit, energy),
        facts=facts,
        doubts=doubts,
        runs=runs,
        compared=compared,
    )


def _run_record(
    results: Results, case: CaseResult, run: RunResult, row: Mapping[str, Any], doubts: Iterable[Doubt]
) -> RunRecord:
    started = run.started_at.isoformat() if run.started_at else "unknown"
    energy = run.energy.unit if run.energy else None
    return RunRecord(
        key=f"{results.suite}/{case.id}/{run.repeat}/{started}",
        case=case.id,
        repeat=run.repeat,
        outcome=run.outcome,
        reason=run.reason,
        unit=run.measurement.unit if run.measurement else None,
        started_at=run.started_at,
        duration_s=run.duration_s,
        axes=_axes(row, case.case),
        figures=() if run.measurement is None else _figures(row, run.measurement.unit, energy),
        facts=_facts(row, case.case),
        doubts=tuple(doubt for doubt in doubts if doubt.repeat == run.repeat),
        result=run,
    )


def _axes(row: Mapping[str, Any], case: Case) -> dict[str, str]:
    names = (*case.axes, "options")
    return {name: str(row[name]) for name in names if row.get(name) not in (None, "")}


def _figures(row: Mapping[str, Any], rate: str | None, energy: str | None) -> tuple[Figure, ...]:
    found = []
    for name, value in row.items():
        unit = unit_of(name, rate, energy)
        if unit is None or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if isfinite(value):
            found.append(Figure(name, float(value), unit))
    return tuple(found)


def _facts(row: Mapping[str, Any], case: Case) -> dict[str, str]:
    own = {"case", "options", "outcome", "reason", "suspicions", *case.axes, *UNIT_OF_COLUMN}
    words = {name: value for name, value in row.items() if name not in own and value not in (None, "")}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in words.items()
    }
