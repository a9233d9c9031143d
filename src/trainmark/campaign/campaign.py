"""Run every case of a suite as often as its protocol requires, and save all results.

Every run is in the database as it ends; a full disk and a damaged database are reported.
"""

import errno
import os
import shlex
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import trainmark
from trainmark.campaign.executor import Executor, require_space, run_case
from trainmark.campaign.identity import SOURCE_CHANGED, UnlikeRunsError, require_same_identity
from trainmark.campaign.listener import ProgressListener
from trainmark.campaign.quiet import QuietWait
from trainmark.campaign.resume import (
    SAVED_CERTIFICATES,
    as_attempts,
    budget_left,
    collect,
    collect_run,
    manifest_in,
    read_manifests,
    stored_certificates,
    stored_profiles,
    stored_trials,
    timed_seconds,
)
from trainmark.campaign.run_environment import RunEnvironment, load_programs
from trainmark.campaign.schedule import Schedule, wants_another
from trainmark.errors import TrainmarkError
from trainmark.execution import ResultDirectory, open_results, write_record
from trainmark.measure.statistics import environment_of
from trainmark.node import Host, HostError, LocalHost, deferred_signals, map_hosts
from trainmark.placement import PlacementHost
from trainmark.schema.case import Case
from trainmark.schema.certificate import Certificate
from trainmark.schema.names import DATABASE, LOG, RESULTS, RUNS
from trainmark.schema.outcome import Outcome, OutcomeRecord
from trainmark.schema.results import Results, RunResult
from trainmark.schema.suite import ProfileMode, Suite
from trainmark.store import Store, document_of, sqlite_url, write_results
from trainmark.workload import BuiltinSource, UnsupportedByCard, Workloads

_FULL = (errno.ENOSPC, errno.EDQUOT)


class FinishedRuns:
    """A campaign's finished runs, in their folders and in the database, which is open while the campaign runs.

    ``cases`` are those that the campaign runs; an earlier call may have run others of the suite.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        directory: ResultDirectory,
        suite: Suite,
        workloads: Workloads,
        command: str | None = None,
    ) -> None:
        self.cases = tuple(cases)
        self._directory, self._suite, self._workloads = directory, suite, workloads
        # A run that could not be started measured nothing, and its cause may be gone by now.
        self._runs = {case.id: [run for run in self._read(case) if run.started_at] for case in cases}
        self._store, self.database_note = _open_store(directory.path.resolve() / DATABASE)
        # Relative to the database: the directory may be moved and remains the same campaign.
        try:
            self._campaign = self._store.campaign(suite, ".", trainmark.__version__, command)
        except BaseException:
            self._store.close()
            raise

    def of(self, case: Case) -> Sequence[RunResult]:
        """Return a case's finished runs."""
        return self._runs[case.id] if case.id in self._runs else self._read(case)

    def next_repeat(self, case: Case) -> int:
        """Return the number of the case's next run."""
        return 1 + max((run.repeat for run in self.of(case)), default=0)

    def keep(self, case: Case, record: OutcomeRecord) -> RunResult:
        """Save the record of a run of one of the cases; return its result.

        Raises the ``OSError`` of a full disk for a run that failed because of it; that run stays unfinished.
        """
        folder = self._directory.run(case, record.repeat)
        # Signals are deferred, so that a Ctrl-C at this moment does not lose a finished run.
        with deferred_signals():
            result = self._result(case, record)
            require_space(folder, result.outcome)
            # A run without a measurement is "invalid", which is known only after its files were read.
            update = {"case_id": case.id, "outcome": result.outcome, "reason": result.reason}
            write_record(folder, record.model_copy(update=update))
            self._add(case, result)
            self._runs[case.id].append(result)
        return result

    def forget_unfinished(self) -> None:
        """Remove the stored runs of the cases that the directory has no longer, because they are to be repeated."""
        finished = {
            (name, repeat)
            for case in self.cases
            for repeat in self._directory.finished(case)
            for name in (case.id, case.earlier_id)
        }
        of_cases = {name for case in self.cases for name in (case.id, case.earlier_id)}
        stored = self._store.known_runs(self._campaign)
        gone = [name for name in stored if name[0] in of_cases and name not in finished]
        if gone:
            self._store.remove(self._campaign, gone)

    def certify(self, shown: Iterable[Certificate]) -> None:
        """Store the certificates of equal work, replacing those stored before."""
        self._store.certify(self._campaign, shown)

    def catch_up(self) -> None:
        """Store the finished runs that are missing in the database or were judged differently before.

        A run is missing if trainmark was killed between disk and database; changed gates lead to a different judgement.
        A database that was rebuilt lacks the runs of all of the suite's cases.
        """
        known = self._store.known_runs(self._campaign)
        for case in self.cases if self.database_note is None else self._suite.cases:
            for run in self.of(case):
                earlier = (case.earlier_id, run.repeat) in known and case.earlier_id != case.id
                if not earlier and known.get((case.id, run.repeat)) != document_of(run):
                    self._add(case, run)

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def _read(self, case: Case) -> list[RunResult]:
        return [self._result(case, record) for record in self._directory.finished(case).values()]

    def _result(self, case: Case, record: OutcomeRecord) -> RunResult:
        return collect_run(self._suite, case, self._workloads, self._directory, record)

    def _add(self, case: Case, result: RunResult) -> None:
        """Store a finished run, and link its log under the name by which the suite publishes it."""
        found = manifest_in(self._directory.path / result.directory)
        self._store.add(self._campaign, case, result, None if found is None else environment_of(found))
        if result.log is not None:
            _link(self._directory.path / result.log, self._directory.path / result.directory / LOG)


