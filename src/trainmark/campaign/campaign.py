"""Run every case of a suite as often as its protocol requires, and save all results."""

import errno
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.campaign.executor import Executor, run_case
from trainmark.campaign.finished_runs import FinishedRuns
from trainmark.campaign.identity import SOURCE_CHANGED, UnlikeRunsError, require_same_identity
from trainmark.campaign.listener import ProgressListener
from trainmark.campaign.quiet import QuietWait
from trainmark.campaign.resume import (
    SAVED_CERTIFICATES,
    as_attempts,
    budget_left,
    collect,
    stored_certificates,
    timed_seconds,
)
from trainmark.campaign.run_environment import RunEnvironment, load_programs
from trainmark.campaign.schedule import Schedule, wants_another
from trainmark.errors import TrainmarkError
from trainmark.execution import open_results
from trainmark.files import write_atomically
from trainmark.node import Host, HostError, LocalHost, deferred_signals, map_hosts
from trainmark.placement import PlacementHost
from trainmark.schema.case import Case
from trainmark.schema.names import RESULTS, RUNS
from trainmark.schema.outcome import Outcome, OutcomeRecord
from trainmark.schema.results import Results
from trainmark.schema.suite import ProfileMode, Suite
from trainmark.workload import BuiltinSource, UnsupportedByCard

_FULL = (errno.ENOSPC, errno.EDQUOT)


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

    def _run(self, executor: Executor, case: Case, repeat: int) -> OutcomeRecord:
        """Run a case; a run of a program that has changed itself since its earlier runs has failed."""
        try:
            return run_case(executor, case, repeat)
        except UnlikeRunsError as error:
            if not self._program_changes_itself():
                raise
            folder = executor.directory.run(case, repeat)
            folder.mkdir(parents=True, exist_ok=True)
            reason = f"not started, since the program changes itself: {error}"
            return OutcomeRecord(case_id=case.id, repeat=repeat, outcome=Outcome.FAILED, reason=reason)

    def _certify(self) -> None:
        """Compile first what a GPU runs, and check that the frameworks do equal work, if the suite requires it."""
        order, run_env = self.order, self.executor.run_env
        own = [case for case in order.cases if isinstance(run_env.workload(case).card.source, BuiltinSource)]
        with self._compiled_ahead():
            if order.suite.equivalence and own:
                from trainmark.campaign.certifying import certificates

                limits, saved = order.suite.limits, run_env.home / SAVED_CERTIFICATES
                certificates(run_env, own, order.out, limits, self.listener.readying, saved)
        self.finished.certify(stored_certificates(order.out))

    def _compiled_ahead(self) -> AbstractContextManager[None]:
        """Return the context in which the programs for this machine's GPU are compiled."""
        if not self.executor.run_env.machine.gpus:
            return nullcontext()
        from trainmark.campaign.compiling import compiled_ahead

        return compiled_ahead(self.executor, self.order.cases)

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
        try:
            while (index := schedule.next()) is not None:
                case, likely, executor = cases[index], schedule.likely_next(), self.executor
                repeat = self.finished.next_repeat(case)
                if likely is not None:
                    after = self.finished.next_repeat(cases[likely]) + (likely == index)
                    executor = executor.before(case, repeat, cases[likely], after)
                self.listener.run_begins(case, repeat, schedule.progress)
                result = self.finished.keep(case, self._run(executor, case, repeat))
                schedule.add(*as_attempts([result]))
                self.listener.run_ended(result, schedule.progress)
        finally:
            self.executor.drop_ahead()

    def _write_results(self) -> Results:
        """Write the results of all the suite's cases: an earlier call may have run cases not selected now."""
        order = self.order
        cases = [(case, self.finished.of(case)) for case in order.suite.cases]
        results = collect(order.suite, cases, self.executor.directory, shlex.join(order.command))
        write_atomically(order.out / RESULTS, results.to_json())
        return results
