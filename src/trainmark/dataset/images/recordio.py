"""MXNet's RecordIO files: framing and header of a record, and the lines of index and list files.

A part of a record is a magic number (4 bytes), a word of 3 bits part type and 29 bits length (4), the data, and zero
padding to a multiple of 4, all little-endian. If the data contains the magic number at a multiple of 4, the record is
split there and the number omitted; a reader restores it (dmlc-core, include/dmlc/recordio.h and src/recordio.cc).
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import BinaryIO

MAGIC = 0xCED7230A
_MAGIC = struct.pack("<I", MAGIC)
_PART_HEAD = struct.Struct("<II")
_MAX_LENGTH = 2**29

_HEADER = struct.Struct("<IfQQ")
"""MXNet's ``IRHeader`` (mxnet/recordio.py): flag 0 (one label follows), the label, the picture's id, a second id."""


class _Part(IntEnum):
    WHOLE = 0
    FIRST = 1
    MIDDLE = 2
    LAST = 3


class FramingFault(StrEnum):
    """The kinds of damage to a record's framing; the rest of the file cannot be read."""

    MAGIC = "magic"
    TRUNCATED = "truncated"
    ORDER = "order"
    """A part type that may not follow the previous part."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a file; ``data`` is empty if the record is broken."""

    offset: int
    data: bytes
    broken: FramingFault | None = None


@dataclass(frozen=True, slots=True)
class Labelled:
    """The content of a record; ``label`` is the class, from 0."""

    label: float
    identity: int
    picture: bytes


def frame(data: bytes) -> bytes:
    """Return ``data`` as one record; raise ``ValueError`` for 512 MiB or more."""
    if len(data) >= _MAX_LENGTH:
        raise ValueError(f"a record of RecordIO is smaller than 512 MiB, not {len(data)} bytes")
    pieces = _without_magic(data)
    parts = []
    for number, piece in enumerate(pieces):
        if len(pieces) == 1:
            part = _Part.WHOLE
        elif number == 0:
            part = _Part.FIRST
        else:
            part = _Part.LAST if number == len(pieces) - 1 else _Part.MIDDLE
        parts += [_PART_HEAD.pack(MAGIC, part << 29 | len(piece)), piece, bytes(-len(piece) % 4)]
    return b"".join(parts)


def _without_magic(data: bytes) -> list[bytes]:
    pieces, begin = [], 0
    for match in re.finditer(re.escape(_MAGIC), data):
        # Every piece but the last has a length that is a multiple of 4, so offsets in the data decide.
        if match.start() % 4 == 0:
            pieces.append(data[begin : match.start()])
            begin = match.end()
    return [*pieces, data[begin:]]


def read_records(file: BinaryIO, file_size: int) -> Iterator[Record]:
    """Yield the records of ``file`` from its beginning; stop after the first broken one."""
    begin = 0
    pieces: list[bytes] = []
    for offset, part, piece in _read_parts(file, file_size):
        if isinstance(part, FramingFault):
            yield Record(begin if pieces else offset, b"", part)
            return
        if (part in (_Part.WHOLE, _Part.FIRST)) == bool(pieces):
            yield Record(offset, b"", FramingFault.ORDER)
            return
        begin = begin if pieces else offset
        pieces.append(piece)
        if part in (_Part.WHOLE, _Part.LAST):
            yield Record(begin, _MAGIC.join(pieces))
            pieces = []
    if pieces:
        yield Record(begin, b"", FramingFault.TRUNCATED)


def _read_parts(file: BinaryIO, file_size: int) -> Iterator[tuple[int, _Part | FramingFault, bytes]]:
    offset = 0
    while offset < file_size:
        head = file.read(_PART_HEAD.size)
        if len(head) < _PART_HEAD.size:
            yield offset, FramingFault.TRUNCATED, b""
            return
        magic, word = _PART_HEAD.unpack(head)
        if magic != MAGIC or word >> 29 > _Part.LAST:
            yield offset, FramingFault.MAGIC, b""
            return
        length = word & (_MAX_LENGTH - 1)
        end = offset + _PART_HEAD.size + length + -length % 4
        if end > file_size:
            yield offset, FramingFault.TRUNCATED, b""
            return
        yield offset, _Part(word >> 29), file.read(length + -length % 4)[:length]
        offset = end


def pack(label: int, identity: int, picture: bytes) -> bytes:
    """Return a record's data: the header and the picture's file."""
    return _HEADER.pack(0, float(label), identity, 0) + picture


def unpack(data: bytes) -> Labelled:
    """Parse a record's data, with the first of several labels; raise ``ValueError`` if it is too short."""
    if len(data) < _HEADER.size:
        raise ValueError(f"{len(data)} bytes are too few for a record's header")
    count, label, identity, _ = _HEADER.unpack_from(data)
    begin = _HEADER.size + 4 * count
    if begin > len(data):
        raise ValueError(f"its header announces {count} labels, but the record is shorter")
    if count:
        (label,) = struct.unpack_from("<f", data, _HEADER.size)
    return Labelled(label, identity, data[begin:])


def index_line(identity: int, offset: int) -> str:
    """Return a record's line in the ``.idx`` file."""
    return f"{identity}\t{offset}\n"


def list_line(identity: int, label: int, path: str) -> str:
    """Return a picture's line of the ``.lst`` file, in the format of MXNet's im2rec."""
    return f"{identity}\t{label:f}\t{path}\n"
