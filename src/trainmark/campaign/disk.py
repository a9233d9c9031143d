"""What a full disk is told as, and how it is told from a program that failed for another reason."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainmark.errors import TrainmarkError

LEAST_FREE_BYTES = 1 << 20
"""With less than this on the result directory's disk, a failed run says nothing about its program."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def full_disk_is_told(out: Path) -> Iterator[None]:
    """Turn the error of a full disk into a ``TrainmarkError`` that says how to go on with the directory ``out``."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise TrainmarkError(
            f"{out}: the disk is full; no finished run is lost: free some space and go on with --resume"
        ) from None


def require_space(folder: Path) -> None:
    """Raise the ``OSError`` of a full disk unless a little space is left."""
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))
