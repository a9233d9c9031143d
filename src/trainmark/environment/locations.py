"""Paths of environments, removal of those that trainmark created, the lock against concurrent creation, and the stamp.

The stamp ``environment.json`` is written when an environment is complete, and records its sources.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from trainmark.environment.entry import Variant
from trainmark.errors import InputError, TrainmarkError
from trainmark.files import to_json, write_atomically

STAMP = "environment.json"
"""Written last: an environment without this file is incomplete."""
CREATING = ".trainmark-creating"
"""Written first and removed after the stamp: marks an incomplete folder as ours."""


def folder_of(home: Path, name: str) -> Path:
    """Return the folder of the environment ``name``."""
    return home / "envs" / name


def python_of(folder: Path) -> Path:
    """Return the interpreter of the venv in ``folder``."""
    return folder / "bin" / "python"


def log_of(home: Path, name: str) -> Path:
    """Return the log file of venv and pip from the latest creation of the environment."""
    return home / "envs" / f"{name}.log"


def clear(folder: Path) -> None:
    """Remove an environment that trainmark created, complete or not; raise ``InputError`` for any other folder."""
    if not (folder.is_symlink() or folder.exists()):
        return
    ours = folder.is_dir() and ((folder / STAMP).exists() or (folder / CREATING).exists())
    if folder.is_symlink() or not (ours or _is_empty(folder)):
        raise InputError(
            f"{folder}: not an environment that trainmark created; move it away, or pass another --root"
        )
    away = folder.with_name(f".{folder.name}.removed-{os.getpid()}")
    try:
        # Rename first: an interrupted removal must not leave a partial environment under its name.
        folder.rename(away)
        for old in folder.parent.glob(f".{folder.name}.removed-*"):
            shutil.rmtree(old)
    except OSError as error:
        raise TrainmarkError(f"{folder}: cannot be removed: {error.strerror or error}") from error


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


@contextmanager
def creation_lock(home: Path, name: str, notify: Callable[[str], None]) -> Iterator[int]:
    """Lock the environment ``name``; if another process holds the lock, notify the user and wait.

    Yields the lock's file descriptor for child processes to inherit: the kernel frees the lock after the last of them
    ends, so a pip that outlives a killed trainmark is waited for too. Raises ``InputError`` if ``home`` is not
    writable.
    """
    guard = home / "envs" / f".{name}.guard"
    try:
        guard.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(guard, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"{guard.parent}: {reason}; choose another location with --root or TRAINMARK_HOME"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notify(f"another trainmark process is creating or removing '{name}'; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


class WheelRecord(BaseModel):
    """A user's wheel that replaces the pin ``package`` of the lock."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    package: str
    file: str
    sha256: str


class Stamp(BaseModel):
    """The sources of a complete environment. ``packages`` maps canonical names to installed versions.

    ``extras`` are the names of the added extras. ``location`` is the absolute path of the creation: a venv does not
    work elsewhere. ``index`` is the user's extra index, without its credentials.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    name: str
    variant: Variant
    lock_digest: str
    wheels: tuple[WheelRecord, ...] = ()
    extras: tuple[str, ...] = ()
    index: str | None = None
    python_version: str
    base_python: str
    location: str
    created: AwareDatetime
    trainmark: str
    packages: Mapping[str, str]

    @property
    def wheel_digests(self) -> dict[str, str]:
        """The wheels' SHA-256 by package, for ``Lock.digest``."""
        return {wheel.package: wheel.sha256 for wheel in self.wheels}


def read_stamp(folder: Path) -> Stamp | None:
    """Return the stamp of the environment in ``folder``; None if it is missing or invalid."""
    try:
        return Stamp.model_validate_json((folder / STAMP).read_bytes())
    except (OSError, ValidationError):
        return None


def write_stamp(folder: Path, stamp: Stamp) -> None:
    """Write the stamp; raise ``OSError`` if that fails."""
    write_atomically(folder / STAMP, to_json(stamp.model_dump(mode="json")))
