"""Write a result directory into one file, and read it back without trusting it.

The file is a tar archive compressed with Zstandard. Its first member is ``ARCHIVE.json``, the list of all others with
sizes and digests. Members are regular files in the order of their paths, without owners, so that equal directories
give equal archives except for the time in ``ARCHIVE.json``.
"""

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO

import zstandard
from pydantic import ValidationError

from trainmark.errors import InputError, TrainmarkError, plain_message
from trainmark.printable import counted
from trainmark.schema.archive import ArchiveContents, ArchivedFile
from trainmark.schema.names import OUTCOME
from trainmark.version import __version__

CONTENTS = "ARCHIVE.json"
_CARDS = "archived-cards"
_LEFT_OUT = frozenset({".lock"})
_LARGEST_LIST = 256 * 2**20
_BLOCK = 2**20
_MOST_MISSING = 5
"""The missing files of an archive that are named; of a damaged one, all after the damage are missing."""


def write_archive(
    folder: Path, target: Path, suite: str, command: str | None, cards: tuple[Path, ...]
) -> tuple[ArchiveContents, tuple[str, ...]]:
    """Write ``folder`` to ``target``; return the contents, and the paths that are left out because they are links.

    ``cards`` are the suite's cards; those outside of the folder are added. ``target`` appears only once it is whole.
    Raises ``InputError`` if it exists and is no earlier archive of this folder.
    """
    found, links = _files(folder, target)
    packed = dict(found)
    named = []
    for number, card in enumerate(cards):
        try:
            path = card.resolve().relative_to(folder.resolve()).as_posix()
        except ValueError:
            path = f"{_CARDS}/{number}-{card.name}"
            packed[path] = card
        named.append(path)
    listed = tuple(_listed(path, packed[path]) for path in sorted(packed))
    if target.exists():
        _require_earlier(target, folder, listed)
    contents = ArchiveContents(
        trainmark=__version__,
        created=datetime.now(UTC),
        suite=suite,
        command=command,
        files=listed,
        cards=tuple(named),
    )
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as raw:
            _write(raw, contents, packed)
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(target)
    except OSError as error:
        if error.filename in (str(part), None):
            error.filename, error.filename2 = str(target), None
        raise
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return contents, links


def _require_earlier(target: Path, folder: Path, listed: tuple[ArchivedFile, ...]) -> None:
    """Raise ``InputError`` if replacing ``target`` would lose a run, or a file that is no archive."""
    try:
        with (
            target.open("rb") as raw,
            zstandard.ZstdDecompressor().stream_reader(raw) as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            before = _contents(target, archive, archive.next()).files
    except (tarfile.TarError, zstandard.ZstdError, EOFError, InputError):
        raise InputError(f"{target}: exists and is not an archive of results; give another --out") from None
    there = {one.digest for one in listed}
    lost = [one.path for one in before if PurePosixPath(one.path).name == OUTCOME and one.digest not in there]
    if lost:
        raise InputError(
            f"{target}: exists and has {counted(len(lost), 'run')} that {folder} does not have ({lost[0]}); give "
            "another --out"
        )


def _write(raw: io.BufferedWriter, contents: ArchiveContents, packed: dict[str, Path]) -> None:
    text = contents.to_json().encode()
    with (
        zstandard.ZstdCompressor(level=10).stream_writer(raw, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        archive.addfile(_member(CONTENTS, len(text)), io.BytesIO(text))
        for one in contents.files:
            with packed[one.path].open("rb") as file:
                if os.fstat(file.fileno()).st_size != one.size:
                    raise TrainmarkError(
                        f"{packed[one.path]}: changed while it was archived; archive it again"
                    )
                archive.addfile(_member(one.path, one.size), file)


def _member(path: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.size, member.mode = size, 0o644
    return member


def _files(folder: Path, target: Path) -> tuple[list[tuple[str, Path]], tuple[str, ...]]:
    """Return the regular files below a folder by their paths, and the paths of links and special files."""
    found, links = [], []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        kind = path.lstat().st_mode
        if stat.S_ISDIR(kind) or path.name in _LEFT_OUT or path.resolve() == target.resolve():
            continue
        if stat.S_ISREG(kind):
            found.append((name, path))
        else:
            links.append(name)
    return found, tuple(links)


def _listed(path: str, file: Path) -> ArchivedFile:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
        size = opened.tell()
    return ArchivedFile(path=path, size=size, digest=f"sha256:{digest}")


def extract_archive(source: Path, into: Path) -> tuple[ArchiveContents, list[str]]:
    """Extract an archive into an empty folder; return its contents, and sentences about files that differ from them.

    Only files that the list names are written, no larger than it says, below ``into``. Raises ``InputError`` if the
    file is no archive of results.
    """
    try:
        with (
            source.open("rb") as raw,
            zstandard.ZstdDecompressor().stream_reader(raw) as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            return _extract(source, archive, into)
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        reason = "" if str(error) == "empty file" else f": {error}"
        raise InputError(f"{source}: not an archive of results, or cut off or damaged{reason}") from None


def _extract(source: Path, archive: tarfile.TarFile, into: Path) -> tuple[ArchiveContents, list[str]]:
    members = iter(archive)
    contents = _contents(source, archive, next(members, None))
    expected = {one.path: one for one in contents.files}
    problems = []
    for member in members:
        one = expected.pop(member.name, None)
        if one is None:
            problems.append(f"{member.name}: is not in the list of files, or twice in the archive")
        elif not member.isreg() or member.size != one.size:
            problems.append(f"{member.name}: is not the file of {one.size} bytes that the list names")
        elif (digest := _extracted(archive, member, into)) != one.digest:
            problems.append(f"{member.name}: its digest is {digest}, but {one.digest} in the list")
    missing = [*expected]
    problems += [f"{path}: is missing" for path in missing[:_MOST_MISSING]]
    if len(missing) > _MOST_MISSING:
        more = len(missing) - _MOST_MISSING
        problems.append(
            f"{counted(more, 'more file')} of {len(contents.files)} missing: it may be cut off or damaged"
        )
    return contents, problems


def _contents(source: Path, archive: tarfile.TarFile, first: tarfile.TarInfo | None) -> ArchiveContents:
    """Return the list of files; raise ``InputError`` if it is missing, or names a path outside of the archive."""
    file = archive.extractfile(first) if first is not None and first.isreg() else None
    if first is None or file is None or first.name != CONTENTS or first.size > _LARGEST_LIST:
        raise InputError(f"{source}: not an archive of results: its first file is not {CONTENTS}")
    try:
        contents = ArchiveContents.model_validate_json(file.read())
    except ValidationError as error:
        raise InputError(f"{source}: {CONTENTS}: {plain_message(error.errors()[0]['msg'])}") from None
    for path in (*(one.path for one in contents.files), *contents.cards):
        if not _is_safe(path):
            raise InputError(f"{source}: {CONTENTS}: the path '{path}' leads out of the archive")
    return contents


def _is_safe(path: str) -> bool:
    pure = PurePosixPath(path)
    parts = path.split("/")
    return not (pure.is_absolute() or "\\" in path or "\0" in path or {"", ".", ".."} & set(parts))


def _extracted(archive: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> str:
    """Write a member below ``into``, and return its digest."""
    file = archive.extractfile(member)
    assert file is not None
    target = into / member.name
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with target.open("xb") as written:
        for block in _blocks(file):
            digest.update(block)
            written.write(block)
    return f"sha256:{digest.hexdigest()}"


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block
