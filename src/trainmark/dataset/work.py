"""Locking, progress and write errors of the work that creates a data set."""

import errno
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainmark.dataset.processes import ProgressListener
from trainmark.errors import TrainmarkError


@dataclass(slots=True)
class ProgressCounter:
    """The progress of the work, also for error messages; ``what`` is the plural noun of the counted pieces."""

    what: str
    total: int
    progress: ProgressListener | None
    count: int = 0

    def add(self, more: int) -> None:
        """Count ``more`` pieces as done, and report the progress."""
        self.count += more
        if self.progress:
            self.progress(self.count, self.total)


@contextmanager
def exclusive_folder(work: Path, busy: str) -> Iterator[None]:
    """Lock the folder ``work``; raise ``TrainmarkError(busy)`` if another process has locked it."""
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainmarkError(busy) from None
        yield


def write_error(error: OSError, where: Path, done: ProgressCounter) -> TrainmarkError:
    """Return the ``TrainmarkError`` for a failure to write ``where``; repeating the call resumes the work."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return TrainmarkError(
            f"{where}: the disk is full after {done.count} of {done.total} {done.what}; "
            "free some space and run the same command again to resume"
        )
    return TrainmarkError(f"{error.filename or where}: cannot be written ({error.strerror})")
