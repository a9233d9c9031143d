"""Selection of the log files to read: given files, walked folders, and events or logs of trainmark runs.

``-`` is standard input.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trainmark.errors import InputError
from trainmark.schema.names import EVENTS, LOG, OUTCOME, RUNS, SUITE


class FoundPath(NamedTuple):
    """A path to read, a path that cannot be walked (with its ``error``), or a ``note`` on files that are not read."""

    path: str
    error: str | None = None
    note: str | None = None


def find_logs(paths: list[str]) -> Iterator[FoundPath]:
    """Yield the paths to read, sorted within a folder, without hidden files and special files.

    In a run's folder only its events are read, or its log if it has no events; in a result directory only its runs.
    Raises ``InputError`` at once for a path that does not exist. An unreadable folder is yielded with its error, and
    the walk continues.
    """
    for path in paths:
        if path != "-" and not os.path.lexists(path):
            raise InputError(f"{path}: no such file or folder")
    return _walk(paths)


def log_of_run(folder: Path) -> Path | None:
    """Return the file to read in a run's folder: its events, else its log; None if it is not a run's folder."""
    if not (folder / OUTCOME).is_file():
        return None
    events = folder / EVENTS
    return events if events.is_file() and events.stat().st_size else folder / LOG


def _walk(paths: list[str]) -> Iterator[FoundPath]:
    for path in paths:
        if path != "-" and Path(path).is_dir():
            yield from _in_folder(path)
            continue
        own = log_of_run(Path(path).parent) if Path(path).name == LOG else None
        if own is None or own.name == LOG:
            yield FoundPath(path)
        else:
            yield FoundPath(
                path,
                note=f"this is the output of a trainmark run; {EVENTS} in the same folder is read instead",
            )
            yield FoundPath(str(own))


def _in_folder(path: str) -> Iterator[FoundPath]:
    refused: list[OSError] = []
    runs: list[Path] = []
    for folder, folders, files in os.walk(path, onerror=refused.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from _refused(refused)
        shown = [name for name in sorted(files) if not name.startswith(".")]
        if own := log_of_run(Path(folder)):
            folders[:] = []
            # A probe run only checks whether a batch fits.
            if Path(folder).name.isdecimal() and own.is_file():
                yield FoundPath(str(own))
        elif all(name in (*files, *folders) for name in (SUITE, RUNS)):
            folders[:] = [RUNS]
            runs.append(Path(folder, RUNS))
            note = f"a result directory: only {EVENTS} or {LOG} of each run is read"
            yield FoundPath(folder, note=note)
        elif any(Path(folder).is_relative_to(place) for place in runs):
            # An interrupted run has no outcome, and its files are not logs of other programs.
            continue
        else:
            # One path object, not one for each of 100 000 files.
            start = str(Path(folder) / "_")[:-1]
            yield from (FoundPath(start + name) for name in shown if os.path.isfile(start + name))  # noqa: PTH113
    yield from _refused(refused)


def _refused(errors: list[OSError]) -> Iterator[FoundPath]:
    while errors:
        error = errors.pop(0)
        yield FoundPath(str(error.filename), f"the folder cannot be read: {error.strerror or error}")
