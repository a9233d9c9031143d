"""MLLOG lines (``:::MLLOG {json}``), a log for each started run, in folders as MLPerf Training results have them.

A measurement of throughput is no MLPerf submission: it has no evaluation and names no organisation. Nothing is invented
to satisfy the compliance checker; docs/how-to/exports.md lists the keys that are missing therefore.
"""

import logging
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from trainmark.files import new_folder
from trainmark.imports import import_extra
from trainmark.report.export.paths import folder_name
from trainmark.report.export.records import CaseRecord, ExportedResults, RunRecord
from trainmark.schema.outcome import Outcome

_PURPOSE = "an export to MLLOG"
_BENCHMARKS = (
    ("resnet50", "resnet"),
    ("bert", "bert"),
    ("llama3.1-8b", "llama31_8b"),
    ("llama31_8b", "llama31_8b"),
    ("dlrm_dcnv2", "dlrm_dcnv2"),
)
"""The benchmarks of MLPerf Training, by the beginning of the model's name; another model has its own name."""


def write(source: ExportedResults, output: str) -> tuple[str, ...]:
    """Write ``CASE/result_N.txt`` for each started run into the new folder ``output``, N counted from 0."""
    mllog = import_extra("mlperf_logging.mllog.mllog", _PURPOSE)
    keys = import_extra("mlperf_logging.mllog.constants", _PURPOSE)
    with new_folder(Path(output)) as folder:
        for case in source.cases:
            started = [run for run in case.runs if run.started_at is not None]
            for run in started:
                path = folder / folder_name(case.id) / f"result_{run.repeat - 1}.txt"
                path.parent.mkdir(exist_ok=True)
                path.write_text(_log(mllog, keys, source, case, run), encoding="utf-8")
    return (output,)


def _log(mllog: Any, keys: Any, source: ExportedResults, case: CaseRecord, run: RunRecord) -> str:
    """Return the log of a run."""
    assert run.started_at is not None
    lines = StringIO()
    # A logger that the registry does not know: nothing stays of it, and no other handler sees its lines.
    logger = logging.Logger("trainmark.export", logging.INFO)
    logger.addHandler(logging.StreamHandler(lines))
    log = mllog.MLLogger(logger, root_dir=str(Path(__file__).parent))
    start = int(run.started_at.timestamp() * 1000)
    end = start + int((run.duration_s or 0.0) * 1000)
    begin, stop = _window_ms(run, start, end)
    for key, value in _settings(keys, source, case, run).items():
        log.event(key, value, time_ms=start)
    log.start(keys.INIT_START, time_ms=start)
    log.end(keys.INIT_STOP, time_ms=begin)
    log.start(keys.RUN_START, time_ms=begin)
    measured, samples = run.result.measurement, _figure(run, "samples")
    if measured is not None and samples is not None and measured.window is not None:
        counted = {"first_epoch_num": 0, "epoch_count": 1, keys.SAMPLES_COUNT: int(samples)}
        log.start(keys.BLOCK_START, time_ms=begin, metadata=counted)
        log.end(keys.BLOCK_STOP, time_ms=stop, metadata=counted)
    if measured is not None:
        about: dict[str, Any] = {"unit": measured.unit, "window_s": measured.window_s}
        if samples is not None:
            about["step"] = int(samples)
        log.event("tracked_stats", {"throughput": measured.throughput}, metadata=about, time_ms=stop)
    for figure in run.figures:
        log.event(f"trainmark_{figure.name}", figure.value, metadata={"unit": figure.unit}, time_ms=stop)
    for doubt in run.doubts:
        metadata = {"code": doubt.code, "about": doubt.about.value}
        log.event("trainmark_doubt", doubt.sentence, metadata=metadata, time_ms=stop)
    status = keys.SUCCESS if run.outcome is Outcome.OK else keys.ABORTED
    outcome = {"outcome": run.outcome.value, "reason": run.reason}
    log.end(keys.RUN_STOP, metadata={keys.STATUS: status, **outcome}, time_ms=max(end, stop))
    return lines.getvalue()


def _settings(
    keys: Any, source: ExportedResults, case: CaseRecord, run: RunRecord
) -> Mapping[str, str | int | float]:
    reported = run.result.parameters
    found: dict[str, str | int | float | None] = {
        keys.SUBMISSION_BENCHMARK: _benchmark(case.case.model),
        keys.SUBMISSION_DIVISION: keys.OPEN,
        keys.SUBMISSION_PLATFORM: _platform(case, run),
        keys.GLOBAL_BATCH_SIZE: reported.global_batch or _requested_batch(case),
        keys.SEED: reported.seed,
        "trainmark_case": case.id,
        "trainmark_repeat": run.repeat,
        "trainmark_suite": source.results.suite,
        "trainmark_version": source.results.trainmark_version,
        **{f"trainmark_axis_{axis}": value for axis, value in case.axes.items()},
    }
    return {key: value for key, value in found.items() if value is not None}


def _requested_batch(case: CaseRecord) -> int | None:
    """Return the global batch of a case that requests a number; for ``max`` only the run knows it."""
    batch = case.case.batch_per_device
    return batch * case.case.world_size if isinstance(batch, int) else None


def _benchmark(model: str) -> str:
    name = model.lower()
    return next((benchmark for start, benchmark in _BENCHMARKS if name.startswith(start)), model)


def _platform(case: CaseRecord, run: RunRecord) -> str:
    device = run.result.parameters.device_name or case.axes.get("device") or "unknown device"
    return f"{case.case.nodes}x{case.case.devices_per_node} {device}"


def _window_ms(run: RunRecord, start: int, end: int) -> tuple[int, int]:
    """Return the window's ends; where its place within the run is unknown, those of the whole run."""
    window = run.result.measurement.window if run.result.measurement else None
    if window is None:
        return start, end
    return max(start, int(window[0] * 1000)), int(window[1] * 1000)


def _figure(run: RunRecord, name: str) -> float | None:
    return next((figure.value for figure in run.figures if figure.name == name), None)
