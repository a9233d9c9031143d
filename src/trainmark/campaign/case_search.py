"""A run of a case, after the short runs that choose its open axes and then its largest batch."""

from dataclasses import replace
from pathlib import Path

from trainmark.campaign.batch_search import largest_fitting, next_batch, probe_protocol
from trainmark.campaign.best_search import (
    axes_of_trial,
    candidates,
    forget_trial,
    read_trial,
    trial_protocol,
    why_none,
    write_trial,
)
from trainmark.campaign.executor import Executor, Request
from trainmark.campaign.identity_check import identity_of
from trainmark.campaign.log_measurement import measured
from trainmark.campaign.persist import require_space
from trainmark.campaign.resume import manifest_in
from trainmark.campaign.run_environment import CannotStart
from trainmark.execution import read_record, write_record
from trainmark.logs.events import read_events
from trainmark.measure.statistics import fingerprint
from trainmark.placement import device_of
from trainmark.schema.case import MAX_BATCH, Case
from trainmark.schema.names import EVENTS
from trainmark.schema.outcome import Outcome, OutcomeRecord
from trainmark.schema.results import Trial, fastest


def run_case(executor: Executor, case: Case, repeat: int) -> OutcomeRecord:
    """Run a case on hosts that have its labels, in the folder of this repeat; return the run's record."""
    folder = executor.directory.run(case, repeat)
    return run_requested(executor, Request(case, case, executor.suite.protocol, repeat, folder))


def run_requested(executor: Executor, request: Request) -> OutcomeRecord:
    """Execute a request with the case's open axes and its largest batch chosen; return the run's record."""
    there = executor.run_env.of(request.requested)
    if isinstance(there, CannotStart):
        return executor.refuse(request, there)
    on_labelled = executor.on(there)
    settled = _with_best(on_labelled, request.requested)
    if isinstance(settled, Case):
        settled = _with_largest_batch(on_labelled, settled)
    if isinstance(settled, CannotStart):
        return executor.refuse(request, settled)
    return on_labelled.execute(replace(request, case=settled))


def _with_best(executor: Executor, case: Case) -> Case | CannotStart:
    """Return the case with the fastest values on its open axes, found by short runs."""
    if not case.left_open:
        return case
    card, device = executor.run_env.workload(case).card, device_of(case, executor.run_env.machine)
    trials = [(found, _try(executor, case, found)) for found in candidates(case, card, device)]
    best = fastest([trial for _, trial in trials])
    if best is not None:
        return next(found for found, trial in trials if trial is best)
    if not trials:
        return CannotStart(Outcome.UNSUPPORTED, why_none(case, card, device))
    reasons = "; ".join(
        f"{', '.join(trial.axes.values())}: {trial.outcome}: {trial.reason}" for _, trial in trials
    )
    return CannotStart(trials[0][1].outcome, f"no candidate could be measured: {reasons}")


def _try(executor: Executor, case: Case, candidate: Case) -> Trial:
    axes = axes_of_trial(case, candidate)
    folder = executor.directory.trial(case, axes)
    known = read_trial(folder)
    if known is not None and _is_current(executor, case, candidate, folder):
        return known
    if known is not None:
        forget_trial(folder)
        executor.directory.set_aside(folder)
    executor.listener.trying(candidate, axes)
    protocol = trial_protocol(executor.suite.protocol)
    record = executor.execute(Request(case, candidate, protocol, 1, folder))
    require_space(folder, record.outcome)
    card, events = executor.run_env.workload(candidate).card, read_events(folder / EVENTS)
    outcome, reason, measurement = measured(candidate, card, folder, events, record)
    trial = Trial(
        axes=axes,
        outcome=outcome,
        reason=reason,
        throughput=measurement.throughput if measurement else None,
        unit=measurement.unit if measurement else None,
    )
    # A short run that could not be started is tried again: its cause may be temporary.
    if record.started_at is not None or outcome is Outcome.UNSUPPORTED:
        write_trial(folder, trial)
    write_record(folder, record)
    return trial


def _with_largest_batch(executor: Executor, case: Case) -> Case | CannotStart:
    """Return the case with a number as its batch; if it requests the largest one, find it by short runs."""
    if case.batch_per_device != MAX_BATCH:
        return case
    tried: dict[int, bool] = {}
    reason = None
    while (batch := next_batch(tried)) is not None:
        record = _probe(executor, case, batch)
        if record.outcome not in (Outcome.OK, Outcome.OOM):
            return CannotStart(record.outcome, f"a batch of {batch} was tried: {record.reason}")
        tried[batch] = record.outcome is Outcome.OK
        reason = record.reason or reason
    largest = largest_fitting(tried)
    return case.at_batch(largest) if largest else CannotStart(Outcome.OOM, f"no batch fits: {reason}")


def _is_current(executor: Executor, requested: Case, case: Case, folder: Path) -> bool:
    """Return whether a stored short run used the machine and program that the case would use now.

    If the case has finished runs, the check against those decides instead.
    """
    record, then = read_record(folder), manifest_in(folder)
    if executor.directory.finished(requested) or record is None or record.identity is None or then is None:
        return True
    setting = executor.run_env.setting(case)
    if isinstance(setting, CannotStart):
        return True
    now = identity_of(executor.identifier.program(case))
    changes = record.identity.limited_to(now).changes(now)
    if fingerprint(then) == fingerprint(setting.manifest) and not changes:
        return True
    executor.listener.readying(
        f"{folder}: the environment or program has changed since; repeating this short run"
    )
    return False


def _probe(executor: Executor, case: Case, batch: int) -> OutcomeRecord:
    folder = executor.directory.probe(case, batch)
    known = read_record(folder)
    if known is not None and known.started_at is not None:
        if _is_current(executor, case, case.at_batch(batch), folder):
            return known
        executor.directory.set_aside(folder)
    executor.listener.probing(batch)
    protocol = probe_protocol(executor.suite.protocol)
    record = executor.execute(Request(case, case.at_batch(batch), protocol, 1, folder))
    require_space(folder, record.outcome)
    write_record(folder, record)
    return record
