"""Log files: which to read (given files, walked folders, runs of trainmark), unpacked, without binaries.

Modules that unpack are imported for a packed log only, as most logs are text.
"""

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, cast

from trainmark.errors import InputError
from trainmark.logs.transport import PIECE_BYTES
from trainmark.schema.names import EVENTS, LOG, OUTCOME, RUNS, SUITE

_GZIP, _BZIP2, _XZ, _ZSTANDARD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"
_LONGEST_MAGIC = 5
_COPY_IN_MEMORY_BYTES = 4 << 20
_NAMES = {_GZIP: "gzip", _BZIP2: "bzip2", _XZ: "xz", _ZSTANDARD: "Zstandard"}
_BINARY_SIGNS = (b"\x7fELF", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff")
_ARCHIVES = (
    *(".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst"),
    ".zip",
)
_ENDLESS = ("zero", "random", "urandom", "full")


class DamagedError(Exception):
    """A compressed stream is damaged or cut; its text says what and why."""


class UnusableFileError(OSError):
    """A file that is no log: a pipe that nothing writes to, a device."""


@contextmanager
def open_log(path: str | Path) -> Iterator[BinaryIO]:
    """Yield the file at ``path``, also a named pipe; raise ``UnusableFileError`` where reading would never end."""
    mode = os.stat(path).st_mode  # noqa: PTH116 - a path object takes longer than the call
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and Path(path).name in _ENDLESS):
        raise UnusableFileError("is a device, not a log")
    if not stat.S_ISFIFO(mode):
        with open(path, "rb") as file:  # noqa: PTH123
            yield file
        return
    # Opening it the usual way would wait for a writer without end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as pipe:
        start = pipe.read(PIECE_BYTES)
        if start == b"":
            raise UnusableFileError("is a pipe that nothing writes to")
        os.set_blocking(descriptor, True)
        yield cast(BinaryIO, BufferedReader(_Joined(start or b"", cast(BinaryIO, pipe)), PIECE_BYTES))


