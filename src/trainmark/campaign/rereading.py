"""Results out of what is kept: the folders of a result directory, or a database of runs."""

from pathlib import Path

from trainmark.campaign.certifying import kept_certificates
from trainmark.campaign.collect import collect, collect_run, read_manifests
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory
from trainmark.store import Results, existing_store
from trainmark.suite import Suite, parse_suite
from trainmark.workload import load_workloads


def collect_results(suite: Suite, directory: ResultDirectory, command: str) -> Results:
    """Return a result directory's results as its runs tell them; a case without a run is there too, as not run."""
    workloads = load_workloads(Path(card) for card in suite.cards)
    finished = [
        (case, [collect_run(suite, case, workloads, directory, r) for r in directory.finished(case).values()])
        for case in suite.cases
    ]
    return collect(
        suite, finished, read_manifests(directory, finished), command, kept_certificates(directory.path)
    )


def stored_results(address: str, campaign: str | None) -> tuple[Results, Path]:
    """Return the results of one campaign in a database, and the directory that its runs were kept in.

    ``address`` is a SQLite file or one of SQLAlchemy's URLs; ``campaign`` is a number, a suite's name or a directory,
    and may be None when there is one campaign only. Raises ``InputError`` when no database or not exactly one campaign
    is meant; no database is made.
    """
    if "://" not in address and not Path(address).is_file():
        raise InputError(f"{address}: neither a result directory nor a database of runs")
    store = existing_store(address)
    try:
        campaigns = store.campaigns()
        meant = [one for one in campaigns if campaign in (None, str(one.id), one.suite, one.directory)]
        if len(meant) != 1:
            there = ", ".join(f"{one.id}: {one.suite} in {one.directory}" for one in campaigns) or "nothing"
            raise InputError(
                f"{len(meant)} campaigns are meant; choose one by --campaign (there is: {there})"
            )
        stored = store.runs_of(meant[0])
    finally:
        store.close()
    suite = parse_suite(stored.suite_yaml, f"suite '{meant[0].suite}' of the database")
    finished = [(case, stored.runs.get(case.id, ())) for case in suite.cases]
    folder = Path(meant[0].directory) if "://" in address else Path(address).parent / meant[0].directory
    command = f"trainmark run {suite.name}.yaml --out {folder}"
    # A database of an earlier version has none; its directory may.
    shown = stored.certificates or kept_certificates(folder)
    return collect(suite, finished, stored.manifests, command, shown), folder
