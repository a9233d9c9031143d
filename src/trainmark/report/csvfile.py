"""Results as CSV at full precision: one line per case, or one line per run."""

import csv
import io
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from trainmark.insight import judged
from trainmark.printable import printable
from trainmark.report.context import WHERE
from trainmark.schema.case import Case, axes_of
from trainmark.schema.measurement import Interval
from trainmark.schema.results import CaseResult, Doubt, Findings, RatioKind, Results, RunResult

_OF_CASE = (
    "world_size", "outcome", "reason", "unit", "runs", "runs_ok", "throughput_median",
    "interval_low", "interval_high", "interval_method", "throughput_mean", "throughput_std", "throughput_min",
    "throughput_max", "baseline", "speedup", "speedup_low", "speedup_high", "efficiency", "efficiency_low",
    "efficiency_high", "suspicions", "no_interval", "speedup_no_interval", "shapes", "ended_by", "runs_counted",
    "runs_spoiled", "spent_s", "half_width", "half_width_target", "speedup_doubtful", "speedup_settled_apart",
    "energy_j_per_unit", "energy_low", "energy_high",
)  # fmt: skip

_OF_RUN = (
    "world_size", "repeat", "outcome", "reason", "started_at", "duration_s", "unit", "rule",
    "throughput", "samples", "window_s", "measured_steps", "warmup_steps", "first_step_s", "compile_s",
    "step_mean_s", "step_min_s", "step_p50_s", "step_p90_s", "step_p99_s", "step_max_s", "data_wait",
    "peak_memory_bytes", "final_loss", "steady", "settled_after", "suspicions", "directory", "log", "manifest",
    "shape", "cause", "cannot_say", "hosts", "looked_samples", "looked_s", "not_looked", "cpu_s_per_sample",
    "energy_j_per_unit", "energy_w", "energy_of",
)  # fmt: skip


def render_csv(results: Results) -> str:
    """Return one line per case: its axes, outcome, throughput over the runs with its interval, and speedup."""
    return _csv(*case_rows(results))


def render_runs_csv(results: Results) -> str:
    """Return one line per run: its case's axes, outcome and measurement. Times are in seconds."""
    return _csv(*run_rows(results))


def case_rows(results: Results) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Return the columns and the rows of the table of cases; a row lacks the columns whose value is unknown."""
    found = _findings(results)
    doubts = _by_case(found)
    rows = [_case_row(case, doubts.get(case.id, []), found) for case in results.cases]
    return _columns(results, _OF_CASE), rows


def run_rows(results: Results) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Return the columns and the rows of the table of runs; a row lacks the columns whose value is unknown."""
    doubts = _by_case(_findings(results))
    rows = [_run_row(case, run, doubts.get(case.id, [])) for case in results.cases for run in case.runs]
    return _columns(results, _OF_RUN), rows


def _findings(results: Results) -> Findings:
    found = judged(results).findings
    assert found is not None
    return found


def _by_case(found: Findings) -> dict[str, list[Doubt]]:
    doubts: dict[str, list[Doubt]] = {}
    for doubt in found.doubts:
        doubts.setdefault(doubt.case, []).append(doubt)
    return doubts


