"""Keeping what runs give: manifests and published logs on disk, and every run in the database as it ends."""

import os
from collections.abc import Iterable
from pathlib import Path

import trainmark
from trainmark.campaign.collect import MANIFEST, Finished, collect_run, read_manifest
from trainmark.environment import Manifest
from trainmark.equivalence import Certificate
from trainmark.execution import LOG, OutcomeRecord, ResultDirectory
from trainmark.files import write_atomically
from trainmark.store import RunResult, Store, sqlite_url
from trainmark.suite import Case, Suite
from trainmark.workload import Workloads

DATABASE = "results.sqlite"
RESULTS = "results.json"


class Keeper:
    """Writes a campaign's results down; owns the database's connection for as long as the campaign runs."""

    def __init__(self, directory: ResultDirectory, suite: Suite, workloads: Workloads) -> None:
        self._directory = directory
        self._suite = suite
        self._workloads = workloads
        self._store = Store(sqlite_url(directory.path.resolve() / DATABASE))
        # Relative to the database: the directory may be moved and remains the same campaign.
        self._campaign = self._store.campaign(suite, ".", trainmark.__version__)

    def result(self, case: Case, record: OutcomeRecord) -> RunResult:
        """Return a finished run's result, read from its folder."""
        return collect_run(self._suite, case, self._workloads, self._directory, record)

    def keep(self, case: Case, result: RunResult) -> None:
        """Store a finished run, and give its log the name that the suite publishes it under."""
        manifest = read_manifest(self._directory.path / result.directory)
        self._store.add(self._campaign, case, result, manifest[1] if manifest else None)
        if result.log is not None:
            _link(self._directory.path / result.log, self._directory.path / result.directory / LOG)

    def certify(self, shown: Iterable[Certificate]) -> None:
        """Store what shows that frameworks do equal work, in place of what was stored before."""
        self._store.certify(self._campaign, shown)

    def catch_up(self, finished: Iterable[Finished]) -> None:
        """Keep the finished runs that the database misses: trainmark was killed between disk and database."""
        known = self._store.known_runs(self._campaign)
        for case, runs in finished:
            for run in runs:
                if (case.id, run.repeat) not in known:
                    self.keep(case, run)

    def close(self) -> None:
        """Close the database."""
        self._store.close()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a run's node into the run's folder."""
    write_atomically(folder / MANIFEST, manifest.model_dump_json(indent=1) + "\n")


def _link(name: Path, log: Path) -> None:
    if not log.exists():
        return
    name.parent.mkdir(parents=True, exist_ok=True)
    name.unlink(missing_ok=True)
    name.symlink_to(os.path.relpath(log, name.parent))
