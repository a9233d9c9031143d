"""A run's files: their restoration after its program removed them, and the times at which its log grew."""

import os
import shutil
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from trainmark.files import remove_unless_file

_COPY_BYTES = 1 << 20
_OWNER = stat.S_IRWXU
INTERVAL_S = 0.01
"""Seconds between two looks at the log's size: the resolution of the arrival times."""


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


class ArrivalClock:
    """A context manager that appends ``UNIX_TIME SIZE`` to ``path`` each time that ``log`` has become longer.

    The program writes into the log itself, so it is never slowed down. A full disk ends the noting, not the run.
    """

    def __init__(self, log: Path, path: Path, interval_s: float = INTERVAL_S) -> None:
        self._log, self._path, self._interval_s = log, path, interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="trainmark-arrivals", daemon=True)

    def __enter__(self) -> "ArrivalClock":
        """Start noting."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Note the last size and stop; the file is then complete."""
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        try:
            # The descriptor stays valid if the program removes its folder.
            with (
                self._log.open("rb") as log,
                self._path.open("w+b", buffering=0) as file,
                restored(self._path, file),
            ):
                size, stopping = 0, False
                file.write(f"{time.time():.4f} 0\n".encode())
                while True:
                    now_size, now = log.seek(0, 2), time.time()
                    if now_size != size:
                        size = now_size
                        file.write(f"{now:.4f} {size}\n".encode())
                    if stopping:
                        return
                    stopping = self._stop.wait(self._interval_s)
        except OSError:
            return
