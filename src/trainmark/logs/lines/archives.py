"""Logs in tar and zip archives."""

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from trainmark.logs.lines.transport import DamagedError, forward, is_archive, unpack


def archive_members(path: str | Path) -> Iterator[tuple[str, BinaryIO | str]]:
    """Yield the name (``archive/member``) and the open stream of each file in an archive, or why it is not read.

    Members are read one after the other from the archive, never written anywhere; use each before the next. Raises
    ``DamagedError`` for a damaged archive and ``OSError`` for a file that cannot be opened.
    """
    found = _zip_members if str(path).lower().endswith(".zip") else _tar_members
    try:
        for name, stream in found(path):
            shown = f"{path}/{name}"
            if is_archive(name):
                yield shown, "is an archive in an archive: unpack it first"
            elif not Path(name).name.startswith("."):
                yield shown, stream
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DamagedError(f"the archive is damaged or cut: {error}") from None


def _tar_members(path: str | Path) -> Iterator[tuple[str, BinaryIO | str]]:
    with (
        Path(path).open("rb") as file,
        unpack(file) as unpacked,
        tarfile.open(fileobj=cast(Any, unpacked), mode="r|") as archive,
    ):
        for member in archive:
            if member.isfile() and (stream := archive.extractfile(member)) is not None:
                yield member.name, forward(cast(BinaryIO, stream))


def _zip_members(path: str | Path) -> Iterator[tuple[str, BinaryIO | str]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.is_dir():
                continue
            try:
                with archive.open(member) as stream:
                    yield member.filename, forward(cast(BinaryIO, stream))
            except (RuntimeError, NotImplementedError) as error:
                yield member.filename, f"cannot be read: {error}"
