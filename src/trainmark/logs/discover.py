"""Which files are logs to read: files as given, folders walked in order, ``-`` for standard input."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainmark.errors import InputError


@dataclass(frozen=True, slots=True)
class Found:
    """One path to read, or one that cannot be walked (``error`` says why)."""

    path: str
    error: str | None = None


def find_logs(paths: list[str]) -> Iterator[Found]:
    """Yield what to read, one by one and sorted within a folder; hidden files and special files are left out.

    Raises ``InputError`` at once for a path that does not exist. A folder that may not be read is yielded with
    its error, and the walk goes on.
    """
    for path in paths:
        if path != "-" and not os.path.lexists(path):
            raise InputError(f"{path}: no such file or folder")
    return _walk(paths)


def _walk(paths: list[str]) -> Iterator[Found]:
    for path in paths:
        if path == "-" or not Path(path).is_dir():
            yield Found(path)
            continue
        refused: list[OSError] = []
        for folder, folders, files in os.walk(path, onerror=refused.append):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from _refused(refused)
            for name in sorted(files):
                file = Path(folder) / name
                if not name.startswith(".") and file.is_file():
                    yield Found(str(file))
        yield from _refused(refused)


def _refused(errors: list[OSError]) -> Iterator[Found]:
    while errors:
        error = errors.pop(0)
        yield Found(str(error.filename), f"the folder cannot be read: {error.strerror or error}")
