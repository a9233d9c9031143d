"""Rebuild results from finished runs and certificates, either from their folders or from a database."""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from trainmark.campaign.best_search import read_trial
from trainmark.campaign.identity import variables_of
from trainmark.campaign.log_measurement import LoggedRun, has_own_window, measured
from trainmark.campaign.model_flops import model_flops
from trainmark.campaign.rank_logs import compare_run_ranks, rank_doubts
from trainmark.campaign.schedule import Attempt, count_repeats, wants_another
from trainmark.campaign.suspicion import (
    MACHINES_DIFFER,
    machine_suspicions,
    version_suspicions,
    work_suspicions,
)
from trainmark.errors import InputError, TrainmarkError
from trainmark.execution import ResultDirectory, name_on, read_record
from trainmark.insight import judged
from trainmark.insight.bound import bound_facts, judge_bound
from trainmark.logs.events import RunEvents, read_events
from trainmark.measure import speedup
from trainmark.measure.energy import energy_of, gpus_of
from trainmark.measure.gates import Evidence, apply_drift_gate, cannot_look, check_gates
from trainmark.measure.pooling import environment_of, fingerprint, require_one_identity, same_hardware
from trainmark.measure.ranks import rank_times
from trainmark.measure.statistics import estimate_of
from trainmark.node.telemetry_summary import summarise
from trainmark.schema.case import Case, Device
from trainmark.schema.certificate import Certificate
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import (
    SPOILING,
    UNINSPECTED,
    About,
    Estimate,
    Measurement,
    Speedup,
    Suspicion,
)
from trainmark.schema.names import DATABASE, EVENTS, LOG, MANIFEST, PROFILE, RESULTS, STEPS_UNIT, TELEMETRY
from trainmark.schema.outcome import NodeOutcome, Outcome, OutcomeRecord
from trainmark.schema.profile import CaseProfile
from trainmark.schema.ranks import RankTimes
from trainmark.schema.results import (
    CaseResult,
    Results,
    RunResult,
    StoredManifest,
    Trial,
    measured_runs,
    pooled,
    sound,
)
from trainmark.schema.suite import NamingScheme, Suite
from trainmark.schema.telemetry import TelemetrySummary
from trainmark.store import (
    Store,
    StoredCampaign,
    StoredRuns,
    existing_store,
    identity,
    read_results,
    require_database,
)
from trainmark.suite import log_name, parse_suite
from trainmark.version import __version__
from trainmark.workload import Workloads, recorded_workloads

EQUIVALENCE = "equivalence"
"""The folder of a result directory for its certificates, each in the folder of its question."""
CERTIFICATE = "certificate.json"
SAVED_CERTIFICATES = "certificates"
"""The folder of trainmark's home for the certificates of all suites, by their basis."""

_REPEATS = re.compile(
    r"ModuleNotFoundError|ImportError|SyntaxError|IndentationError|NameError|cannot start \S+:|can't open file"
    r"|error: (?:unrecognized arguments|the following arguments are required|argument \S+:)"
)
"""Reasons of a failure that another run would only repeat."""

Finished = tuple[Case, Sequence[RunResult]]
"""A case and its finished runs."""


