"""Bringing to a host what it lacks: a program's folder, or a data set, that lies here and not there."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from trainmark.errors import TrainmarkError
from trainmark.node import Host, packed, path_there

MOST_BYTES = 1 << 30
"""More than this is not sent: whoever knows the hosts' disks puts it where it belongs."""


def send_program(host: Host, folder: Path, home: Path, say: Callable[[str], None]) -> None:
    """See that a program's folder is on a host; what is sent lies in trainmark's own folder there, by its content.

    Raises ``TrainmarkError`` when it cannot be sent.
    """
    if host.has(path_there(host.paths, folder)):
        return
    content = _packed(host, folder)
    name = f"{folder.name}-{hashlib.sha256(content).hexdigest()[:16]}"
    there = path_there(host.paths, home) / "sent" / name
    _send(host, folder, content, there, say)
    host.lies_at(folder, there)


def send_data(host: Host, folder: Path, say: Callable[[str], None]) -> None:
    """See that a data set is on a host, under the path that it has there; raises as above."""
    there = path_there(host.paths, folder)
    if not host.has(there):
        _send(host, folder, _packed(host, folder), there, say)


def _packed(host: Host, folder: Path) -> bytes:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        raise TrainmarkError(
            f"{folder} is not on {host.name}, and {size / 1e9:.1f} GB are too much to send; copy it there"
        )
    return packed(folder)


def _send(host: Host, folder: Path, content: bytes, there: Path, say: Callable[[str], None]) -> None:
    say(f"sending {folder} to {host.name}")
    try:
        host.put_folder(there, content)
    except OSError as error:
        raise TrainmarkError(f"{folder} cannot be sent to {host.name}: {error.strerror}") from None
