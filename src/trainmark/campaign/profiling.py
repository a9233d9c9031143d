"""The profiled run of a case: one run more, under its framework's profiler, of which no number is a measurement."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainmark.campaign.executor import Executor, Request, run_requested
from trainmark.campaign.resume import stored_profile
from trainmark.errors import TrainmarkError
from trainmark.execution import ResultDirectory, write_record
from trainmark.files import write_run_file
from trainmark.logs.events import read_events
from trainmark.node import deferred_signals
from trainmark.profiles import read_profile, trace_files
from trainmark.schema.case import Case
from trainmark.schema.names import EVENTS, PROFILE, TRACES
from trainmark.schema.outcome import Outcome, OutcomeRecord
from trainmark.schema.profile import CaseProfile
from trainmark.schema.results import RunResult
from trainmark.schema.suite import ProfileMode, Protocol
from trainmark.workload import BuiltinSource

PROFILED_STEPS = 5
PLAIN_STEPS = 10
"""The most steps between warm-up and profiler, which show the step without it."""
_OTHER_PROGRAM = (
    "only the built-in workers can be profiled; start this program once under a profiler of its own, such as "
    "torch.profiler or nsys, without trainmark"
)


def profile_protocol(protocol: Protocol) -> Protocol:
    """Return the protocol of a profiled run: the same warm-up, and few steps after it."""
    steps = protocol.warmup_steps + min(protocol.measured_steps, PLAIN_STEPS)
    return protocol.model_copy(update={"steps": steps})


def profile_cases(
    executor: Executor,
    cases: Sequence[Case],
    runs_of: Callable[[Case], Sequence[RunResult]],
    retry_failed: bool,
) -> None:
    """Profile each case that has an ``ok`` run and no profile yet, as the suite requests.

    A profile that fails is its own outcome, and changes nothing else; with ``retry_failed`` it is repeated.
    """
    for case in cases:
        measured = [run for run in runs_of(case) if run.outcome is Outcome.OK]
        known = stored_profile(case, executor.directory)
        if measured and (known is None or _is_wanted_again(known, executor.suite.profile, retry_failed)):
            _profile(executor, case, measured[0])


def _is_wanted_again(known: CaseProfile, mode: ProfileMode, retry_failed: bool) -> bool:
    """Return whether a finished profile failed and is to be repeated, or lacks the trace files that are requested."""
    if retry_failed and known.outcome.is_retried:
        return True
    return mode is ProfileMode.TRACE and known.profile is not None and not known.traces


def _profile(executor: Executor, case: Case, measured: RunResult) -> None:
    directory, folder = executor.directory, executor.directory.profile(case)
    if folder.exists():
        # An unfinished or unreadable one, or one without the trace files that are requested now.
        directory.set_aside(folder)
    if not isinstance(executor.run_env.workload(case).card.source, BuiltinSource):
        folder.mkdir(parents=True)
        found = CaseProfile(outcome=Outcome.UNSUPPORTED, reason=_OTHER_PROGRAM, directory="")
        _write(directory, folder, found)
        executor.listener.readying(f"{case.id}: no profile: {found.outcome}: {found.reason}")
        return
    executor.listener.readying(f"{case.id}: profiling {PROFILED_STEPS} steps, in a run that is not measured")
    measured_by = executor.suite.protocol
    words = ("--profile", str(PROFILED_STEPS))
    request = Request(case, case, profile_protocol(measured_by), 1, folder, words, measured_by)
    record = run_requested(executor, request)
    with deferred_signals():
        write_record(folder, record)
        found = _result(folder, record, measured, case.framework)
        if executor.suite.profile is not ProfileMode.TRACE:
            shutil.rmtree(folder / TRACES, ignore_errors=True)
        if record.started_at is not None or record.outcome is Outcome.UNSUPPORTED:
            _write(directory, folder, found)
    if found.profile is None:
        executor.listener.readying(f"    no profile: {found.outcome}: {found.reason}")


def _write(directory: ResultDirectory, folder: Path, found: CaseProfile) -> None:
    where = str(folder.relative_to(directory.path))
    traces = tuple(str(path.relative_to(folder)) for path in trace_files(folder))
    whole = found.model_copy(update={"directory": where, "traces": traces})
    write_run_file(folder / PROFILE, whole.to_json())


def _result(folder: Path, record: OutcomeRecord, measured: RunResult, framework: str) -> CaseProfile:
    if record.outcome is not Outcome.OK:
        return CaseProfile(outcome=record.outcome, reason=record.reason, directory="")
    if record.identity is not None and measured.identity is not None:
        changed = measured.identity.limited_to(record.identity).describe_changes(record.identity)
        if changed:
            reason = f"the program differs from that of the measured runs: {changed}"
            return CaseProfile(outcome=Outcome.INVALID, reason=reason, directory="")
    return _read(folder, framework)


def _read(folder: Path, framework: str) -> CaseProfile:
    reported: Any = read_events(folder / EVENTS).summary.get("profile")
    try:
        steps, clock_s, plain_s = (reported[key] for key in ("steps", "clock_step_s", "plain_step_s"))
        profile = read_profile(folder / TRACES, int(steps), framework)
        return CaseProfile(
            outcome=Outcome.OK, directory="", profile=profile, clock_step_s=clock_s, plain_step_s=plain_s
        )
    except (TypeError, KeyError, ValueError, TrainmarkError) as error:
        reason = f"the profile cannot be read: {error}"
        return CaseProfile(outcome=Outcome.INVALID, reason=reason, directory="")
