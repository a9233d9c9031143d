"""Save results: runs and manifests on disk, and every run in the database as it ends.

Reports what cannot be saved: a full disk, a damaged database, and runs that cannot be pooled.
"""

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import trainmark
from trainmark.campaign.identity_check import UnlikeRunsError
from trainmark.campaign.resume import Finished, collect_run, manifest_in
from trainmark.errors import TrainmarkError
from trainmark.execution import ResultDirectory, write_record
from trainmark.files import write_run_file
from trainmark.logs.events import read_events
from trainmark.measure.ranks import measured_peaks
from trainmark.measure.statistics import environment_of, fingerprint, pooling_differences
from trainmark.node import deferred_signals
from trainmark.schema.case import Case
from trainmark.schema.certificate import Certificate
from trainmark.schema.manifest import Manifest, MeasuredPeaks, Node
from trainmark.schema.names import DATABASE, EVENTS, LOG, MANIFEST
from trainmark.schema.outcome import Outcome, OutcomeRecord
from trainmark.schema.results import RunResult
from trainmark.schema.suite import Suite
from trainmark.store import Store, document_of, sqlite_url
from trainmark.workload import Workloads

LEAST_FREE_BYTES = 1 << 20
"""With less free space on the result directory's disk, a failed run is blamed on the disk and not on its program."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_SHOWN = 3


class Persistence:
    """Saves a campaign's results; owns the database connection while the campaign runs."""

    def __init__(
        self, directory: ResultDirectory, suite: Suite, workloads: Workloads, command: str | None = None
    ) -> None:
        self._directory = directory
        self._suite = suite
        self._workloads = workloads
        self._store, self.database_note = _open_store(directory.path.resolve() / DATABASE)
        # Relative to the database: the directory may be moved and remains the same campaign.
        try:
            self._campaign = self._store.campaign(suite, ".", trainmark.__version__, command)
        except BaseException:
            self._store.close()
            raise

    def result(self, case: Case, record: OutcomeRecord) -> RunResult:
        """Return a finished run's result, read from its folder."""
        return collect_run(self._suite, case, self._workloads, self._directory, record)

    def keep(self, case: Case, result: RunResult) -> None:
        """Store a finished run, and link its log under the name by which the suite publishes it."""
        found = manifest_in(self._directory.path / result.directory)
        self._store.add(self._campaign, case, result, None if found is None else environment_of(found))
        if result.log is not None:
            _link(self._directory.path / result.log, self._directory.path / result.directory / LOG)

    def forget_unfinished(self, cases: Iterable[Case]) -> None:
        """Remove the stored runs of these cases that the directory has no longer, because they are to be repeated."""
        finished = {
            (name, repeat)
            for case in cases
            for repeat in self._directory.finished(case)
            for name in (case.id, case.earlier_id)
        }
        of_cases = {name for case in cases for name in (case.id, case.earlier_id)}
        stored = self._store.known_runs(self._campaign)
        gone = [name for name in stored if name[0] in of_cases and name not in finished]
        if gone:
            self._store.remove(self._campaign, gone)

    def certify(self, shown: Iterable[Certificate]) -> None:
        """Store the certificates of equal work, replacing those stored before."""
        self._store.certify(self._campaign, shown)

    def catch_up(self, finished: Iterable[Finished]) -> None:
        """Store the finished runs that are missing in the database or were judged differently before.

        A run is missing if trainmark was killed between disk and database; changed gates lead to a different judgement.
        """
        known = self._store.known_runs(self._campaign)
        for case, runs in finished:
            for run in runs:
                earlier = (case.earlier_id, run.repeat) in known and case.earlier_id != case.id
                if not earlier and known.get((case.id, run.repeat)) != document_of(run):
                    self.keep(case, run)

    def close(self) -> None:
        """Close the database."""
        self._store.close()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a run's nodes into the run's folder."""
    write_run_file(folder / MANIFEST, manifest.model_dump_json(indent=1) + "\n")


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


def require_space(folder: Path, outcome: Outcome) -> None:
    """Raise the ``OSError`` of a full disk if a run failed on one: it is unfinished, so --resume repeats it."""
    disk = os.statvfs(folder)
    if outcome in (Outcome.FAILED, Outcome.INVALID) and disk.f_bavail * disk.f_frsize < LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))


class FinishedRuns:
    """The finished runs of a campaign's cases, and of cases that only an earlier call ran."""

    def __init__(self, cases: Sequence[Case], directory: ResultDirectory, persistence: Persistence) -> None:
        self.cases = tuple(cases)
        self._directory, self._persistence = directory, persistence
        # A run that could not be started measured nothing, and its cause may be gone by now.
        self._runs = {case.id: [run for run in self._read(case) if run.started_at] for case in cases}

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
            result = self._persistence.result(case, record)
            require_space(folder, result.outcome)
            # A run without a measurement is "invalid", which is known only after its files were read.
            update = {"case_id": case.id, "outcome": result.outcome, "reason": result.reason}
            write_record(folder, record.model_copy(update=update))
            self._persistence.keep(case, result)
            self._runs[case.id].append(result)
        return result

    def _read(self, case: Case) -> list[RunResult]:
        return [self._persistence.result(case, record) for record in self._directory.finished(case).values()]
