"""Read results from a result directory, a ``results.json`` or a database."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainmark.schema.results import Results


_SQLITE = b"SQLite format 3\0"


def results_from(source: str, campaign: str | None) -> "tuple[Results, Path]":
    """Return the results of a result directory or of a database's campaign, and their directory."""
    if Path(source).is_dir():
        from trainmark.campaign import results_of

        return results_of(Path(source)), Path(source)
    from trainmark.campaign import stored_results

    _refuse_other_files(Path(source))
    return stored_results(source, campaign)


def _refuse_other_files(path: Path) -> None:
    """Raise ``InputError`` for a file that is no SQLite database; an empty file is one."""
    from trainmark.errors import InputError

    if not path.is_file():
        return
    with path.open("rb") as file:
        start = file.read(len(_SQLITE))
    if start and start != _SQLITE:
        raise InputError(f"{path}: neither a result directory nor a database")


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
