"""A campaign's finished runs: each is in its folder and in the database as it ends; a damaged database is rebuilt."""

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from trainmark.campaign.executor import require_space
from trainmark.campaign.resume import collect_run, manifest_in
from trainmark.execution import ResultDirectory, write_record
from trainmark.measure.pooling import environment_of
from trainmark.node import deferred_signals
from trainmark.schema.case import Case
from trainmark.schema.certificate import Certificate
from trainmark.schema.names import DATABASE, LOG
from trainmark.schema.outcome import OutcomeRecord
from trainmark.schema.results import RunResult
from trainmark.schema.suite import Suite
from trainmark.store import Store, document_of, sqlite_url
from trainmark.version import __version__
from trainmark.workload import Workloads


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
            self._campaign = self._store.campaign(suite, ".", __version__, command)
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
