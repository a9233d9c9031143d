"""The main job: run every case of a suite as often as its protocol wants, and keep everything."""

import shlex
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol as Interface

from trainmark.campaign.batch_search import largest_fitting, next_batch
from trainmark.campaign.best_search import (
    axes_of_trial,
    candidates,
    kept_trials,
    read_trial,
    trial_protocol,
    write_trial,
)
from trainmark.campaign.certifying import certificates
from trainmark.campaign.identity import Identifier
from trainmark.campaign.kept import kept_certificates
from trainmark.campaign.persist import (
    Persistence,
    full_disk_is_told,
    require_same_environment,
    require_space,
    write_manifest,
)
from trainmark.campaign.planning import CannotStart, Setting, Site, load_programs, plan_run, probe_protocol
from trainmark.campaign.resume import as_attempts, collect, measured, read_manifests
from trainmark.campaign.same_program import (
    UnlikeRunsError,
    changed_meanwhile,
    identity_of,
    keep_entries,
    require_same_commands,
    require_same_identity,
)
from trainmark.campaign.schedule import Progress, Schedule, wants_another
from trainmark.campaign.side_by_side import Hosting, hosting
from trainmark.execution import (
    NotReady,
    Preparer,
    Pulse,
    ResultDirectory,
    carry_out,
    opened,
    read_record,
    with_expected,
    write_record,
)
from trainmark.logs.events import read_events
from trainmark.node import Host, HostError, HostOSError, LocalHost, free_ports, held, on_each
from trainmark.placement import PlacementHost, device_of
from trainmark.store import write_results
from trainmark.words.case import MAX_BATCH, Case
from trainmark.words.identity import Entries
from trainmark.words.manifest import Manifest
from trainmark.words.names import EVENTS, RESULTS, RUNS
from trainmark.words.outcome import Outcome, OutcomeRecord
from trainmark.words.plan import Plan
from trainmark.words.results import Results, RunResult, Trial, fastest
from trainmark.words.suite import Protocol, Suite
from trainmark.workload import UnsupportedByCard

PORTS_BESIDE_RANKS = 4
"""Ports that a run may need besides one a rank: the rendezvous, and a framework's scheduler and servers."""


class Audience(Interface):
    """Who hears of a campaign's progress; a terminal, a log, or nobody."""

    def preparing(self, what: str, done: int, total: int) -> None:
        """Something is made before runs can start: ``done`` of ``total``."""

    def readying(self, what: str) -> None:
        """A program's source or a prepare step is worked on before a run can start."""

    def probing(self, batch: int) -> None:
        """A short run is about to tell whether a batch of this size fits."""

    def trying(self, candidate: Case, axes: Mapping[str, str]) -> None:
        """A short run is about to tell how fast a case is with these values on the axes that it leaves open."""

    def run_begins(self, case: Case, repeat: int, progress: Progress) -> None:
        """A run is about to start."""

    def pulse(self, pulse: Pulse) -> None:
        """The run shows a sign of life."""

    def run_ended(self, result: RunResult, progress: Progress) -> None:
        """A run has ended and is on disk."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run: a suite, which of its cases, on which hosts, where the results go, and whether to go on."""

    suite: Suite
    cases: tuple[Case, ...]
    out: Path
    resume: bool
    home: Path
    command: tuple[str, ...]
    hosts: tuple[Host, ...] = field(default_factory=lambda: (LocalHost(),))


@dataclass(frozen=True, slots=True)
class _Going:
    """A run that goes on beside others. ``last_chance``: no other hosts may stand for those of its that are away."""

    index: int
    case: Case
    repeat: int
    hosts: tuple[Host, ...]
    last_chance: bool


_Recording = Future[OutcomeRecord | None]
_AllGoing = dict[_Recording, _Going]


