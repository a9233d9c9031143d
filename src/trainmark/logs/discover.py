"""Which files are logs to read: files as given, folders walked in order, runs of ours by their events or log.

``-`` is standard input.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainmark.errors import InputError
from trainmark.schema.names import EVENTS, LOG, OUTCOME, RUNS, SUITE


@dataclass(frozen=True, slots=True)
class Found:
    """One path to read, or one that cannot be walked (``error`` says why), or a ``note`` on what is not read."""

    path: str
    error: str | None = None
    note: str | None = None


def find_logs(paths: list[str]) -> Iterator[Found]:
    """Yield what to read, one by one and sorted within a folder; hidden files and special files are left out.

    Of a run's folder its events are read, or its log where it has none; of a result directory its runs alone. Raises
    ``InputError`` at once for a path that does not exist. A folder that may not be read is yielded with its error,
    and the walk goes on.
    """
    for path in paths:
        if path != "-" and not os.path.lexists(path):
            raise InputError(f"{path}: no such file or folder")
    return _walk(paths)


def log_of_run(folder: Path) -> Path | None:
    """Return what is to be read of a run's folder: its events, else its log; None where the folder is no run's."""
    if not (folder / OUTCOME).is_file():
        return None
    events = folder / EVENTS
    return events if events.is_file() and events.stat().st_size else folder / LOG


def _walk(paths: list[str]) -> Iterator[Found]:
    for path in paths:
        if path != "-" and Path(path).is_dir():
            yield from _in_folder(path)
            continue
        own = log_of_run(Path(path).parent) if Path(path).name == LOG else None
        if own is None or own.name == LOG:
            yield Found(path)
        else:
            yield Found(path, note=f"this is what a run of trainmark printed; its {EVENTS} beside it is read")
            yield Found(str(own))


def _in_folder(path: str) -> Iterator[Found]:
    refused: list[OSError] = []
    runs: list[Path] = []
    for folder, folders, files in os.walk(path, onerror=refused.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from _refused(refused)
        shown = [name for name in sorted(files) if not name.startswith(".")]
        if own := log_of_run(Path(folder)):
            folders[:] = []
            # A probe only asks whether a batch fits.
            if Path(folder).name.isdecimal() and own.is_file():
                yield Found(str(own))
        elif all(name in (*files, *folders) for name in (SUITE, RUNS)):
            folders[:] = [RUNS]
            runs.append(Path(folder, RUNS))
            note = f"a result directory: of each run its {EVENTS} or {LOG} is read, and nothing else"
            yield Found(folder, note=note)
        elif any(Path(folder).is_relative_to(place) for place in runs):
            # A run that was interrupted has no outcome, and its files are no logs of others.
            continue
        else:
            yield from (Found(str(file)) for name in shown if (file := Path(folder) / name).is_file())
    yield from _refused(refused)


def _refused(errors: list[OSError]) -> Iterator[Found]:
    while errors:
        error = errors.pop(0)
        yield Found(str(error.filename), f"the folder cannot be read: {error.strerror or error}")
