"""First bytes of a log: unpack gzip, reject binaries."""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from typing import Any, BinaryIO, cast

from trainmark.logs.transport import PIECE_BYTES

_GZIP = b"\x1f\x8b"
_BINARY_SIGNS = (
    b"\x7fELF",
    b"PK\x03\x04",
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"BZh",
    b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd",
)


@contextmanager
def unpack(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Yield ``stream`` unpacked; the first bytes of a pipe, which cannot seek, are put back in front."""
    start = stream.read(2)
    joined: BinaryIO
    if stream.seekable():
        stream.seek(-len(start), os.SEEK_CUR)
        joined = stream
    else:
        joined = cast(BinaryIO, BufferedReader(_Joined(start, stream), PIECE_BYTES))
    if start == _GZIP:
        with gzip.open(joined, "rb") as unpacked:
            yield cast(BinaryIO, _Salvaging(unpacked))
    else:
        yield joined


class _Salvaging:
    """A gzip reader that returns all readable data before it raises for damage."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed
        self._damage: Exception | None = None

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer at the end; raise gzip's error once no readable data is left."""
        parts: list[bytes] = []
        try:
            while size > 0 and self._damage is None and (part := self._packed.read1(size)):
                parts.append(part)
                size -= len(part)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._damage = error
        if self._damage is not None and not parts:
            raise self._damage
        return b"".join(parts)


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


def binary_kind(piece: bytes) -> str | None:
    """Return the kind of binary that begins with ``piece``; ``None`` for text."""
    head = piece[:4096]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16: save it as UTF-8"
    if head.startswith(_BINARY_SIGNS):
        return "a binary or archive; only gzip is unpacked"
    odd = len(head.translate(None, bytes(range(7, 14)) + bytes(range(27, 256))))
    return "a binary" if odd > max(2, 0.02 * len(head)) else None