class _Beside:
    """What a run beside others tells: all but its pulse, which would not be told apart.

    Whatever it tells, and while it runs or is prepared, it ends once all is over.
    """

    def __init__(self, audience: Audience, over: threading.Event) -> None:
        self._audience, self._over = audience, over
        self.run_begins, self.run_ended = audience.run_begins, audience.run_ended

    def preparing(self, what: str, done: int, total: int) -> None:
        self._require_wanted()
        self._audience.preparing(what, done, total)

    def readying(self, what: str) -> None:
        self._require_wanted()
        self._audience.readying(what)

    def probing(self, batch: int) -> None:
        self._require_wanted()
        self._audience.probing(batch)

    def trying(self, candidate: Case, axes: Mapping[str, str]) -> None:
        self._require_wanted()
        self._audience.trying(candidate, axes)

    def pulse(self, _pulse: Pulse) -> None:
        self._require_wanted()

    def _require_wanted(self) -> None:
        if self._over.is_set():
            raise KeyboardInterrupt


def _away(host: Host) -> str | None:
    return host.unreachable()


@dataclass(frozen=True, slots=True)
class CampaignEnding:
    """How a campaign ended: its results so far, and whether somebody stopped it."""

    results: Results
    interrupted: bool


def run_campaign(order: Order, audience: Audience) -> CampaignEnding:
    """Run what ``order`` asks for; every run is on disk the moment it ends.

    A ``KeyboardInterrupt`` ends the run in hand and the campaign; no process is left, and the results so far
    are written. Raises ``InputError`` before anything runs when the suite names a workload or an environment
    that does not exist, or the directory cannot be used, and ``TrainmarkError`` when the disk is full.
    """
    workloads = load_programs(order.suite)
    site = Site(order.suite, workloads, order.hosts, order.home, str(order.out.resolve()))
    for case in order.cases:
        site.workload(case)
        site.expected_interpreter(case)
    with (
        full_disk_is_told(order.out),
        opened(order.out, order.suite, order.resume, order.hosts) as directory,
    ):
        for damage in directory.set_damaged_aside():
            audience.readying(damage)
        persistence = Persistence(directory, order.suite, workloads)
        try:
            campaign = _Campaign(order, directory, site, persistence, audience)
            return _to_its_end(campaign, order, directory)
        finally:
            persistence.close()
            on_each(site.placed, lambda placed: _remove_empty(*placed, order.out))


def _remove_empty(host: Host, placed: PlacementHost, out: Path) -> None:
    """Remove what was made on a host to hold the folders of runs, and holds none any more."""
    runs = placed.directory(out.absolute() / RUNS)
    above = [runs, runs.parent]
    if placed.folder is not None:
        above = [runs, *(folder for folder in runs.parents if folder.is_relative_to(placed.folder))]
    with suppress(HostError):
        host.remove_empty([folder for folder in above if folder != placed.folder])


def _to_its_end(campaign: "_Campaign", order: Order, directory: ResultDirectory) -> CampaignEnding:
    interrupted = False
    try:
        campaign.go()
    except KeyboardInterrupt:
        interrupted = True
    except BaseException:
        # What went wrong is told by this exception, even when the results cannot be written either.
        with held(), suppress(OSError):
            write_results(order.out / RESULTS, _results(campaign, order, directory))
        raise
    with held():
        results = _results(campaign, order, directory)
        write_results(order.out / RESULTS, results)
    return CampaignEnding(results, interrupted)


def _results(campaign: "_Campaign", order: Order, directory: ResultDirectory) -> Results:
    chosen = dict(zip((case.id for case in order.cases), campaign.runs, strict=True))
    # An earlier call may have run cases that this one was not asked for.
    cases = [
        (case, chosen[case.id] if case.id in chosen else campaign.read(case)) for case in order.suite.cases
    ]
    manifests, shown = read_manifests(directory, cases), kept_certificates(order.out)
    trials = {case.id: kept_trials(directory, case) for case, _ in cases}
    return collect(order.suite, cases, manifests, shlex.join(order.command), shown, trials)


