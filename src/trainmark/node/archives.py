"""Folders as tar archives, for hosts without a shared disk."""

import os
import secrets
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO

SPOOL_BYTES = 16 << 20
"""A longer body is stored on disk."""


def pack_folder(folder: Path, without: Collection[str] = ()) -> IO[bytes]:
    """Return a folder as an archive, without the entries named ``without``; equal folders give equal bytes."""
    file: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 (the reader closes it)
    with tarfile.open(fileobj=file, mode="w") as archive:
        for path in sorted(folder.iterdir()):
            if path.name not in without:
                archive.add(path, arcname=path.name)
    file.seek(0)
    return file


def unpack(content: IO[bytes], into: Path) -> None:
    """Unpack an archive into a folder; devices, and entries that lead out of the folder, are skipped.

    The extraction filters of ``tarfile`` are missing in Python 3.11.2, which Debian 12 ships.
    """
    into.mkdir(parents=True, exist_ok=True)
    into = into.resolve()
    with tarfile.open(fileobj=content) as archive:
        archive.extraction_filter = lambda member, _into: member  # later Pythons require one
        archive.extractall(into, members=_harmless(archive, into))  # noqa: S202 (the members are filtered)
        # Links are created last, so that no link is followed while files are written and folders get their modes.
        _link(into, [member for member in archive if member.issym()])


def put_folder(content: IO[bytes], path: Path) -> None:
    """Unpack an archive as a new folder, atomically; an existing folder is left unchanged."""
    half = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        unpack(content, half)
        if not path.exists():
            half.rename(path)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _harmless(archive: tarfile.TarFile, into: Path) -> Iterator[tarfile.TarInfo]:
    """Yield folders, files and hard links to extracted files, owned by us and writable; no path contains a link."""
    for member in archive:
        path = into / member.name
        if not _is_below(into, member.name) or not (member.isfile() or member.isdir() or member.islnk()):
            continue
        if member.islnk() and not _is_file(into, member.linkname):
            continue
        if path.is_symlink() or (member.islnk() and path.exists() and path != into / member.linkname):
            path.unlink()
        owner = stat.S_IRWXU if member.isdir() else stat.S_IRUSR | stat.S_IWUSR
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        member.mode = member.mode & 0o755 | owner
        yield member


def _is_below(into: Path, name: str) -> bool:
    """Return whether a name is inside the folder and none of its parents is a link."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        return False
    return not any((into / parent).is_symlink() for parent in path.parents)


def _is_file(into: Path, name: str) -> bool:
    return _is_below(into, name) and (into / name).is_file() and not (into / name).is_symlink()


def _link(into: Path, members: Sequence[tarfile.TarInfo]) -> None:
    """Create symbolic links, then remove those that lead out of the folder or form a cycle."""
    made = []
    for member in members:
        path = into / member.name
        if not _is_below(into, member.name) or (path.exists() and not path.is_symlink()):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(member.linkname)
        made.append(path)
    # Another link may lead through a removed one.
    while wrong := [path for path in made if not _stays(path, into)]:
        for path in wrong:
            path.unlink()
        made = [path for path in made if path not in wrong]


def _stays(link: Path, into: Path) -> bool:
    """Return whether a link's target is in the folder, or is missing and its path cannot leave the folder."""
    try:
        return Path(os.path.realpath(link, strict=True)).is_relative_to(into)
    except FileNotFoundError:
        goal = link.readlink()
        return not goal.is_absolute() and ".." not in goal.parts
    except OSError:
        return False
