"""Restoration of a run's folder and files after its program removed or replaced them."""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from trainmark.files import remove_unless_file

_COPY_BYTES = 1 << 20
_OWNER = stat.S_IRWXU


def restore_folder(folder: Path) -> None:
    """Create a folder again if it was removed or replaced by a file, and make it writable again."""
    if not folder.is_dir():
        folder.unlink(missing_ok=True)
        folder.mkdir(parents=True)
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & _OWNER != _OWNER:
        with suppress(PermissionError):
            folder.chmod(mode | _OWNER)


@contextmanager
def restored(path: Path, file: IO[bytes]) -> Iterator[None]:
    """Restore ``path`` on exit: ``file`` was opened as it, is readable, and outlives its name.

    A full disk ends the restoration, not the run.
    """
    try:
        yield
    finally:
        with suppress(OSError):
            _restore_file(path, file.fileno())


def _restore_file(path: Path, descriptor: int) -> None:
    restore_folder(path.parent)
    with suppress(FileNotFoundError):
        if os.path.samestat(path.lstat(), os.fstat(descriptor)):
            return
    remove_unless_file(path)
    with path.open("wb") as copy:
        at = 0
        # The offset of the descriptor belongs to the program as well.
        while data := os.pread(descriptor, _COPY_BYTES, at):
            copy.write(data)
            at += len(data)


def remove_obstacles(folder: Path, ours: Iterable[Path] = ()) -> None:
    """Remove what would block a reader of a run's folder: pipes, devices, links to them, and folders named ``ours``."""
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.is_file() or entry.is_dir() or (entry.is_symlink() and not Path(entry).exists()):
                continue
            Path(entry).unlink()
    for path in ours:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
