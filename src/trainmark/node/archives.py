"""Folders as archives, for hosts that share no disk."""

import os
import secrets
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from trainmark.node.channel import HELD_BYTES


def packed(folder: Path, without: Collection[str] = ()) -> IO[bytes]:
    """Return a folder as an archive, but what has these names in it; the same folder gives the same bytes."""
    file: IO[bytes] = tempfile.SpooledTemporaryFile(HELD_BYTES)  # noqa: SIM115 (whoever reads it closes it)
    with tarfile.open(fileobj=file, mode="w") as archive:
        for path in sorted(folder.iterdir()):
            if path.name not in without:
                archive.add(path, arcname=path.name)
    file.seek(0)
    return file


def unpack(content: IO[bytes], into: Path) -> None:
    """Put what an archive holds into a folder; what leads out of it, and devices, are left.

    The filters of Python's own ``tarfile`` are not in Python 3.11.2, which Debian 12 has.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=content) as archive:
        archive.extraction_filter = lambda member, _into: member  # later Pythons ask for one
        archive.extractall(into, members=_harmless(archive, into.resolve()))  # noqa: S202 (they were looked at)


def put_folder(content: IO[bytes], path: Path) -> None:
    """Make a folder of an archive, in one piece; one that is there stays as it is."""
    half = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        unpack(content, half)
        if not path.exists():
            half.rename(path)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _harmless(archive: tarfile.TarFile, into: Path) -> Iterator[tarfile.TarInfo]:
    """Yield what may be written, ours and writable, each as the ones before it have left the folder."""
    for member in archive:
        path = into / member.name
        if member.issym():
            reached = [path.parent, path.parent / member.linkname]
        elif member.islnk():
            reached = [path.parent, into / member.linkname]
        elif member.isfile() or member.isdir():
            reached = [path]
        else:
            continue
        if all(each.resolve().is_relative_to(into) for each in reached):
            member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
            member.mode = member.mode & 0o755 | stat.S_IRUSR | stat.S_IWUSR
            yield member