class _Campaign:
    """The state of one campaign: which runs are finished. All else is data that passes through."""

    def __init__(
        self,
        order: Order,
        directory: ResultDirectory,
        site: Site,
        persistence: Persistence,
        audience: Audience,
    ) -> None:
        self._order = order
        self._directory = directory
        self._site = site
        self._audience = audience
        self._persistence = persistence
        self._identifier = Identifier(site)
        self._preparer = Preparer(audience.readying, order.hosts, order.suite.limits)
        # A run that could not even be started measured nothing: what it lacked may be there now.
        self.runs = [[run for run in self.read(case) if run.started_at] for case in order.cases]

    def read(self, case: Case) -> list[RunResult]:
        """Return the case's finished runs from their folders."""
        return [self._persistence.result(case, record) for record in self._directory.finished(case).values()]

    def go(self) -> None:
        """Run until no case wants another run."""
        self._require_same_programs()
        if self._order.suite.equivalence:
            limits = self._order.suite.limits
            certificates(self._site, self._order.cases, self._order.out, limits, self._audience.readying)
        self._persistence.certify(kept_certificates(self._order.out))
        if self._persistence.said is not None:
            self._audience.readying(self._persistence.said)
        chosen = {case.id: runs for case, runs in zip(self._order.cases, self.runs, strict=True)}
        every = self._order.suite.cases if self._persistence.said is not None else self._order.cases
        self._persistence.catch_up(
            (case, chosen[case.id] if case.id in chosen else self.read(case)) for case in every
        )
        ids = [case.id for case in self._order.cases]
        schedule = Schedule(self._order.suite.protocol, ids, [as_attempts(runs) for runs in self.runs])
        if self._order.suite.side_by_side and len(self._order.hosts) > 1:
            self._go_side_by_side(schedule)
            return
        while (index := schedule.next()) is not None:
            case, runs = self._order.cases[index], self.runs[index]
            repeat = 1 + max((run.repeat for run in runs), default=0)
            self._audience.run_begins(case, repeat, schedule.progress)
            runs.append(self._kept(case, self._recorded(case, repeat)))
            schedule.add(*as_attempts(runs[-1:]))
            self._audience.run_ended(runs[-1], schedule.progress)

    def _go_side_by_side(self, schedule: Schedule) -> None:
        """Run cases on different hosts at the same time; all that is kept is kept by this thread."""
        hosts = hosting(self._order.hosts)
        for case, runs in zip(self._order.cases, self.runs, strict=True):
            for run in runs:
                hosts.ran(case, run.hosts)
        going: _AllGoing = {}
        over = threading.Event()
        with ThreadPoolExecutor(len(self._order.hosts)) as pool:
            try:
                while True:
                    while (index := self._next_placed(schedule, hosts)) is not None:
                        one = self._placed(index, hosts)
                        self._audience.run_begins(one.case, one.repeat, schedule.progress)
                        beside = self._beside(one.hosts, over)
                        with held():
                            going[pool.submit(beside.measured_there, one)] = one
                    if not going:
                        return
                    for future in wait(going, return_when=FIRST_COMPLETED).done:
                        self._ended(going, future, schedule, hosts)
            except BaseException:
                over.set()
                self._keep_finished(going)
                raise

    def _next_placed(self, schedule: Schedule, hosts: Hosting) -> int | None:
        return schedule.take(lambda index: hosts.free(self._order.cases[index]) is not None)

    def _placed(self, index: int, hosts: Hosting) -> "_Going":
        case, runs = self._order.cases[index], self.runs[index]
        names = hosts.free(case)
        assert names is not None
        repeat = 1 + max((run.repeat for run in runs), default=0)
        return _Going(index, case, repeat, hosts.take(case, names), bool(hosts.lost.intersection(names)))

    def _on(self, site: Site) -> "_Campaign":
        """Return this campaign on some of its hosts."""
        other = copy(self)
        other._site, other._identifier = site, self._identifier.at(site)
        return other

    def _beside(self, hosts: Sequence[Host], over: threading.Event) -> "_Campaign":
        """Return this campaign on these hosts alone, for another thread; ``over`` ends what it runs."""
        audience = _Beside(self._audience, over)
        other = self._on(self._site.on(hosts).watched(audience.pulse))
        other._audience, other._preparer = audience, self._preparer.told_to(audience.readying, audience.pulse)
        return other

    def measured_there(self, one: "_Going") -> OutcomeRecord | None:
        """Run a case, as ``_recorded``; None, and nothing is done, where a host is away that others may stand for."""
        if not one.last_chance and any(why is not None for why in on_each(one.hosts, _away)):
            return None
        return self._recorded(one.case, one.repeat)

    def _keep_finished(self, going: _AllGoing) -> None:
        """Wait for all that goes on, now that it is over, and keep what has finished.

        What failed only now may have failed because all was ended: it is not kept, and is run again.
        """
        with held():
            before = {future for future in going if future.done()}
            wait(going)
            for future in list(going):
                record = future.result() if future.exception() is None else None
                if record is not None and (future in before or record.outcome is Outcome.OK):
                    # What ends the campaign is told, not that a run of it finds the disk full too.
                    with suppress(OSError):
                        self._keep_one(going, future)

    def _keep_one(self, going: _AllGoing, future: _Recording) -> RunResult | None:
        """Keep what a run gave, once; None where it was not run. Raises what the run raised."""
        with held():
            one = going.pop(future)
            record = future.result()
            if record is None:
                return None
            result = self._kept(one.case, record)
            self.runs[one.index].append(result)
            return result

    def _ended(self, going: _AllGoing, future: _Recording, schedule: Schedule, hosts: Hosting) -> None:
        """Keep what a run gave; where its hosts were away, or unlike those of its case, it waits for others."""
        one = going[future]
        names = [host.name for host in one.hosts]
        hosts.give_back(names)
        try:
            result = self._keep_one(going, future)
        except UnlikeRunsError as error:
            before = {name for run in self.runs[one.index] if run.started_at for name in run.hosts}
            unlike = sorted(set(names) - before)
            if not unlike or not hosts.refuse(one.case, unlike):
                raise
            self._audience.readying(f"{one.case.id} is not run on {', '.join(unlike)}: {error}")
            schedule.put_back(one.index)
            return
        if result is None:
            away = [host.name for host in one.hosts if _away(host) is not None]
            hosts.lost |= set(away)
            self._audience.readying(f"{', '.join(away)} cannot be reached: {one.case.id} is run on others")
            schedule.put_back(one.index)
            return
        schedule.done(one.index, *as_attempts([result]))
        self._audience.readying(f"{one.case.id} run {one.repeat} on {', '.join(names) or 'no host'}:")
        self._audience.run_ended(result, schedule.progress)

    def _require_same_programs(self) -> None:
        """Refuse before anything runs to add to the runs of a program that was changed."""
        for case, runs in zip(self._order.cases, self.runs, strict=True):
            if runs and wants_another(self._order.suite.protocol, as_attempts(runs)):
                with suppress(UnsupportedByCard):
                    require_same_identity(self._directory, case, self._identifier.program(case))

    def _recorded(self, case: Case, repeat: int) -> OutcomeRecord:
        there = self._site.of(case)
        if isinstance(there, CannotStart):
            self._directory.begin(self._directory.run(case, repeat))
            return _not_started(case, repeat, there)
        return self._on(there)._measured(case, repeat)

    def _measured(self, case: Case, repeat: int) -> OutcomeRecord:
        folder = self._directory.run(case, repeat)
        settled = self._settled(case)
        if isinstance(settled, Case):
            settled = self._sized(settled)
        if isinstance(settled, CannotStart):
            self._directory.begin(folder)
            return _not_started(case, repeat, settled)
        return self._execute(case, settled, self._order.suite.protocol, repeat, folder)

    def _kept(self, case: Case, record: OutcomeRecord) -> RunResult:
        folder = self._directory.run(case, record.repeat)
        # Held: what has been measured is not lost to a Ctrl-C at its last moment.
        with held():
            result = self._persistence.result(case, record)
            _require_space(folder, result.outcome)
            # A run that leaves no measurement is "invalid", which shows only when it is read.
            said = {"case_id": case.id, "outcome": result.outcome, "reason": result.reason}
            write_record(folder, record.model_copy(update=said))
            self._persistence.keep(case, result)
        return result

    def _settled(self, case: Case) -> Case | CannotStart:
        """Return the case with the fastest values on the axes that it leaves open, found by short runs."""
        if not case.left_open:
            return case
        card, device = self._site.workload(case).card, device_of(case, self._site.machine)
        there = candidates(case, card, device)
        trials = [(found, self._try(case, found)) for found in there]
        best = fastest([trial for _, trial in trials])
        if best is not None:
            return next(found for found, trial in trials if trial is best)
        if not trials:
            return CannotStart(Outcome.UNSUPPORTED, f"{card.name} has nothing to choose from on this device")
        said = "; ".join(
            f"{', '.join(trial.axes.values())}: {trial.outcome}: {trial.reason}" for _, trial in trials
        )
        return CannotStart(trials[0][1].outcome, f"no choice could be measured: {said}")

    def _try(self, case: Case, candidate: Case) -> Trial:
        axes = axes_of_trial(case, candidate)
        folder = self._directory.trial(case, axes)
        known = read_trial(folder)
        if known is not None:
            return known
        self._audience.trying(candidate, axes)
        protocol = trial_protocol(self._order.suite.protocol)
        record = self._execute(case, candidate, protocol, 1, folder)
        _require_space(folder, record.outcome)
        card, events = self._site.workload(candidate).card, read_events(folder / EVENTS)
        outcome, reason, measurement = measured(candidate, card, folder, events, record)
        trial = Trial(
            axes=axes,
            outcome=outcome,
            reason=reason,
            throughput=measurement.throughput if measurement else None,
            unit=measurement.unit if measurement else None,
        )
        # A run that could not be started for something that may be there tomorrow is tried again then.
        if record.started_at is not None or outcome is Outcome.UNSUPPORTED:
            write_trial(folder, trial)
        write_record(folder, record)
        return trial

    def _sized(self, case: Case) -> Case | CannotStart:
        """Return the case with a batch that is a number, found by short runs where it asks for the largest one."""
        if case.batch_per_device != MAX_BATCH:
            return case
        tried: dict[int, bool] = {}
        reason = None
        while (batch := next_batch(tried)) is not None:
            record = self._probe(case, batch)
            if record.outcome not in (Outcome.OK, Outcome.OOM):
                return CannotStart(record.outcome, f"a batch of {batch} was tried: {record.reason}")
            tried[batch] = record.outcome is Outcome.OK
            reason = record.reason or reason
        largest = largest_fitting(tried)
        return case.at_batch(largest) if largest else CannotStart(Outcome.OOM, f"no batch fits: {reason}")

    def _probe(self, case: Case, batch: int) -> OutcomeRecord:
        folder = self._directory.probe(case, batch)
        known = read_record(folder)
        if known is not None and known.started_at is not None:
            return known
        self._audience.probing(batch)
        protocol = probe_protocol(self._order.suite.protocol)
        record = self._execute(case, case.at_batch(batch), protocol, 1, folder)
        _require_space(folder, record.outcome)
        write_record(folder, record)
        return record

    def _execute(
        self, asked: Case, case: Case, protocol: Protocol, repeat: int, folder: Path
    ) -> OutcomeRecord:
        """Run ``case``, which is ``asked`` with all that it left open settled, in ``folder``.

        A host that cannot be reached, or is lost on the way, costs this run and no other.
        """
        try:
            away = [
                why
                for why in on_each(self._site.hosts_of(case), lambda host: host.unreachable())
                if why is not None
            ]
            if not away:
                return self._executed(asked, case, protocol, repeat, folder)
            why = away[0]
        except HostError as error:
            why = str(error)
        except HostOSError as error:
            why = f"{error.filename}: {error.strerror}"
        if read_record(folder) is None and not folder.exists():
            self._directory.begin(folder)
        return _not_started(case, repeat, CannotStart(Outcome.FAILED, why))

    def _executed(
        self, asked: Case, case: Case, protocol: Protocol, repeat: int, folder: Path
    ) -> OutcomeRecord:
        setting = self._site.send_program(case, self._audience.readying) or self._site.setting(case)
        found = (
            setting
            if isinstance(setting, CannotStart)
            else self._find(asked, case, protocol, setting, repeat, folder.absolute())
        )
        self._directory.begin(folder)
        if isinstance(found, CannotStart) or isinstance(setting, CannotStart):
            assert isinstance(found, CannotStart)
            return _not_started(case, repeat, found)
        plan, manifest = found
        write_manifest(folder, manifest)
        try:
            parts: tuple[Entries, ...] = ()
            try:
                if plan.cannot_run is None:
                    self._preparer.make_ready(plan, folder)
                    parts = self._identified(asked, case, protocol, setting, plan, manifest)
                    keep_entries(self._directory, parts)
            except NotReady as why:
                return _not_started(case, repeat, CannotStart(why.outcome, str(why)))
            limits, watch = self._order.suite.limits, self._audience.pulse
            record = with_expected(carry_out(plan, folder, limits, self._order.hosts, watch), plan)
            if not parts:
                return record
            with held():
                doubts = changed_meanwhile(parts, self._identifier.program(case))
                said = (*record.doubts, *doubts)
                return record.model_copy(update={"identity": identity_of(parts), "doubts": said})
        finally:
            self._preparer.clear(plan, folder)

    def _identified(
        self, asked: Case, case: Case, protocol: Protocol, setting: Setting, plan: Plan, manifest: Manifest
    ) -> tuple[Entries, ...]:
        """Return what the run is that is ready to start; refuse it where earlier runs of the case were another."""
        folder = plan.events.parent
        spec = self._site.spec(case, protocol, setting.interpreter, plan.repeat, folder)
        parts = self._identifier.parts(spec, plan, manifest)
        if folder != self._directory.run(asked, plan.repeat).absolute():
            return parts
        require_same_identity(self._directory, asked, parts)
        for record in self._directory.finished(asked).values():
            if record.identity is None and record.started_at is not None:
                there = self._directory.run(asked, record.repeat).absolute()
                again = plan_run(self._site, case, protocol, setting.interpreter, record.repeat, there)
                if not isinstance(again, CannotStart):
                    require_same_commands(self._directory, asked, record, again)
        return parts

    def _find(
        self, asked: Case, case: Case, protocol: Protocol, setting: Setting, repeat: int, folder: Path
    ) -> tuple[Plan, Manifest] | CannotStart:
        manifest = setting.manifest
        require_same_environment(self._directory, asked, manifest)
        # A case with more ranks than a machine can hold is not started, and needs none.
        ranks = min(case.world_size, max(self._site.machine.cores, self._site.machine.gpus))
        port = free_ports(PORTS_BESIDE_RANKS + ranks, self._site.hosts_of(case))
        plan = plan_run(self._site, case, protocol, setting.interpreter, repeat, folder, port=port)
        if isinstance(plan, CannotStart):
            return plan
        # Data is made only for a run that can use it.
        missing = None if plan.cannot_run else self._site.make_data(case, self._audience.preparing)
        return missing or (plan, setting.manifest)


def _require_space(folder: Path, outcome: Outcome) -> None:
    """On a full disk, leave a run that went wrong unfinished, so that --resume repeats it."""
    if outcome in (Outcome.FAILED, Outcome.INVALID):
        require_space(folder)


def _not_started(case: Case, repeat: int, why: CannotStart) -> OutcomeRecord:
    return OutcomeRecord(case_id=case.id, repeat=repeat, outcome=why.outcome, reason=why.reason)