def collect(
    suite: Suite,
    finished: Sequence[Finished],
    directory: ResultDirectory,
    command: str | None,
    manifests: Mapping[str, StoredManifest] | None = None,
    certificates: Sequence[Certificate] = (),
) -> Results:
    """Return the results of the cases of the suite, as far as they are finished.

    ``command`` made the runs (None: unknown). ``manifests`` are those of the runs by their ``manifest`` key, and
    ``certificates`` those of equal work; without any they are read from the ``directory``, as are short and profiled
    runs. Raises ``InputError`` for a case whose runs ran different things.
    """
    for case, runs in finished:
        require_one_identity(case.id, runs)
    if manifests is None:
        manifests = read_manifests(directory, finished)
    machines = {case.id: machine_suspicions(runs, manifests) for case, runs in finished}
    estimates, sides = _estimates(suite, finished, machines)
    all_runs = {case.id: runs for case, runs in finished}
    every = (run for runs in all_runs.values() for run in runs)
    left_s = budget_left(suite, every, timed_seconds(directory, suite.cases))
    results = []
    for case, runs in finished:
        outcome, reason = _outcome(runs)
        results.append(
            CaseResult(
                id=case.id,
                case=case,
                outcome=outcome,
                reason=reason,
                estimate=estimates[case.id],
                speedup=_speedup(case, sides, all_runs, manifests),
                runs=tuple(runs),
                trials=stored_trials(suite, case, directory),
                suspicions=(
                    *apply_drift_gate(_throughputs(sorted(pooled(runs), key=_start)), suite.gates.off),
                    *machines[case.id],
                    *_mixed_inspection(runs),
                ),
                repeats=count_repeats(suite.protocol, as_attempts(runs), estimates[case.id], left_s),
                profile=stored_profile(case, directory),
                compiled_ahead_s=_compiled_ahead_s(case, directory),
            )
        )
    document = Results(
        trainmark_version=__version__,
        generated_at=datetime.now(UTC),
        suite=suite.name,
        description=suite.description,
        protocol=suite.protocol,
        command=command,
        complete=not any(wants_another(suite.protocol, as_attempts(runs), left_s) for _, runs in finished),
        cases=tuple(results),
        manifests=manifests,
        certificates=tuple(certificates or stored_certificates(directory.path)),
        gates_off=suite.gates.off,
        baseline=suite.baseline,
        require=suite.require,
    )
    return judged(document)


def _estimates(
    suite: Suite, finished: Sequence[Finished], machines: Mapping[str, Sequence[Suspicion]]
) -> tuple[dict[str, Estimate | None], dict[str, Estimate | None]]:
    """Return the estimate of each case, and those that a ratio may use.

    A number from disturbed runs or from several machines is shown with its doubt but is not used in a ratio.
    """
    estimates, sides = {}, {}
    for case, runs in finished:
        one_machine = all(doubt.code != MACHINES_DIFFER for doubt in machines[case.id])
        estimates[case.id] = estimate_of(runs, suite.protocol.sampling, one_machine=one_machine)
        sides[case.id] = estimates[case.id] if one_machine and sound(runs) else None
    return estimates, sides


def budget_left(suite: Suite, runs: Iterable[RunResult], timed_s: float) -> float:
    """Return the remaining seconds of a suite's budget after these runs; infinite without a budget."""
    if suite.budget is None:
        return math.inf
    return suite.budget - timed_s - sum(run.duration_s or 0.0 for run in runs)


def timed_seconds(directory: ResultDirectory, cases: Iterable[Case]) -> float:
    """Return the seconds spent on the cases' first runs that ended early."""
    records = (read_record(directory.timing(case)) for case in cases)
    return sum(record.duration_s or 0.0 for record in records if record is not None)


def as_attempts(runs: Sequence[RunResult]) -> list[Attempt]:
    """Return runs in the form that the schedule uses."""
    return [
        Attempt(
            outcome=run.outcome,
            throughput=run.measurement.throughput if run.measurement else None,
            duration_s=run.duration_s or 0.0,
            started=run.started_at is not None,
            hopeless=run.outcome is Outcome.FAILED and _REPEATS.search(run.reason or "") is not None,
            spoiled=run.spoiled,
            step_s=times.mean if run.measurement and (times := run.measurement.step_times) else None,
            steps=run.measurement.measured_steps if run.measurement else None,
        )
        for run in runs
    ]


