"""Folders as archives, for hosts that share no disk."""

import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Collection
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
    """Put what an archive holds into a folder; links that lead out of it, and devices, are left."""
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=content) as archive:
        archive.extractall(into, filter=_harmless)  # noqa: S202 (what leads out of it is left)


def put_folder(content: IO[bytes], path: Path) -> None:
    """Make a folder of an archive, in one piece; one that is there stays as it is."""
    half = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        unpack(content, half)
        if not path.exists():
            half.rename(path)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _harmless(member: tarfile.TarInfo, into: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, into)
    except tarfile.FilterError:
        return None
