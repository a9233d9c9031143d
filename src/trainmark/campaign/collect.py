"""From finished runs to a suite's results; each run is read back from what it left on disk."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trainmark
from trainmark.campaign.reading import measure_run
from trainmark.campaign.schedule import Attempt, wants_another
from trainmark.campaign.suspicion import machine_suspicions, work_suspicions
from trainmark.environment import Manifest, fingerprint
from trainmark.equivalence import Certificate
from trainmark.execution import OutcomeRecord, ResultDirectory
from trainmark.execution.telemetry import TelemetrySummary, summarise
from trainmark.insight import judged
from trainmark.logs.events import RunEvents, read_events
from trainmark.measure import Measurement, NotMeasurable, Speedup, Suspicion, estimate, speedup
from trainmark.store import CaseResult, Results, RunResult
from trainmark.suite import Case, NamingScheme, Outcome, Suite, log_name
from trainmark.workload import Workloads

EVENTS = "events.jsonl"
MANIFEST = "manifest.json"
TELEMETRY = "telemetry.jsonl"

Finished = tuple[Case, Sequence[RunResult]]
"""A case and its finished runs."""


def collect(
    suite: Suite,
    finished: Sequence[Finished],
    manifests: Mapping[str, Mapping[str, Any]],
    command: str,
    certificates: Sequence[Certificate] = (),
) -> Results:
    """Return the results of the suite's cases that are given, as far as they are finished.

    ``manifests`` holds what the runs' ``manifest`` names; ``command`` made the runs; ``certificates`` say which
    frameworks were shown to do equal work.
    """
    throughputs = {case.id: _throughputs(runs) for case, runs in finished}
    results = tuple(_case_result(case, runs, _speedup(case, throughputs)) for case, runs in finished)
    document = Results(
        trainmark_version=trainmark.__version__,
        generated_at=datetime.now(UTC),
        suite=suite.name,
        description=suite.description,
        protocol=suite.protocol,
        command=command,
        complete=not any(wants_another(suite.protocol, as_attempts(runs)) for _, runs in finished),
        cases=results,
        manifests=manifests,
        certificates=tuple(certificates),
    )
    return judged(document)


def as_attempts(runs: Sequence[RunResult]) -> list[Attempt]:
    """Return runs as the schedule sees them."""
    return [
        Attempt(
            outcome=run.outcome,
            throughput=run.measurement.throughput if run.measurement else None,
            duration_s=run.duration_s or 0.0,
            started=run.started_at is not None,
        )
        for run in runs
    ]


def collect_run(
    suite: Suite, case: Case, workloads: Workloads, directory: ResultDirectory, record: OutcomeRecord
) -> RunResult:
    """Return one finished run as a result; see ``RunResult`` for the fields."""
    folder = directory.run(case, record.repeat)
    events = read_events(folder / EVENTS)
    measurement: Measurement | None = None
    outcome, reason = record.outcome, record.reason
    if outcome is Outcome.OK:
        try:
            measurement = measure_run(case, workloads.find(case).card, folder, events)
        except NotMeasurable as error:
            outcome, reason = Outcome.INVALID, str(error)
    telemetry = _telemetry(folder / TELEMETRY, events)
    doubts: tuple[Suspicion, ...] = ()
    if measurement is not None:
        work = work_suspicions(case, workloads.find(case).card, suite.protocol, measurement, events)
        doubts = (*measurement.suspicions, *work, *machine_suspicions(telemetry))
    manifest = read_manifest(folder)
    scheme = suite.naming
    return RunResult(
        repeat=record.repeat,
        outcome=outcome,
        reason=reason,
        started_at=record.started_at,
        duration_s=record.duration_s,
        directory=os.path.relpath(folder, directory.path),
        log=None if scheme is NamingScheme.CASE else f"logs/{log_name(case, record.repeat, scheme)}",
        commands=record.commands,
        measurement=measurement,
        suspicions=doubts,
        parameters=events.parameters,
        telemetry=telemetry.model_dump(mode="json") if telemetry else None,
        manifest=manifest[0] if manifest else None,
    )


def read_manifests(directory: ResultDirectory, finished: Sequence[Finished]) -> dict[str, Mapping[str, Any]]:
    """Return the manifests that finished runs name, read from their folders; equal ones are read once."""
    manifests: dict[str, Mapping[str, Any]] = {}
    for run in (run for _, runs in finished for run in runs):
        if run.manifest is not None and run.manifest not in manifests:
            found = read_manifest(directory.path / run.directory)
            manifests[run.manifest] = found[1] if found else {}
    return manifests


def _case_result(case: Case, runs: Sequence[RunResult], against_one: Speedup | None) -> CaseResult:
    bad = next((run for run in runs if run.outcome is not Outcome.OK), None)
    if any(run.outcome is Outcome.OK for run in runs):
        outcome, reason = Outcome.OK, None
    elif bad is not None:
        outcome, reason = bad.outcome, bad.reason
    else:
        outcome, reason = Outcome.SKIPPED, "not run yet"
    return CaseResult(
        id=case.id,
        case=case,
        outcome=outcome,
        reason=reason,
        estimate=estimate(_throughputs(runs)),
        speedup=against_one,
        runs=tuple(runs),
    )


def _throughputs(runs: Sequence[RunResult]) -> list[float]:
    return [run.measurement.throughput for run in runs if run.measurement is not None]


def _speedup(case: Case, throughputs: Mapping[str, Sequence[float]]) -> Speedup | None:
    one = case.varied(nodes=1, devices_per_node=1)
    return speedup(case.id, case.world_size, throughputs, one.id if one.id in throughputs else None)


def _telemetry(path: Path, events: RunEvents) -> TelemetrySummary | None:
    """Summarise the samples taken in the run's measured window; of a run without one, all of them."""
    if not path.exists():
        return None
    began, length = events.summary.get("window_at"), events.summary.get("window_s")
    if not isinstance(began, int | float) or not isinstance(length, int | float):
        return summarise(path)
    inside = summarise(path, window=(began, began + length))
    return inside if inside.samples else None


def read_manifest(folder: Path) -> tuple[str, Mapping[str, Any]] | None:
    """Return a run's manifest behind the key that it goes by in the results, its fingerprint; None without one."""
    manifest = manifest_in(folder)
    return None if manifest is None else (fingerprint(manifest), manifest.model_dump(mode="json"))


def manifest_in(folder: Path) -> Manifest | None:
    """Return the manifest that a run's folder holds; None where there is none, or none that can be read."""
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
