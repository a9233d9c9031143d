"""Where environments live on disk, which folders are ours, and the guard against two creations at once."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainmark.errors import InputError, TrainmarkError

STAMP = "environment.json"
"""Written last: an environment without it is half made."""
CREATING = ".trainmark-creating"
"""Written first and removed after the stamp: marks a half-made folder as ours."""


def folder_of(home: Path, name: str) -> Path:
    """Return the folder of the environment ``name``."""
    return home / "envs" / name


def python_of(folder: Path) -> Path:
    """Return the interpreter of the venv in ``folder``."""
    return folder / "bin" / "python"


def log_of(home: Path, name: str) -> Path:
    """Return the file that holds what venv and pip printed when the environment was last made."""
    return home / "envs" / f"{name}.log"


def clear(folder: Path) -> None:
    """Remove an environment that we made, whole or half made; raise ``InputError`` for any other folder."""
    if not (folder.is_symlink() or folder.exists()):
        return
    ours = folder.is_dir() and ((folder / STAMP).exists() or (folder / CREATING).exists())
    if folder.is_symlink() or not (ours or _is_empty(folder)):
        raise InputError(
            f"{folder}: not an environment that trainmark made; move it away, or give another --root"
        )
    away = folder.with_name(f".{folder.name}.removed-{os.getpid()}")
    try:
        # Renamed first: it is gone at one moment, and a removal that is interrupted leaves no half of it.
        folder.rename(away)
        for old in folder.parent.glob(f".{folder.name}.removed-*"):
            shutil.rmtree(old)
    except OSError as error:
        raise TrainmarkError(f"{folder}: cannot be removed: {error.strerror or error}") from error


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


@contextmanager
def guarded(home: Path, name: str, say: Callable[[str], None]) -> Iterator[int]:
    """Hold the lock of the environment ``name``; wait for another process that holds it, and say so.

    Gives the descriptor that holds it, for the processes that do the work: the kernel frees the lock when the last
    of them has ended, so that a pip whose trainmark was killed is waited for too. Raises ``InputError`` when
    ``home`` cannot be written.
    """
    guard = home / "envs" / f".{name}.guard"
    try:
        guard.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(guard, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"{guard.parent}: {reason}; give another place by --root or TRAINMARK_HOME"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another trainmark is at work on '{name}'; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