@contextmanager
def unpack(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Yield ``stream`` unpacked; the first bytes of a pipe, which cannot seek, are put back in front."""
    start = stream.read(_LONGEST_MAGIC)
    joined: BinaryIO
    if stream.seekable():
        stream.seek(-len(start), os.SEEK_CUR)
        joined = stream
    else:
        joined = cast(BinaryIO, BufferedReader(_Joined(start, stream), PIECE_BYTES))
    kind = next((magic for magic in _NAMES if start.startswith(magic)), None)
    if kind is None:
        yield joined
        return
    yield cast(BinaryIO, _Salvaging(_opened(kind, joined), _NAMES[kind]))


def _opened(kind: bytes, packed: BinaryIO) -> Any:
    if kind == _ZSTANDARD:
        return _Zstandard(packed)
    module = import_module({_GZIP: "gzip", _BZIP2: "bz2", _XZ: "lzma"}[kind])
    return module.open(packed, "rb")


class _Zstandard:
    """A reader of Zstandard frames, which raises ``EOFError`` for a cut one as the standard library's readers do."""

    def __init__(self, packed: BinaryIO) -> None:
        try:
            import zstandard
        except ModuleNotFoundError:
            raise UnusableFileError(
                "is compressed by Zstandard, for which zstandard is not installed: pip install 'trainmark[zstd]'"
            ) from None

        self._packed, self._new = packed, zstandard.ZstdDecompressor().decompressobj
        self._frame = self._new()
        self._rest, self._started = b"", False

    def read1(self, _size: int) -> bytes:
        """Return the next decompressed bytes; empty at the end."""
        import zstandard

        while True:
            data = self._rest or self._packed.read(PIECE_BYTES // 8)
            self._rest = b""
            if not data:
                if self._started and not self._frame.eof:
                    raise EOFError("the last frame has no end")
                return b""
            if self._frame.eof:
                self._frame = self._new()
            self._started = True
            try:
                text = self._frame.decompress(data)
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from None
            self._rest = self._frame.unused_data if self._frame.eof else b""
            if text:
                return bytes(text)


class _Salvaging:
    """A reader of a compressed stream that returns all readable data before it raises ``DamagedError``."""

    def __init__(self, packed: Any, name: str) -> None:
        self._packed = packed
        self._name = name
        self._damage: DamagedError | None = None

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer at the end; raise ``DamagedError`` once no readable data is left."""
        from lzma import LZMAError

        parts: list[bytes] = []
        try:
            while size > 0 and self._damage is None and (part := self._packed.read1(size)):
                parts.append(part)
                size -= len(part)
        except (EOFError, zlib.error, LZMAError, OSError, ValueError) as error:
            self._damage = DamagedError(f"the {self._name} stream is damaged or cut: {error}")
        if self._damage is not None and not parts:
            raise self._damage
        return b"".join(parts)


def is_archive(path: str | Path) -> bool:
    """Return whether a file's name is that of a tar or zip archive."""
    return str(path).lower().endswith(_ARCHIVES)


def forward(stream: BinaryIO) -> BinaryIO:
    """Return ``stream`` as one that does not seek: an archive is read once, from its beginning to its end."""
    return cast(BinaryIO, BufferedReader(_Joined(b"", stream), PIECE_BYTES))


class _Joined(RawIOBase):
    """A stream with some bytes put back in front of it."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer`` and return the number of bytes; 0 at the end."""
        into = memoryview(buffer)
        if self._start:
            data, self._start = self._start[: len(into)], self._start[len(into) :]
        else:
            data = self._rest.read(len(into))
        into[: len(data)] = data
        return len(data)


class Recording(RawIOBase):
    """A stream that copies the bytes read from it, in memory and then to a temporary file, until ``discard``."""

    def __init__(self, source: BinaryIO) -> None:
        import tempfile

        super().__init__()
        self._source = source
        self._copy: IO[bytes] | None = tempfile.SpooledTemporaryFile(_COPY_IN_MEMORY_BYTES)  # noqa: SIM115

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer`` and return the number of bytes; 0 at the end."""
        into = memoryview(buffer)
        data = self._source.read(len(into))
        into[: len(data)] = data
        if self._copy is not None:
            self._copy.write(data)
        return len(data)

    def discard(self) -> None:
        """Delete the copy and make no further one."""
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def replay(self) -> BinaryIO | None:
        """Return the copy from its first byte; None after ``discard``."""
        if self._copy is not None:
            self._copy.seek(0)
        return cast("BinaryIO | None", self._copy)


def binary_kind(piece: bytes) -> str | None:
    """Return the kind of binary that begins with ``piece``; ``None`` for text."""
    head = piece[:4096]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16: save it as UTF-8"
    if head.startswith(_BINARY_SIGNS):
        return "a binary or archive; logs are read from gzip, bzip2, xz, Zstandard, tar and zip"
    odd = len(head.translate(None, bytes(range(7, 14)) + bytes(range(27, 256))))
    return "a binary" if odd > max(2, 0.02 * len(head)) else None


class FoundPath(NamedTuple):
    """A path to read, a path that cannot be walked (with its ``error``), or a ``note`` on files that are not read."""

    path: str
    error: str | None = None
    note: str | None = None


def find_logs(paths: list[str]) -> Iterator[FoundPath]:
    """Yield the paths to read, sorted within a folder, without hidden files and special files.

    In a run's folder only its events are read, or its log if it has no events; in a result directory only its runs.
    Raises ``InputError`` at once for a path that does not exist. An unreadable folder is yielded with its error, and
    the walk continues.
    """
    for path in paths:
        if path != "-" and not os.path.lexists(path):
            raise InputError(f"{path}: no such file or folder")
    return _walk(paths)


def log_of_run(folder: Path) -> Path | None:
    """Return the file to read in a run's folder: its events, else its log; None if it is not a run's folder."""
    if not (folder / OUTCOME).is_file():
        return None
    events = folder / EVENTS
    return events if events.is_file() and events.stat().st_size else folder / LOG


def _walk(paths: list[str]) -> Iterator[FoundPath]:
    for path in paths:
        if path != "-" and Path(path).is_dir():
            yield from _in_folder(path)
            continue
        own = log_of_run(Path(path).parent) if Path(path).name == LOG else None
        if own is None or own.name == LOG:
            yield FoundPath(path)
        else:
            yield FoundPath(
                path,
                note=f"this is the output of a trainmark run; {EVENTS} in the same folder is read instead",
            )
            yield FoundPath(str(own))


def _in_folder(path: str) -> Iterator[FoundPath]:
    refused: list[OSError] = []
    runs: list[Path] = []
    for folder, folders, files in os.walk(path, onerror=refused.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from _refused(refused)
        shown = [name for name in sorted(files) if not name.startswith(".")]
        if own := log_of_run(Path(folder)):
            folders[:] = []
            # A probe run only checks whether a batch fits.
            if Path(folder).name.isdecimal() and own.is_file():
                yield FoundPath(str(own))
        elif all(name in (*files, *folders) for name in (SUITE, RUNS)):
            folders[:] = [RUNS]
            runs.append(Path(folder, RUNS))
            note = f"a result directory: only {EVENTS} or {LOG} of each run is read"
            yield FoundPath(folder, note=note)
        elif any(Path(folder).is_relative_to(place) for place in runs):
            # An interrupted run has no outcome, and its files are not logs of other programs.
            continue
        else:
            # One path object, not one for each of 100 000 files.
            start = str(Path(folder) / "_")[:-1]
            yield from (FoundPath(start + name) for name in shown if os.path.isfile(start + name))  # noqa: PTH113
    yield from _refused(refused)


def _refused(errors: list[OSError]) -> Iterator[FoundPath]:
    while errors:
        error = errors.pop(0)
        yield FoundPath(str(error.filename), f"the folder cannot be read: {error.strerror or error}")
