"""Work that writes a data set: held by one process at a time, counted, and ended by a full disk in one line."""

import errno
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainmark.dataset.processes import ProgressListener
from trainmark.errors import TrainmarkError


@dataclass(slots=True)
class Counter:
    """How many of how many pieces are there, so that a failure can say so; ``what`` is their word, in the plural."""

    what: str
    total: int
    progress: ProgressListener | None
    count: int = 0

    def add(self, more: int) -> None:
        """Count ``more`` pieces as done, and say so."""
        self.count += more
        if self.progress:
            self.progress(self.count, self.total)


@contextmanager
def held(work: Path, busy: str) -> Iterator[None]:
    """Hold the folder ``work`` against other processes, which get ``busy`` as a ``TrainmarkError``."""
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainmarkError(busy) from None
        yield


def cannot_write(error: OSError, where: Path, done: Counter) -> TrainmarkError:
    """Return what to tell of a failure to write ``where``; the same call goes on from there."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return TrainmarkError(
            f"{where}: the disk is full after {done.count} of {done.total} {done.what}; "
            "free some space and run the same command again: it goes on from there"
        )
    return TrainmarkError(f"{error.filename or where}: cannot be written ({error.strerror})")
