"""Execution of a run, from its program's prerequisites to its outcome, or to its end on purpose.

Before the runs of a case, short ones choose its open axes and then its largest batch.
"""

import errno
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

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
from trainmark.campaign.identity import (
    Identifier,
    UnlikeRunsError,
    changed_meanwhile,
    identity_of,
    keep_entries,
    require_same_commands,
    require_same_identity,
)
from trainmark.campaign.listener import ProgressListener
from trainmark.campaign.log_measurement import LoggedRun, RunLog, measured, read_run_log
from trainmark.campaign.quiet import QuietWait
from trainmark.campaign.resume import manifest_in
from trainmark.campaign.run_environment import CannotStart, RunEnvironment, Setting, plan_run
from trainmark.errors import TrainmarkError
from trainmark.execution import (
    PreparationError,
    Preparer,
    ResultDirectory,
    check_expected_files,
    read_record,
    run_plan,
    start_ahead,
    write_record,
)
from trainmark.files import write_run_file
from trainmark.logs import ParsedLog
from trainmark.logs.events import read_events
from trainmark.logs.intervals import counts_from_zero, steps_since_restart
from trainmark.measure.gates import MIN_PERIODS
from trainmark.measure.pooling import fingerprint, pooling_differences
from trainmark.measure.ranks import measured_peaks
from trainmark.node import (
    Heartbeat,
    Host,
    HostError,
    HostOSError,
    LocalHost,
    Watch,
    deferred_signals,
    free_ports,
    ignore_heartbeat,
    map_hosts,
)
from trainmark.node.telemetry import INTERVAL_S
from trainmark.placement import FrameworkPython, device_of
from trainmark.schema.case import MAX_BATCH, Case, Device
from trainmark.schema.manifest import Manifest, MeasuredPeaks, Node
from trainmark.schema.names import EVENTS, LOG, MANIFEST
from trainmark.schema.outcome import Entries, Outcome, OutcomeRecord, PartName
from trainmark.schema.plan import Plan
from trainmark.schema.results import Trial, fastest
from trainmark.schema.suite import Protocol, Suite
from trainmark.training_loop import PROGRESS_SUFFIX
from trainmark.workload import BuiltinSource, Card
from trainmark.workload.card import OWN_FORMAT

LEAST_FREE_BYTES = 1 << 20
"""With less free space on the result directory's disk, a failed run is blamed on the disk and not on its program."""

_SHOWN = 3

LEAST_WINDOW_S = 2 * MIN_PERIODS * INTERVAL_S
"""The least seconds of a window that is ended on purpose: twice what the gates need to look at the machine."""

_READ_EVERY_S = 1.0
_READ_SHARE = 0.02
"""The largest share of a CPU that is spent on reading the log during a run."""
_WINDOW_IS_OVER, _RUN_IS_OVER = b'"phase": "measured"', b'"outcome"'
"""Parts of a built-in worker's events: of the steps, which it writes after the window, and of the last event."""

_IMPORTED_WITHOUT_DEVICE = frozenset({"pytorch"})
"""The frameworks that are known to open no GPU while they are imported: PyTorch does so at the first use."""

PORTS_BESIDES_RANKS = 4
"""Ports that a run may need besides one per rank: for the rendezvous, and a framework's scheduler and servers."""