def _open_store(path: Path) -> tuple[Store, str | None]:
    """Open a result directory's database, and return it with a note if it was damaged and is rebuilt."""
    if not _is_damaged(path):
        return Store(sqlite_url(path)), None
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    return Store(
        sqlite_url(path)
    ), f"{path}: damaged; rebuilt from the runs (the old file is now {aside.name})"


def _is_damaged(path: Path) -> bool:
    """Return whether SQLite finds a file damaged or no database; a locked database is not damaged."""
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(path)) as database:
            return list(database.execute("PRAGMA quick_check")) != [("ok",)]
    except sqlite3.DatabaseError as error:
        return error.sqlite_errorcode in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _link(name: Path, log: Path) -> None:
    if not log.exists():
        return
    name.parent.mkdir(parents=True, exist_ok=True)
    name.unlink(missing_ok=True)
    name.symlink_to(os.path.relpath(log, name.parent))


@contextmanager
def explain_full_disk(out: Path) -> Iterator[None]:
    """Turn a full-disk error into a ``TrainmarkError`` that explains how to resume with the directory ``out``."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise TrainmarkError(
            f"{out}: the disk is full; all finished runs are saved: free some space and continue with --resume"
        ) from None


@dataclass(frozen=True, slots=True)
class Order:
    """An order for a campaign: suite, selected cases, hosts, result directory, and whether to resume.

    ``quiet`` is the wait for a quiet machine before each run. With ``retry_failed``, failed runs are repeated.
    """

    suite: Suite
    cases: tuple[Case, ...]
    out: Path
    resume: bool
    home: Path
    command: tuple[str, ...]
    hosts: tuple[Host, ...] = field(default_factory=lambda: (LocalHost(),))
    quiet: QuietWait | None = None
    retry_failed: bool = False


@dataclass(frozen=True, slots=True)
class CampaignEnding:
    """The end of a campaign: its results so far, and whether it was interrupted."""

    results: Results
    interrupted: bool


def run_campaign(order: Order, listener: ProgressListener) -> CampaignEnding:
    """Run a campaign; every run is on disk the moment it ends.

    A ``KeyboardInterrupt`` ends the current runs and the campaign: no process is left, and the results so far are
    written. Raises ``InputError`` before anything runs if the suite names an unknown workload or environment or the
    directory cannot be used, and ``TrainmarkError`` if the disk is full.
    """
    workloads = load_programs(order.suite)
    run_env = RunEnvironment(order.suite, workloads, order.hosts, order.home, str(order.out.resolve()))
    for case in order.cases:
        run_env.workload(case)
        run_env.expected_interpreter(case)
    with (
        explain_full_disk(order.out),
        open_results(order.out, order.suite, order.resume, order.hosts) as directory,
    ):
        aside = directory.set_damaged_aside()
        aside += directory.set_failed_aside(order.cases) if order.retry_failed else []
        for message in aside:
            listener.readying(message)
        finished = FinishedRuns(order.cases, directory, order.suite, workloads, shlex.join(order.command))
        try:
            if aside:
                # Otherwise the database would have the old results until the repeated runs end.
                finished.forget_unfinished()
            executor = Executor.at(run_env, order.suite, directory, listener, order.quiet)
            return _Campaign(order, finished, executor, listener).run_to_end()
        finally:
            finished.close()
            map_hosts(run_env.placed, lambda placed: _remove_empty(*placed, order.out))


def _remove_empty(host: Host, placed: PlacementHost, out: Path) -> None:
    """Remove folders for runs that were created on a host and are empty now."""
    runs = placed.directory(out.absolute() / RUNS)
    above = [runs, runs.parent]
    if placed.folder is not None:
        above = [runs, *(folder for folder in runs.parents if folder.is_relative_to(placed.folder))]
    with suppress(HostError):
        host.remove_empty([folder for folder in above if folder != placed.folder])


@dataclass(frozen=True, slots=True)
class _Campaign:
    """One campaign: its order, its finished runs, and the executor and listener of the coming ones."""

    order: Order
    finished: FinishedRuns
    executor: Executor
    listener: ProgressListener

    def run_to_end(self) -> CampaignEnding:
        """Run until no case needs another run or the user interrupts; write the results so far in any case."""
        interrupted = False
        try:
            self._require_same_programs()
            self._certify()
            self._catch_up()
            self._run_cases()
            if self.executor.suite.profile is not ProfileMode.OFF:
                from trainmark.campaign.profiling import profile_cases

                profile_cases(self.executor, self.order.cases, self.finished.of, self.order.retry_failed)
        except KeyboardInterrupt:
            interrupted = True
        except BaseException:
            # This exception reports the cause, even if the results cannot be written either.
            with deferred_signals(), suppress(OSError):
                self._write_results()
            raise
        with deferred_signals():
            return CampaignEnding(self._write_results(), interrupted)

    def _require_same_programs(self) -> None:
        """Raise, before anything runs, if runs would be added to runs of a program that has changed."""
        protocol, executor = self.order.suite.protocol, self.executor
        if self._program_changes_itself():
            return
        for case in self.order.cases:
            runs = self.finished.of(case)
            if runs and wants_another(protocol, as_attempts(runs)):
                with suppress(UnsupportedByCard):
                    require_same_identity(executor.directory, case, executor.identifier.program(case))

    def _program_changes_itself(self) -> bool:
        runs = (run for case in self.order.cases for run in self.finished.of(case))
        return any(doubt.code == SOURCE_CHANGED for run in runs for doubt in run.suspicions)

    def _run(self, case: Case, repeat: int) -> OutcomeRecord:
        """Run a case; a run of a program that has changed itself since its earlier runs has failed."""
        try:
            return run_case(self.executor, case, repeat)
        except UnlikeRunsError as error:
            if not self._program_changes_itself():
                raise
            folder = self.executor.directory.run(case, repeat)
            folder.mkdir(parents=True, exist_ok=True)
            reason = f"not started, since the program changes itself: {error}"
            return OutcomeRecord(case_id=case.id, repeat=repeat, outcome=Outcome.FAILED, reason=reason)

    def _certify(self) -> None:
        """Check first that the frameworks do equal work, if the suite requires it."""
        order, run_env = self.order, self.executor.run_env
        own = [case for case in order.cases if isinstance(run_env.workload(case).card.source, BuiltinSource)]
        if order.suite.equivalence and own:
            from trainmark.campaign.certifying import certificates

            limits, saved = order.suite.limits, run_env.home / SAVED_CERTIFICATES
            certificates(run_env, own, order.out, limits, self.listener.readying, saved)
        self.finished.certify(stored_certificates(order.out))

    def _catch_up(self) -> None:
        """Store the finished runs that the database lacks; all of the suite's runs if it was rebuilt."""
        if self.finished.database_note is not None:
            self.listener.readying(self.finished.database_note)
        self.finished.catch_up()

    def _run_cases(self) -> None:
        """Run case after case, or several on different hosts, until no case needs another run."""
        suite, cases = self.order.suite, self.order.cases
        attempts = [as_attempts(self.finished.of(case)) for case in cases]
        runs = (run for case in suite.cases for run in self.finished.of(case))
        left_s = budget_left(suite, runs, timed_seconds(self.executor.directory, suite.cases))
        schedule = Schedule(suite.protocol, [case.id for case in cases], attempts, left_s)
        if suite.budget is not None:
            from trainmark.campaign.budget_fit import BudgetFit

            BudgetFit(suite.budget, self.finished, schedule, self.executor, self.listener).fit()
        if suite.side_by_side and len(self.order.hosts) > 1:
            from trainmark.campaign.side_by_side import SideBySide

            SideBySide(self.finished, schedule, self.executor, self.listener).go()
            return
        while (index := schedule.next()) is not None:
            case = cases[index]
            repeat = self.finished.next_repeat(case)
            self.listener.run_begins(case, repeat, schedule.progress)
            result = self.finished.keep(case, self._run(case, repeat))
            schedule.add(*as_attempts([result]))
            self.listener.run_ended(result, schedule.progress)

    def _write_results(self) -> Results:
        """Write the results of all the suite's cases: an earlier call may have run cases not selected now."""
        order, directory = self.order, self.executor.directory
        cases = [(case, self.finished.of(case)) for case in order.suite.cases]
        manifests, shown = read_manifests(directory, cases), stored_certificates(order.out)
        trials = {case.id: stored_trials(order.suite, case, directory) for case, _ in cases}
        timed_s = timed_seconds(directory, order.suite.cases)
        profiles = stored_profiles(order.suite.cases, directory)
        command = shlex.join(order.command)
        results = collect(order.suite, cases, manifests, command, shown, trials, timed_s, profiles)
        write_results(order.out / RESULTS, results)
        return results
