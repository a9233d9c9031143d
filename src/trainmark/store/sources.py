"""The sources of results that a user names: a result directory or a database, and what is near a wrong name."""

from itertools import islice
from pathlib import Path

from trainmark.errors import InputError, nearest
from trainmark.schema.names import RESULTS

_SQLITE = b"SQLite format 3\0"

_NAMED = 3
"""The result directories that an error names."""


def require_database(address: str) -> None:
    """Raise ``InputError`` if ``address`` is neither a URL nor a SQLite file; an empty file is one."""
    path = Path(address)
    if "://" in address:
        return
    if not path.exists():
        known = [str(folder) for folder in results_below(path.parent)]
        raise InputError(f"{address}: no such result directory or database{nearest(address, known)}")
    start = b""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(len(_SQLITE))
    if start not in (b"", _SQLITE) or not path.is_file():
        raise InputError(f"{address}: neither a result directory nor a database of runs")


def results_below(folder: Path) -> list[Path]:
    """Return the result directories in a folder and in the folders of it, the latest first."""
    found = [one for depth in ("*", "*/*") for one in folder.glob(f"{depth}/{RESULTS}")]
    return [one.parent for one in sorted(found, key=_time_of, reverse=True)]


def no_results(path: Path) -> InputError:
    """Return the error for a missing ``results.json``, which names result directories below its folder."""
    below = list(islice(results_below(path.parent), _NAMED))
    if not below:
        return InputError(f"{path}: no such file; is it the --out directory of a trainmark run?")
    return InputError(f"{path}: no such file; results are in {', '.join(map(str, below))}")


def _time_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