@dataclass(slots=True)
class StopWatch:
    """A watch that ends a run as its card's ``stop_after`` says, and else as ``inner`` does."""

    card: Card
    folder: Path
    inner: Watch
    _next_read_s: float = field(default=0.0)

    def __call__(self, pulse: Heartbeat) -> tuple[Outcome, str] | None:
        """Return the end of the run by ``inner`` or on purpose, or None."""
        if (ended := self.inner(pulse)) is not None:
            return ended
        stop = self.card.stop_after
        if stop is None:
            return None
        if stop.seconds is not None and pulse.elapsed_s >= stop.seconds:
            return Outcome.OK, f"ended on purpose after {stop.seconds:g} s"
        if stop.steps is not None and self._counts_itself(stop.steps):
            return Outcome.OK, f"ended on purpose after {stop.steps} steps"
        if pulse.elapsed_s < self._next_read_s:
            return None
        if stop.steps is not None and self._shows(stop.steps, lambda log: steps_shown(log.parsed), pulse):
            return Outcome.OK, f"ended on purpose after {stop.steps} steps"
        if stop.epochs is not None and self._shows(stop.epochs, epochs_shown, pulse):
            return Outcome.OK, f"ended on purpose after {stop.epochs} epochs"
        return None

    def _counts_itself(self, wanted: int) -> bool:
        """Return whether the program counts its steps by ``trainmark.measure`` and has done so many."""
        try:
            steps, window_s = (self.folder / (EVENTS + PROGRESS_SUFFIX)).read_text(encoding="ascii").split()
            return int(steps) >= wanted and float(window_s) >= LEAST_WINDOW_S
        except (OSError, ValueError):
            return False

    def _shows(self, wanted: int, shown: Callable[[RunLog], int], pulse: Heartbeat) -> bool:
        """Return whether the log shows so many steps or epochs.

        Fast steps go on until the measured ones last long enough for samples of the machine.
        """
        began = time.thread_time()
        # A program may have put a pipe in its place, which would block.
        if not (self.folder / LOG).is_file():
            return False
        try:
            log = read_run_log(self.card, self.folder)
            enough = shown(log) >= wanted and not _is_short(log, self.card.skip)
        except OSError:
            enough = False
        took = time.thread_time() - began
        # The first read also imports what reads logs.
        is_first = self._next_read_s == 0
        self._next_read_s = pulse.elapsed_s + (
            _READ_EVERY_S if is_first else max(_READ_EVERY_S, took / _READ_SHARE)
        )
        return enough


def _is_short(log: RunLog, skip: int | None) -> bool:
    """Return whether the records after the warm-up arrived within less than ``LEAST_WINDOW_S``; False if unknown."""
    times = log.times()
    if times is None:
        return False
    first = max(0, (log.parsed.warmup_records if skip is None else skip) - 1)
    return first < len(times) and float(times[-1] - times[first]) < LEAST_WINDOW_S


def steps_shown(log: ParsedLog) -> int:
    """Return the number of steps that the records of a log cover."""
    counted = log.records.step
    if not log.records.count:
        return 0
    if counted is None or log.counts_samples or log.restarts:
        return log.records.count * log.step_interval
    steps = counted.array()
    rises = np.diff(steps)
    # A first line, and one after which a counter begins anew, is often that of a first step, whatever the interval.
    anew = steps_since_restart(steps, counts_from_zero(log.records), log.step_interval)
    return max(int(anew[0] + np.nansum(np.where(rises < 0, anew[1:], rises))), log.records.count)


def epochs_shown(log: RunLog) -> int:
    """Return the number of whole epochs that the records of a log cover; 0 if it does not count them.

    A record without a step is one of a whole epoch if it has the epoch's number or stands under its heading; so is a
    step that a guess takes for an epoch. An epoch with steps is over when the next one begins.
    """
    records = log.parsed.records
    if log.guess is not None and log.guess.counts_epochs:
        return steps_shown(log.parsed)
    if records.epoch is None:
        headed = log.known is not None and log.known.heading is not None
        return records.count if headed and records.step is None else 0
    started = len(np.unique(records.epoch.array()))
    return started if records.step is None else started - 1


@dataclass(frozen=True, slots=True)
class Request:
    """A requested run in ``folder``; ``case`` is ``requested`` with values for all axes that it leaves open.

    ``more_words`` follow the words of the program. A run of the same program for another number of steps, which is to
    be compared with the measured ones, names their protocol in ``identified_by``.
    """

    requested: Case
    case: Case
    protocol: Protocol
    repeat: int
    folder: Path
    more_words: tuple[str, ...] = ()
    identified_by: Protocol | None = None

    def not_started(self, why: CannotStart) -> OutcomeRecord:
        """Return the record of a run that could not be started."""
        return OutcomeRecord(case_id=self.case.id, repeat=self.repeat, outcome=why.outcome, reason=why.reason)


