"""MLPerf Training result logs (``:::MLLOG {json}``, https://github.com/mlcommons/logging).

    :::MLLOG {"namespace": "", "time_ms": 1590000000000, "event_type": "INTERVAL_END", "key": "epoch_stop", "value": …}

Benchmarks count different things (``dialects.py``), so every way to the number is computed (``methods.py``) and held
against the others. A log that counts no samples (minigo) has no rate, and neither has one whose counts imply more steps
than a run can have. Records have their own start and stop, so the time between two stops is not that of a record.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache

import numpy as np

from trainmark.logs.format import Assembled, Format, LogContext, parse_setting, search_word
from trainmark.logs.lines.fields import Extract
from trainmark.logs.model import Column, EndState, Facts, Problem, Scope, Severity
from trainmark.logs.synthetic import SampleRun, end_of, lines_of
from trainmark.programs.log_formats.mlperf import parts
from trainmark.programs.log_formats.mlperf.dialects import DIALECTS, READ_AS_USUAL
from trainmark.programs.log_formats.mlperf.events import Events, last_values, rows_of
from trainmark.programs.log_formats.mlperf.methods import (
    Run,
    count_methods,
    only_own,
    records_of,
    witnesses_of,
)
from trainmark.programs.log_formats.mlperf.parts import runs_of

_FIRST_STAMP_S = 978_307_200.0
"""2001-01-01: earlier stamps are seconds, written where milliseconds belong."""
_STOP = re.compile(rb'"run_stop"(?:(?<="key": "run_stop")|(?<="key":"run_stop"))[^\n]*"status": ?"(\w+)"')
"""Begins with plain letters, which makes the search as fast as memory."""


def facts(context: LogContext) -> Facts:
    """Read the benchmark's name and the batch; the number of devices is not part of the log."""
    name = search_word(rb'"key": ?"submission_benchmark", ?"value": ?"([^"]+)"', context.text)
    return Facts(model=name, global_batch=parse_setting(parameters(context), "global_batch_size"))


def parameters(context: LogContext) -> dict[str, str]:
    """Return the single values of all POINT_IN_TIME events."""
    return dict(_parameters(context.text))


@lru_cache(maxsize=1)
def _parameters(text: bytes) -> dict[str, str]:
    return last_values(text)


def extract(text: bytes) -> Extract:
    """Return the events in ``text`` that time or count something, one row each."""
    found = rows_of(text)
    return Extract(dict(found.columns), found.samples)


