"""Read results from a result directory, a ``results.json`` or a database."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainmark.schema.results import CaseResult, Results


def results_from(source: str, campaign: str | None) -> "tuple[Results, Path]":
    """Return the results of a result directory or of a database's campaign, and their directory."""
    if Path(source).is_dir():
        from trainmark.campaign import results_of

        return results_of(Path(source)), Path(source)
    from trainmark.campaign import stored_results

    return stored_results(source, campaign)


def database_of(source: str) -> tuple[str | None, str]:
    """Return the database and the campaign of ``STORE#CAMPAIGN``; no database for a directory or a document."""
    if Path(source).is_dir() or Path(source).suffix == ".json":
        return None, source
    address, _, campaign = source.partition("#")
    return address, campaign


def results_at(source: str) -> "Results":
    """Return the results of a result directory, a ``results.json`` or ``STORE#CAMPAIGN``."""
    if Path(source).suffix == ".json" and not Path(source).is_dir():
        from trainmark.store import read_results

        return read_results(Path(source))
    address, campaign = database_of(source)
    return results_from(address or source, campaign if address and campaign else None)[0]


def selected(results: "Results", only: str | None) -> "Results":
    """Return the results of the cases that ``only`` selects (None: all); findings are removed, to be recomputed."""
    from trainmark.suite import select

    if only is None:
        return results
    chosen = {case.id for case in select([result.case for result in results.cases], only)}
    cases = tuple(result for result in results.cases if result.case.id in chosen)
    return results.model_copy(update={"cases": cases, "findings": None})


def case_at(path: Path, chosen: str, name: str) -> "tuple[Results, CaseResult, Path]":
    """Return the case of a result that ``chosen`` names, or its only one, with the results and their directory.

    Raises ``InputError`` if that is not one case.
    """
    from trainmark.campaign import results_of
    from trainmark.errors import InputError
    from trainmark.printable import counted
    from trainmark.schema.names import RESULTS, RUNS
    from trainmark.store import read_results

    if path.parent.name == RUNS:
        if chosen:
            raise InputError(f"{name}: the folder names its case already")
        path, chosen = path.parent.parent, path.name
    results = results_of(path) if path.is_dir() else read_results(path)
    exact = [case for case in results.cases if case.id == chosen]
    cases = exact or list(selected(results, chosen or None).cases)
    if len(cases) != 1:
        known = ", ".join(case.id for case in cases[:4]) + (" …" if len(cases) > 4 else "")
        raise InputError(
            f"{name}: has {counted(len(cases), 'case')} ({known}): add #CASE, its id or axis=value, to choose one"
        )
    return results, cases[0], path if path.name != RESULTS else path.parent
