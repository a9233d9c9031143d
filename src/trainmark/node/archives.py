"""Folders as archives, for hosts that share no disk."""

import io
import secrets
import shutil
import tarfile
from collections.abc import Collection
from pathlib import Path


def packed(folder: Path, without: Collection[str] = ()) -> bytes:
    """Return a folder as an archive, but what has these names in it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(folder.iterdir()):
            if path.name not in without:
                archive.add(path, arcname=path.name)
    return buffer.getvalue()


def unpack(content: bytes, into: Path) -> None:
    """Put what an archive holds into a folder; links that lead out of it, and devices, are left."""
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(into, filter=_harmless)  # noqa: S202 (what leads out of it is left)


def put_folder(content: bytes, path: Path) -> None:
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