def assemble(columns: Mapping[str, Column]) -> Assembled:
    """Return the records (step, rate, samples) of all events of a log, and of one run every way to its number."""
    if len(columns["key"]) > parts.LONG_EVENTS and (of_parts := parts.assemble_parts(columns)):
        return of_parts
    runs = runs_of(Events.in_time({name: column.array() for name, column in columns.items()}))
    found = [records_of(run) for run in runs]
    whole = [records for records in found if records]
    if len(found) > 1 and any(len(records["step"]) < 2 for records in whole):
        return Assembled({})  # their counters cannot distinguish the runs
    common = [name for name in (whole[0] if whole else ()) if all(name in records for records in whole)]
    records = {name: Column.of(np.concatenate([records[name] for records in whole])) for name in common}
    return Assembled(records, witnesses_of(runs[0]) if len(runs) == 1 else ())


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Check for several results in one file, events that do not pair, and a single epoch that may be incomplete."""
    names = set(re.findall(rb'"key": ?"submission_benchmark", ?"value": ?"([^"]+)"', context.text))
    if len(names) > 1:
        listing = ", ".join(sorted(name.decode("utf-8", "replace") for name in names))
        sentence = f"the file contains the results of {len(names)} benchmarks ({listing}): split it"
        return (Problem("several-runs", sentence),)
    columns = rows_of(context.text).columns
    if not columns:
        return ()
    runs = runs_of(Events.in_time(columns))
    if len(runs) > 1:
        return (Problem("several-runs", f"the file contains {len(runs)} runs: split it"),)
    run = runs[0]
    found = []
    if not run.is_named and len(run.spans):
        sentence = "the log does not name its benchmark, which decides what its counts mean"
        found.append(Problem("benchmark-unknown", sentence))
    unknown = next((name.decode("utf-8", "replace") for name in names), "")
    if unknown and unknown not in DIALECTS and unknown not in READ_AS_USUAL and count_methods(run) == 1:
        sentence = (
            f"the meaning of the counts of the benchmark {unknown} is not known, and the log has a single way to a "
            "number, which nothing confirms"
        )
        found.append(Problem("benchmark-unknown", sentence))
    if only_own(run):
        sentence = (
            "the number is the program's own throughput alone, which in some submissions is that of one device: "
            "the log has no count that could confirm it"
        )
        found.append(Problem("own-figure-only", sentence))
    if run.unpaired:
        sentence = (
            f"{run.unpaired} starts or stops of epochs do not pair: their time and samples are not counted"
        )
        found.append(Problem("events-unpaired", sentence, _weight(run)))
    first = float(np.nanmin(run.events.time_s))
    if first < _FIRST_STAMP_S:
        sentence = (
            f"the time_ms {1000 * first:.0f} is before 2001: the program probably prints seconds instead of "
            "milliseconds, and the number is then 1000 times too high"
        )
        found.append(Problem("clock-in-seconds", sentence))
    if _is_unfinished(run):
        sentence = (
            "the only epoch ends together with the run, so it may not have trained all of its train_samples"
        )
        found.append(Problem("epoch-unfinished", sentence))
    return tuple(found)


def _weight(run: Run) -> Severity:
    """Return how an unpaired epoch weighs: the number may rest on other events."""
    return Severity.DOUBT if "epochs" in run.dialect.prefers[:2] and len(run.epochs) < 2 else Severity.NOTE


def _is_unfinished(run: Run) -> bool:
    found, counts = run.spans, run.train_samples
    stops, tests, tracked = (run.events.of(key) for key in ("run_stop", "eval_accuracy", "tracked_stats"))
    if len(found) != 1 or not len(counts) or not len(stops) or counts.time_s[-1] > found.start_s[0]:
        return False
    if np.isfinite(tracked.values("value")).any() or np.isfinite(tracked.values("step_time_s")).any():
        return False
    if found.samples[0] > 0 or found.stop_s[0] < stops.time_s[0] - 1:
        return False
    in_epoch = tests.values("number")[tests.time_s >= found.start_s[0]]
    return not np.isfinite(np.concatenate((in_epoch, stops.values("number")))).any()


def end_state(context: LogContext) -> EndState:
    """Return whether ``run_stop`` is printed with status success."""
    stop = _STOP.search(context.tail)
    return EndState.FOUND if stop and stop[1] == b"success" else EndState.MISSING


FORMAT = Format(
    name="mlperf",
    title="MLPerf Training",
    framework=None,
    unit="samples/s",
    scope=Scope.GLOBAL,
    records=(),
    mark=re.compile(rb":::MLLOG \{"),
    parameters=parameters,
    facts=facts,
    end_state=end_state,
    doubts=doubts,
    extract=extract,
    assemble=assemble,
    warmup_steps=0,
    without_records="the log has no sample count of a finished epoch, block or run",
    header=re.compile(rb"run_start"),
    accompanies=True,
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""

    def event(moment: datetime, key: str, value: object, metadata: dict[str, object]) -> str:
        document = {
            "namespace": "",
            "time_ms": int(moment.timestamp() * 1000),
            "event_type": "POINT_IN_TIME",
            "key": key,
            "value": value,
            "metadata": metadata,
        }
        return ":::MLLOG " + json.dumps(document)

    yield event(run.start, "submission_benchmark", "resnet", {})
    yield event(run.start, "global_batch_size", run.global_batch, {})
    yield event(run.start, "train_samples", run.global_batch * run.interval, {})
    yield event(run.start, "run_start", None, {})
    for number, line in enumerate(lines_of(run), start=1):
        began = line.clock - timedelta(seconds=line.step_time_s * run.interval)
        yield event(began, "epoch_start", None, {"epoch_num": number})
        yield event(line.clock, "epoch_stop", None, {"epoch_num": number})
    yield event(end_of(run), "run_stop", None, {"status": "success"})