def collect_run(
    suite: Suite, case: Case, workloads: Workloads, directory: ResultDirectory, record: OutcomeRecord
) -> RunResult:
    """Return one finished run as a result; see ``RunResult`` for the fields."""
    folder = directory.run(case, record.repeat)
    events = read_events(folder / EVENTS)
    card, stated = workloads.find(case).card, suite.protocol.stated_warmup_steps
    logged = LoggedRun(case, card, folder, record.commands, stated)
    outcome, reason, measurement = measured(logged, events, record)
    own_window = None if measurement is None else measurement.window
    manifest, scheme = manifest_in(folder), suite.naming
    result = RunResult(
        repeat=record.repeat,
        outcome=outcome,
        reason=reason,
        started_at=record.started_at,
        duration_s=record.duration_s,
        directory=os.path.relpath(folder, directory.path),
        log=None if scheme is NamingScheme.CASE else f"logs/{log_name(case, record.repeat, scheme)}",
        commands=record.commands,
        measurement=measurement,
        suspicions=(),
        parameters=events.parameters,
        telemetry=summaries_of(case, folder, events, record.nodes, own_window),
        manifest=key_of(manifest) if manifest else None,
        identity=record.identity,
        hosts=record.hosts or tuple(node.host for node in record.nodes),
        data_files=record.data_files,
        stand_ins=record.stand_ins,
    )
    if measurement is None:
        return result
    return _judged_run(suite, logged, events, record, manifest, result, measurement)


def _judged_run(
    suite: Suite,
    run: LoggedRun,
    events: RunEvents,
    record: OutcomeRecord,
    manifest: Manifest | None,
    result: RunResult,
    measurement: Measurement,
) -> RunResult:
    """Return a measured run with its doubts, the answers of its gates, and what follows from its measurement."""
    case, card, log = run.case, run.card, run.folder / LOG
    telemetry, own = result.telemetry, has_own_window(card, events)
    if measurement.unit == "tokens/s" and manifest is not None:
        flops = model_flops(case, card, log, measurement, telemetry, record.commands)
        if flops is not None:
            measurement = measurement.model_copy(update={"model_flops": flops})
    last_step, own_log = (None, None) if own else (record.last_step, log)
    gpus = gpus_of(case, manifest)
    evidence = Evidence(case=case, events=events, telemetry=telemetry, gpus=gpus, log=own_log)
    ranks = case.world_size > 1
    rank_logs = compare_run_ranks(case, card, run.folder, record, measurement) if ranks else None
    recorded = (
        *measurement.suspicions,
        *record.doubts,
        *work_suspicions(case, card, suite.protocol, measurement, events, last_step),
        *(() if rank_logs is None else rank_doubts(rank_logs)),
        *version_suspicions(events, manifest),
    )
    codes, verdict = {doubt.code for doubt in recorded}, check_gates(evidence, suite.gates.off)
    found = (doubt for doubt in verdict.doubts if doubt.code not in codes)
    judged_by = {
        "measurement": measurement,
        "suspicions": tuple(doubt for doubt in (*recorded, *found) if doubt.code not in suite.gates.off),
        "ranks": _rank_times(case, events, record, measurement),
        "gates": verdict.checks,
        "cpu_s_per_sample": _cpu_s_per_sample(case, events, measurement, telemetry),
        "rank_logs": rank_logs,
        "energy": energy_of(case, events.parameters.device, measurement, telemetry, manifest),
    }
    result = result.model_copy(update=judged_by)
    return result.model_copy(update={"bound": judge_bound(bound_facts(case, result, manifest))})


def _cpu_s_per_sample(
    case: Case, events: RunEvents, measurement: Measurement, telemetry: Sequence[TelemetrySummary]
) -> float | None:
    """Return the processor seconds per sample of a run on CPUs; None for another one, or without counters.

    Other load changes them less than the wall rate: a process that waits for a core uses none.
    """
    on_cpu = case.device is Device.CPU or events.parameters.device == Device.CPU
    seconds = [
        node.cpu_tree_s for node in telemetry if node.cpu_tree_s is not None and cannot_look(node) is None
    ]
    if not on_cpu or not measurement.samples or len(seconds) < case.nodes:
        return None
    return sum(seconds) / measurement.samples


