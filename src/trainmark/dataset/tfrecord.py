"""The framing of TFRecord files, and DALI's index of their records.

A record is its length (8 bytes), the masked CRC32C of those 8 bytes (4), the data, and the masked CRC32C of the data
(4), all little-endian (tensorflow/core/lib/io/record_writer.h and tensorflow/core/lib/hash/crc32c.h).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")
FRAMING = _HEAD.size + _TAIL.size
"""Bytes of a record besides its data."""

MAX_RECORD = 2**31
"""More data bytes than any image record has; a greater length is damage even if its CRC is correct."""


class FramingFault(StrEnum):
    """The kinds of damage to a record's framing."""

    LENGTH_CRC = "length-crc"
    """The record's length is damaged, so the rest of the file cannot be read."""
    DATA_CRC = "data-crc"
    TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a file: ``size`` includes the framing; ``data`` is empty if the record was cut off."""

    offset: int
    size: int
    data: bytes
    broken: FramingFault | None = None


def masked_crc(data: bytes) -> int:
    """Return the masked CRC32C of ``data`` as in TFRecord files."""
    import google_crc32c  # only data sets need it

    crc = int(google_crc32c.value(data))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data: bytes) -> bytes:
    """Return ``data`` as one record."""
    length = len(data).to_bytes(8, "little")
    return b"".join((length, _TAIL.pack(masked_crc(length)), data, _TAIL.pack(masked_crc(data))))


def read_records(file: BinaryIO, file_size: int) -> Iterator[Record]:
    """Yield and check the records of ``file`` from its beginning.

    Stops after the first record with a damaged length or that is cut off at ``file_size``.
    """
    offset = 0
    while offset < file_size:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            yield Record(offset, file_size - offset, b"", FramingFault.TRUNCATED)
            return
        length, length_crc = _HEAD.unpack(head)
        if masked_crc(head[:8]) != length_crc or length > MAX_RECORD:
            yield Record(offset, file_size - offset, b"", FramingFault.LENGTH_CRC)
            return
        if offset + length + FRAMING > file_size:
            yield Record(offset, file_size - offset, b"", FramingFault.TRUNCATED)
            return
        data = file.read(length)
        (data_crc,) = _TAIL.unpack(file.read(_TAIL.size))
        size = length + FRAMING
        yield Record(offset, size, data, None if masked_crc(data) == data_crc else FramingFault.DATA_CRC)
        offset += size


def index_line(offset: int, size: int) -> str:
    """Return a record's line of DALI's index file, in the format of ``tfrecord2idx``."""
    return f"{offset} {size}\n"
