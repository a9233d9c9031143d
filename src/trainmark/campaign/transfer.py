"""Copy missing files to a host: a program's folder or a data set."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import IO

from trainmark.errors import TrainmarkError
from trainmark.node import Host, LocalHost, pack_folder, remote_path

_HERE = LocalHost()

MOST_BYTES = 1 << 30
"""Larger folders are not sent: where they belong on the hosts' disks is the user's decision."""


def send_program(
    host: Host, folder: Path, ignore: Sequence[str], home: Path, say: Callable[[str], None]
) -> None:
    """Make a program's folder on a host equal to the one on this machine, except for files that ``ignore`` matches.

    The copy is in trainmark's own folder on the host, named by its content. Raises ``TrainmarkError`` if it cannot be
    sent.
    """
    there = remote_path(host.paths, folder)
    if host.has(there) and _same(host.digests(there), folder, ignore):
        return
    with _packed(host, folder) as content:
        name = f"{folder.name}-{hashlib.file_digest(content, 'sha256').hexdigest()[:16]}"  # type: ignore[arg-type]
        content.seek(0)
        there = remote_path(host.paths, home) / "sent" / name
        _send(host, folder, content, there, say)
    host.map_path(folder, there)


def send_data(host: Host, folder: Path, say: Callable[[str], None]) -> None:
    """Copy a data set to a host, to its path there, if it is missing; raises ``TrainmarkError`` as above."""
    there = remote_path(host.paths, folder)
    if not host.has(there):
        with _packed(host, folder) as content:
            _send(host, folder, content, there, say)


def _same(digests: Mapping[str, str], folder: Path, ignore: Sequence[str]) -> bool:
    """Return whether remote files equal those of a local folder: an older copy under the same path does not."""
    mine, theirs = (
        {name: digest for name, digest in found.items() if not any(fnmatch(name, one) for one in ignore)}
        for found in (_HERE.digests(folder), digests)
    )
    return mine == theirs


def _packed(host: Host, folder: Path) -> IO[bytes]:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        raise TrainmarkError(
            f"{folder} is not on {host.name}, and {size / 1e9:.1f} GB are too much to send; copy it to the host by hand"
        )
    return pack_folder(folder)


def _send(host: Host, folder: Path, content: IO[bytes], there: Path, say: Callable[[str], None]) -> None:
    say(f"sending {folder} to {host.name}")
    try:
        host.put_folder(there, content)
    except OSError as error:
        raise TrainmarkError(f"{folder} cannot be sent to {host.name}: {error.strerror}") from None