@dataclass(frozen=True, slots=True)
class Executor:
    """Executes runs on a campaign's hosts, in the folders of a result directory."""

    suite: Suite
    directory: ResultDirectory
    run_env: RunEnvironment
    listener: ProgressListener
    identifier: Identifier
    preparer: Preparer
    may_go_on: Watch = ignore_heartbeat
    quiet: QuietWait | None = None

    @classmethod
    def at(
        cls,
        run_env: RunEnvironment,
        suite: Suite,
        directory: ResultDirectory,
        listener: ProgressListener,
        quiet: QuietWait | None = None,
    ) -> "Executor":
        """Return an executor for all hosts of a run environment, with nothing prepared yet."""
        preparer = Preparer(listener.readying, run_env.hosts, suite.limits)
        return cls(suite, directory, run_env, listener, Identifier(run_env), preparer, quiet=quiet)

    def on(self, run_env: RunEnvironment) -> "Executor":
        """Return a copy for some of the hosts; the caches are shared."""
        return replace(self, run_env=run_env, identifier=self.identifier.at(run_env))

    def for_thread(self, hosts: Sequence[Host], listener: ProgressListener) -> "Executor":
        """Return a copy for another thread with only these hosts; ``listener`` hears it and can end it by raising."""
        on_hosts = self.on(self.run_env.on(hosts).watched(listener.pulse))
        preparer = self.preparer.reporting_to(listener.readying, listener.pulse)
        return replace(on_hosts, listener=listener, preparer=preparer)

    def until(self, may_go_on: Watch) -> "Executor":
        """Return a copy whose runs end as soon as ``may_go_on`` returns an outcome."""
        return replace(self, may_go_on=may_go_on)

    def before(self, case: Case, repeat: int, coming: Case, coming_repeat: int) -> "Executor":
        """Return the executor for a run, after which a run of the case ``coming`` is likely.

        The process of that run starts as soon as nothing of the first one is measured any more: it imports its modules
        while the first one is verified.
        """
        if self.quiet is not None or None in (self._waiting_place(case), self._waiting_place(coming)):
            return self
        # On a CPU the peaks that are measured after the window must not compete with an import.
        on_gpu = device_of(case, self.run_env.machine) is Device.CUDA
        events = self.directory.run(case, repeat) / EVENTS
        sign = _WINDOW_IS_OVER if on_gpu else _RUN_IS_OVER
        return self.until(_StartAhead(self, events, sign, coming, coming_repeat))

    def _waiting_place(self, case: Case) -> tuple[LocalHost, FrameworkPython] | None:
        """Return where the process of a case's run can wait for its turn; None if runs of the case start when due."""
        if not is_one_worker(case, self.run_env):
            return None
        (host,), interpreter = self.run_env.hosts, self.run_env.expected_interpreter(case)
        if isinstance(interpreter, CannotStart) or interpreter.container or not isinstance(host, LocalHost):
            return None
        on_gpu = device_of(case, self.run_env.machine) is Device.CUDA
        opens_device = on_gpu and case.framework not in _IMPORTED_WITHOUT_DEVICE
        return None if host.folder or host.paths or opens_device else (host, interpreter)

    def start_ahead(self, case: Case, repeat: int) -> None:
        """Start the process of a run that is likely to be the next one; raise ``OSError`` if it cannot be started."""
        place = self._waiting_place(case)
        if place is None:
            return
        (host, interpreter), folder = place, self.directory.run(case, repeat)
        plan = plan_run(self.run_env, case, self.suite.protocol, interpreter, repeat, folder.absolute())
        if not isinstance(plan, CannotStart) and plan.cannot_run is None:
            log = self.directory.path.absolute() / f".{LOG}.{os.getpid()}.tmp"
            start_ahead(plan, folder, self.suite.limits, host, log)

    def drop_ahead(self) -> None:
        """End the process that waits for its run, if there is one."""
        for host in self.run_env.hosts:
            if isinstance(host, LocalHost):
                with deferred_signals():
                    host.drop_ahead()

    def _watch(self, pulse: Heartbeat) -> tuple[Outcome, str] | None:
        self.listener.pulse(pulse)
        return self.may_go_on(pulse)

    def refuse(self, request: Request, why: CannotStart) -> OutcomeRecord:
        """Return the record of a run that cannot be started, and create its empty folder."""
        self.directory.begin(request.folder)
        return request.not_started(why)

    def execute(self, request: Request) -> OutcomeRecord:
        """Execute a run; a host that is unreachable or gets lost costs this run but no other."""
        try:
            hosts = self.run_env.hosts_of(request.case)
            why = next(filter(None, map_hosts(hosts, lambda host: host.unreachable())), None)
            if why is None:
                return self._executed(request)
        except HostError as error:
            why = str(error)
        except HostOSError as error:
            why = f"{error.filename}: {error.strerror}"
        if read_record(request.folder) is None and not request.folder.exists():
            self.directory.begin(request.folder)
        return request.not_started(CannotStart(Outcome.FAILED, why))

    def _executed(self, request: Request) -> OutcomeRecord:
        found = self._planned(request)
        if isinstance(found, CannotStart):
            return self.refuse(request, found)
        plan, setting = found
        self.directory.begin(request.folder)
        write_manifest(request.folder, setting.manifest)
        try:
            return self._carried_out(request, plan, setting)
        except PreparationError as why:
            return request.not_started(CannotStart(why.outcome, str(why)))
        finally:
            self.preparer.clear(plan, request.folder)

    def _planned(self, request: Request) -> tuple[Plan, Setting] | CannotStart:
        """Return the run's plan and environment, with program and data in place; or why it cannot be started."""
        case = request.case
        setting = self.run_env.send_program(case, self.listener.readying) or self.run_env.setting(case)
        if isinstance(setting, CannotStart):
            return setting
        require_same_environment(self.directory, request.requested, setting.manifest)
        # A case with more ranks than the machine can hold is not started and needs no ports.
        ranks = min(case.world_size, max(self.run_env.machine.cores, self.run_env.machine.gpus))
        port = free_ports(PORTS_BESIDES_RANKS + ranks, self.run_env.hosts_of(case))
        folder = request.folder.absolute()
        plan = plan_run(
            self.run_env,
            case,
            request.protocol,
            setting.interpreter,
            request.repeat,
            folder,
            port=port,
            more_words=request.more_words,
        )
        if isinstance(plan, CannotStart):
            return plan
        # Data is made only for a run that can use it.
        missing = None if plan.cannot_run else self.run_env.make_data(case, self.listener.preparing)
        missing = missing or self.run_env.data_file_problem(case)
        return missing or (plan, setting)

    def _carried_out(self, request: Request, plan: Plan, setting: Setting) -> OutcomeRecord:
        parts: tuple[Entries, ...] = ()
        if plan.cannot_run is None:
            self.preparer.make_ready(plan, request.folder)
            parts = self._identified(request, plan, setting)
            keep_entries(self.directory, parts)
            if self.quiet is not None:
                self.quiet.wait(self.run_env.hosts_of(request.case), self.listener)
        limits = self.suite.limits
        own_log = self.run_env.workload(request.case).card.log_format == OWN_FORMAT
        steps = request.protocol.steps if own_log else None
        watch = StopWatch(self.run_env.workload(request.case).card, request.folder, self._watch)
        ended = run_plan(plan, request.folder, limits, self.run_env.hosts, watch, steps)
        record = check_expected_files(ended, plan)
        if manifest_in(request.folder) is None:
            # The program has removed or replaced it.
            with deferred_signals():
                write_manifest(request.folder, setting.manifest)
        if record.outcome is Outcome.OK:
            with deferred_signals():
                requested = request.requested.id
                complete_manifest(request.folder, setting.manifest, request.case, requested, request.repeat)
        if not parts:
            return record
        with deferred_signals():
            doubts = changed_meanwhile(parts, self.identifier.program(request.case))
            card = self.run_env.workload(request.case).card
            files = (one.entries for one in parts if one.name is PartName.FILES)
            return record.model_copy(
                update={
                    "identity": identity_of(parts),
                    "doubts": (*record.doubts, *doubts),
                    "data_files": dict(next(files, {})),
                    "stand_ins": {one.path: one.label for one in card.stand_ins},
                }
            )

    def _identified(self, request: Request, plan: Plan, setting: Setting) -> tuple[Entries, ...]:
        """Return the identity's parts of a run that is ready to start; raise if earlier runs of the case differ."""
        case, requested, protocol = request.case, request.requested, request.protocol
        folder = request.folder.absolute()
        named = request.identified_by or protocol
        spec = self.run_env.spec(case, named, setting.interpreter, request.repeat, folder)
        parts = self.identifier.parts(spec, plan, setting.manifest)
        if folder != self.directory.run(requested, request.repeat).absolute():
            return parts
        require_same_identity(self.directory, requested, parts)
        for record in self.directory.finished(requested).values():
            if record.identity is None and record.started_at is not None:
                there = self.directory.run(requested, record.repeat).absolute()
                again = plan_run(self.run_env, case, protocol, setting.interpreter, record.repeat, there)
                if not isinstance(again, CannotStart):
                    require_same_commands(self.directory, requested, record, again)
        return parts