def key_of(manifest: Manifest) -> str:
    """Return the key of a manifest in the results: its fingerprint, combined with any variables that affect a run.

    Cases that ran with different variables are in different environments, although each can be pooled separately.
    """
    known = fingerprint(manifest)
    variables = sorted({json.dumps(variables_of(node), sort_keys=True) for node in manifest.nodes} - {"{}"})
    return f"sha256:{sha256(chr(10).join([known, *variables]).encode()).hexdigest()}" if variables else known


def _rank_times(
    case: Case, events: RunEvents, record: OutcomeRecord, measurement: Measurement
) -> RankTimes | None:
    if not events.summary:
        return None
    steps, nodes, hosts = measurement.measured_steps, record.nodes, record.hosts
    return rank_times(events.summary, steps, case.devices_per_node, nodes, hosts)


def stored_certificates(out: Path) -> tuple[Certificate, ...]:
    """Return the certificates in a result directory."""
    found = (read_certificate(path) for path in sorted((out / EQUIVALENCE).glob(f"*/{CERTIFICATE}")))
    return tuple(certificate for certificate in found if certificate is not None)


def read_certificate(path: Path) -> Certificate | None:
    """Return a certificate; None if it is missing or this version cannot read it."""
    with suppress(OSError, ValidationError):
        return Certificate.model_validate_json(path.read_bytes())
    return None


def stored_trials(suite: Suite, case: Case, directory: ResultDirectory) -> tuple[Trial, ...]:
    """Return the short runs that chose a case's open axes, and which of them their machine disturbed."""
    found = ((folder, read_trial(folder)) for folder in directory.trials(case))
    return tuple(
        trial.model_copy(update={"spoiled": _is_spoiled(suite, case, folder)})
        for folder, trial in found
        if trial is not None
    )


def _compiled_ahead_s(case: Case, directory: ResultDirectory) -> float | None:
    """Return the seconds of compiling a case's program before its runs; None if that took programs from a cache."""
    events = read_events(directory.compilation(case) / EVENTS)
    return None if events.parameters.from_compile_cache else events.summary.get("compile_s")


def stored_profile(case: Case, directory: ResultDirectory) -> CaseProfile | None:
    """Return the profiled run of a case; None if it has none, or its file cannot be read."""
    with suppress(OSError, ValidationError):
        return CaseProfile.model_validate_json((directory.profile(case) / PROFILE).read_bytes())
    return None


def _is_spoiled(suite: Suite, case: Case, folder: Path) -> bool:
    events = read_events(folder / EVENTS)
    evidence = Evidence(
        case=case,
        events=events,
        telemetry=summaries_of(case, folder, events),
        gpus=gpus_of(case, manifest_in(folder)),
    )
    return any(doubt.code in SPOILING for doubt in check_gates(evidence, suite.gates.off).doubts)


def read_manifests(directory: ResultDirectory, finished: Sequence[Finished]) -> dict[str, StoredManifest]:
    """Return the manifests of finished runs, read from their folders, without the peaks of single runs.

    Equal manifests are read once.
    """
    manifests: dict[str, StoredManifest] = {}
    for run in (run for _, runs in finished for run in runs):
        if run.manifest is not None and run.manifest not in manifests:
            found = manifest_in(directory.path / run.directory)
            manifests[run.manifest] = {} if found is None else environment_of(found)
    return manifests


def _outcome(runs: Sequence[RunResult]) -> tuple[Outcome, str | None]:
    """Return a case's outcome and its reason: ok if a run of it is, else those of the first run."""
    if not runs:
        return Outcome.SKIPPED, "not run yet"
    if any(run.outcome is Outcome.OK for run in runs):
        return Outcome.OK, None
    return runs[0].outcome, runs[0].reason