def _columns(results: Results, others: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns: the case, the axes of the tasks in the results, and the others.

    Labels of hosts are included if a case requires some.
    """
    axes = axes_of(*dict.fromkeys(result.case.task for result in results.cases))
    if not any(result.case.where for result in results.cases):
        axes = tuple(axis for axis in axes if axis != WHERE)
    return ("case", *axes, *others)


def _csv(columns: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _field(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _case_row(result: CaseResult, doubts: Iterable[Doubt], found: Findings) -> dict[str, Any]:
    estimate, speedup = result.estimate, result.speedup
    row = {
        **_axes(result.id, result.case),
        "outcome": result.outcome.value,
        "reason": result.reason,
        "unit": result.unit,
        "runs": len(result.runs),
        "runs_ok": sum(run.measurement is not None for run in result.runs),
        "suspicions": _codes(doubt.code for doubt in doubts),
        "shapes": _codes(
            run.measurement.steadiness.shape.value
            for run in result.runs
            if run.measurement and run.measurement.steadiness.shape
        ),
    }
    if repeats := result.repeats:
        row |= {
            "ended_by": repeats.ended_by.value if repeats.ended_by else None,
            "runs_counted": repeats.runs,
            "runs_spoiled": repeats.spoiled,
            "spent_s": repeats.spent_s,
            "half_width": repeats.half_width,
            "half_width_target": repeats.target,
        }
    if estimate:
        row |= {
            "throughput_median": estimate.median,
            **_bounds("interval", estimate.interval),
            "interval_method": estimate.interval.method.value if estimate.interval else None,
            "no_interval": estimate.no_interval.value if estimate.no_interval else None,
            "throughput_mean": estimate.mean,
            "throughput_std": estimate.std,
            "throughput_min": estimate.minimum,
            "throughput_max": estimate.maximum,
        }
    energy = next((one for one in found.energy if one.case == result.id), None)
    if energy:
        row |= {"energy_j_per_unit": energy.per_unit_j, **_bounds("energy", energy.interval)}
    if speedup:
        row |= {
            "baseline": speedup.baseline,
            "speedup": speedup.speedup.value,
            "efficiency": speedup.efficiency.value,
        }
        if speedup.baseline != result.id:
            row |= _bounds("speedup", speedup.speedup.interval)
            row |= _bounds("efficiency", speedup.efficiency.interval)
            why = speedup.speedup.no_interval
            row["speedup_no_interval"] = why.value if why else None
            ratio = found.ratio(RatioKind.SPEEDUP, result.id)
            row["speedup_doubtful"] = " ".join(ratio.doubtful) if ratio else None
            separate = ratio.settled_apart if ratio else ()
            row["speedup_settled_apart"] = " ".join(
                f"{one.axis}={one.value}/{one.against}" for one in separate
            )
    return row


def _run_row(result: CaseResult, run: RunResult, doubts: Iterable[Doubt]) -> dict[str, Any]:
    row = {
        **_axes(result.id, result.case),
        "repeat": run.repeat,
        "outcome": run.outcome.value,
        "reason": run.reason,
        "started_at": run.started_at.isoformat() if run.started_at else None,
        "duration_s": run.duration_s,
        "suspicions": _codes(doubt.code for doubt in doubts if doubt.repeat == run.repeat),
        "directory": run.directory,
        "log": run.log,
        "manifest": run.manifest,
        "hosts": " ".join(run.hosts),
        "cpu_s_per_sample": run.cpu_s_per_sample,
    }
    if use := run.energy:
        row |= {
            "energy_j_per_unit": use.per_unit_j,
            "energy_w": use.watts,
            "energy_of": use.source.value,
        }
    if found := run.inspection:
        row |= {
            "looked_samples": found.samples,
            "looked_s": found.seconds,
            "not_looked": " ".join(check.gate.value for check in found.unchecked),
        }
    measured = run.measurement
    if measured:
        same = ("unit", "rule", "throughput", "samples", "window_s", "measured_steps", "warmup_steps")
        more = ("first_step_s", "compile_s", "data_wait", "final_loss")
        row |= {name: getattr(measured, name) for name in (*same, *more)}
        row["peak_memory_bytes"] = max(measured.peak_memory_bytes, default=None)
        row |= {name: getattr(measured.steadiness, name) for name in ("steady", "settled_after")}
        row |= {name: _word(getattr(measured.steadiness, name)) for name in ("shape", "cause", "cannot_say")}
        if times := measured.step_times:
            row |= {
                "step_mean_s": times.mean, "step_min_s": times.minimum, "step_p50_s": times.p50,
                "step_p90_s": times.p90, "step_p99_s": times.p99, "step_max_s": times.maximum,
            }  # fmt: skip
    return row


def _axes(name: str, case: Case) -> dict[str, Any]:
    axes = {axis: case.value(axis) for axis in case.axes if axis != WHERE or case.where}
    options = " ".join(f"{option}={value}" for option, value in sorted(case.options.items()))
    return {"case": name, **axes, "options": options, "world_size": case.world_size}


def _bounds(name: str, interval: Interval | None) -> dict[str, float]:
    return {f"{name}_low": interval.low, f"{name}_high": interval.high} if interval else {}


def _codes(codes: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(codes))


def _word(value: StrEnum | None) -> str | None:
    return None if value is None else value.value


def _field(value: Any) -> Any:
    """Return a field's printable value; text that a spreadsheet would run as a formula gets a leading apostrophe."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else text