@dataclass(slots=True)
class _StartAhead:
    """A watch that starts the process of the ``coming`` run when the current run's file ``events`` has ``sign``.

    It never ends the current run.
    """

    executor: Executor
    events: Path
    sign: bytes
    coming: Case
    repeat: int
    is_done: bool = False

    def __call__(self, _pulse: Heartbeat) -> None:
        """Start the process if the current run has been measured."""
        # What is wrong with the coming run is reported when it is its turn.
        with suppress(OSError, TrainmarkError):
            if not self.is_done and self.sign in self.events.read_bytes():
                self.is_done = True
                self.executor.start_ahead(self.coming, self.repeat)


def is_one_worker(case: Case, run_env: RunEnvironment) -> bool:
    """Return whether a run of a case is one process of a built-in worker, and short runs choose none of its axes."""
    return (
        not case.left_open
        and case.batch_per_device != MAX_BATCH
        and case.world_size == 1 == len(run_env.hosts)
        and isinstance(run_env.workload(case).card.source, BuiltinSource)
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a run's nodes into the run's folder."""
    write_run_file(folder / MANIFEST, manifest.to_json())


def complete_manifest(folder: Path, manifest: Manifest, case: Case, requested: str, repeat: int) -> None:
    """Rewrite a manifest with the peaks that the run in the folder measured, if it measured any.

    ``case`` is the case that ran, ``requested`` the id of the case in the suite.
    """
    events = read_events(folder / EVENTS)
    measured = measured_peaks(events.summary, case.world_size) if events.summary else ()
    if not measured:
        return

    def of_node(number: int, node: Node) -> Node:
        peaks = MeasuredPeaks(
            case_id=requested,
            repeat=repeat,
            precision=events.parameters.precision,
            peaks=tuple(peak for peak in measured if peak.rank // case.devices_per_node == number),
        )
        return node.model_copy(update={"peaks": peaks})

    nodes = tuple(of_node(number, node) for number, node in enumerate(manifest.nodes))
    write_manifest(folder, manifest.model_copy(update={"nodes": nodes}))


def require_same_environment(directory: ResultDirectory, case: Case, manifest: Manifest) -> None:
    """Raise ``UnlikeRunsError`` with the differences if an earlier run of the case had another environment.

    The manifests' fingerprints are compared: hardware, limits, driver and versions, but not names and times.
    """
    for record in directory.finished(case).values():
        earlier = manifest_in(directory.run(case, record.repeat))
        if earlier is None or fingerprint(earlier) == fingerprint(manifest):
            continue
        changes = [
            f"{path} was {before} and is {now}"
            for path, before, now in pooling_differences(earlier, manifest)
        ]
        more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
        raise UnlikeRunsError(
            f"{directory.path}: run {record.repeat} of {case.id} was measured in another environment "
            f"({'; '.join(changes[:_SHOWN])}{more}), and runs in both cannot be pooled; choose another --out"
        )


def require_space(folder: Path, outcome: Outcome) -> None:
    """Raise the ``OSError`` of a full disk if a run failed on one: it is unfinished, so --resume repeats it."""
    disk = os.statvfs(folder)
    if outcome in (Outcome.FAILED, Outcome.INVALID) and disk.f_bavail * disk.f_frsize < LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))


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
    outcome, reason, measurement = measured(
        LoggedRun(candidate, card, folder, record.commands), events, record
    )
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
    tried = case.at_batch(batch)
    record = executor.execute(Request(case, tried, protocol, 1, folder))
    require_space(folder, record.outcome)
    card = executor.run_env.workload(tried).card
    logged = LoggedRun(tried, card, folder, record.commands)
    outcome, reason, _ = measured(logged, read_events(folder / EVENTS), record)
    if outcome is Outcome.OOM:
        # Also of a program that caught the error; four steps need not give a number.
        record = record.model_copy(update={"outcome": outcome, "reason": reason})
    write_record(folder, record)
    return record