def _mixed_inspection(runs: Sequence[RunResult]) -> tuple[Suspicion, ...]:
    """Return the doubt about a number of disturbed runs and of runs at which nobody looked."""
    measured = measured_runs(runs)
    spoiled = sum(run.spoiled for run in measured)
    if sound(runs) or spoiled == len(measured):
        return ()
    rest = len(measured) - spoiled
    sentence = (
        f"the number is the median of all {len(measured)} runs: the machine disturbed {spoiled} of them, and "
        f"{rest} {'was' if rest == 1 else 'were'} not watched"
    )
    return (Suspicion(code=UNINSPECTED, sentence=sentence, about=About.MACHINE),)


def _throughputs(runs: Iterable[RunResult]) -> list[float]:
    return [run.measurement.throughput for run in runs if run.measurement is not None]


def _start(run: RunResult) -> tuple[float, int]:
    return (run.started_at.timestamp() if run.started_at is not None else 0.0, run.repeat)


def _speedup(
    case: Case,
    estimates: Mapping[str, Estimate | None],
    runs: Mapping[str, Sequence[RunResult]],
    manifests: Mapping[str, StoredManifest],
) -> Speedup | None:
    one = case.varied(nodes=1, devices_per_node=1).id
    # A step is of all devices, and its work may grow with them.
    steps = any(run.measurement is not None and run.measurement.unit == STEPS_UNIT for run in runs[case.id])
    comparable = (
        one in runs and same_hardware(runs[case.id], runs[one], manifests) and not (steps and case.id != one)
    )
    return speedup(case.id, case.world_size, estimates, one if comparable else None)


def summaries_of(
    case: Case,
    folder: Path,
    events: RunEvents,
    nodes: Sequence[NodeOutcome] = (),
    log_window: tuple[float, float] | None = None,
) -> tuple[TelemetrySummary, ...]:
    """Summarise the samples of each node within its own measured window; see ``_window``.

    ``nodes`` hold the nodes' names and the offsets between their clocks; ``log_window`` is the window of a program
    without events, by the arrival of its records, in Unix time of the first node.
    """
    ahead = {node.node: clock[0] for node in nodes if (clock := node.clock()) is not None}
    names = {node.node: node.host for node in nodes if node.host != LOCALHOST}
    found = []
    for node in range(case.nodes):
        path = folder / name_on(TELEMETRY, node)
        if not path.exists():
            continue
        ahead_s = ahead.get(node, 0.0) - ahead.get(0, 0.0)
        window = _window(case, events, node, ahead_s)
        if window is None and log_window is not None:
            window = (log_window[0] + ahead_s, log_window[1] + ahead_s)
        facts = {"node": node, "host": names.get(node), "clock_ahead_s": ahead_s if node in ahead else None}
        found.append(summarise(path, window).model_copy(update=facts))
    return tuple(found)


def _window(case: Case, events: RunEvents, node: int, ahead_s: float) -> tuple[float, float] | None:
    """Return the measured window of a node, in Unix time of that node's clock; None for a run without a window.

    If rank 0 recorded the windows of all ranks, it is that of the node's first rank; otherwise it is rank 0's window,
    shifted by ``ahead_s``, by which the node's clock is ahead of rank 0's.
    """
    summary, first = events.summary, node * case.devices_per_node
    began, length = summary.get("window_at"), summary.get("window_s")
    began = began + ahead_s if isinstance(began, int | float) else None
    starts, lengths = summary.get("rank_windows_at"), summary.get("rank_windows_s")
    if all(isinstance(of_ranks, list) and first < len(of_ranks) for of_ranks in (starts, lengths)):
        began, length = starts[first], lengths[first]  # type: ignore[index]
    if not isinstance(began, int | float) or not isinstance(length, int | float):
        return None
    return began, began + length


def manifest_in(folder: Path) -> Manifest | None:
    """Return the manifest in a run's folder; None if it is missing or cannot be read."""
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None


def collect_results(suite: Suite, directory: ResultDirectory, command: str | None) -> Results:
    """Return a result directory's results, read from its runs; a case without a run is included as not run.

    Raises ``InputError`` if the directory has finished runs that belong to none of the suite's cases.
    """
    directory.require_cases(suite.cases)
    workloads = recorded_workloads(Path(card) for card in suite.cards)
    finished = [
        (case, [collect_run(suite, case, workloads, directory, r) for r in directory.finished(case).values()])
        for case in suite.cases
    ]
    return collect(suite, finished, directory, command)


def stored_results(address: str, campaign: str | None) -> tuple[Results, Path]:
    """Return the results of one campaign in a database, and the directory of its runs.

    ``address`` is a SQLite file or an SQLAlchemy URL; ``campaign`` is a number, a suite's name or a directory, and may
    be None if there is only one campaign. Raises ``InputError`` if there is no such database, or not exactly one such
    campaign; no database is created.
    """
    require_database(address)
    store = existing_store(address)
    try:
        campaigns = store.campaigns()
        meant = [one for one in campaigns if campaign in (None, str(one.id), one.suite, one.directory)]
        if len(meant) != 1:
            there = ", ".join(f"{one.id}: {one.suite} in {one.directory}" for one in campaigns) or "nothing"
            raise InputError(
                f"{len(meant)} campaigns match; choose one by its number, as STORE#NUMBER or --campaign NUMBER "
                f"(the database has: {there})"
            )
        return campaign_results(store, meant[0], address)
    finally:
        store.close()


@lru_cache(maxsize=32)
def _stored_suite(text: str, name: str) -> Suite:
    return parse_suite(text, f"suite '{name}' of the database")


def campaign_results(
    store: Store, campaign: StoredCampaign, address: str, only: Set[str] | None = None
) -> tuple[Results, Path]:
    """Return the results of a campaign of an open database, and the directory of its runs.

    ``address`` is the database's: a campaign's directory is relative to a SQLite file. With ``only``, the results have
    the cases with these stored ids alone, which do not depend on the other cases except for their speedups.
    """
    return results_of_runs(store.runs_of(campaign, only), campaign, address, only)


def results_of_runs(
    stored: StoredRuns, campaign: StoredCampaign, address: str, only: Set[str] | None = None
) -> tuple[Results, Path]:
    """Return the results of a campaign's stored runs, and the directory of its runs; see ``campaign_results``."""
    suite = _stored_suite(stored.suite_yaml, campaign.suite)
    if only is not None:
        held = tuple(case for case in suite.cases if only & {case.id, case.earlier_id})
        suite = suite.model_copy(update={"cases": held})
    finished = [
        (case, stored.runs.get(case.id) or stored.runs.get(case.earlier_id, ())) for case in suite.cases
    ]
    folder = Path(campaign.directory) if "://" in address else Path(address).parent / campaign.directory
    # A database of an older version has no certificates; its directory may have them.
    results = collect(
        suite, finished, ResultDirectory(folder), campaign.command, stored.manifests, stored.certificates
    )
    if results.command is None:
        results = results.model_copy(update={"command": _command_in_document(folder, results)})
    return results, folder


def stored_command(folder: Path) -> str | None:
    """Return the command that made a result directory, from its document or else its database; or None."""
    try:
        return read_results(folder / RESULTS).command
    except InputError:
        pass
    if not (folder / DATABASE).is_file():
        return None
    try:
        store = existing_store(str(folder / DATABASE))
    except TrainmarkError:
        return None
    try:
        return next((one.command for one in store.campaigns() if one.directory == "."), None)
    finally:
        store.close()


def _command_in_document(folder: Path, results: Results) -> str | None:
    """Return the command in a directory's document if it is of the same campaign as ``results``."""
    try:
        document = read_results(folder / RESULTS)
        return document.command if identity(document) == identity(results) else None
    except InputError:
        return None
