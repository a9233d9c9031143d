"""TFRecord files: how a record is framed, and DALI's index of where each one lies.

A record is its length (8 bytes), the masked CRC32C of those 8 bytes (4), the data, and the masked CRC32C of the data
(4), all little-endian (tensorflow/core/lib/io/record_writer.h and tensorflow/core/lib/hash/crc32c.h).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

import google_crc32c

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")
FRAMING = _HEAD.size + _TAIL.size
"""Bytes of a record beside its data."""

MAX_RECORD = 2**31
"""Bytes of data that no record of pictures reaches; a length beyond it with a right CRC is damage too."""


class Break(StrEnum):
    """What is wrong with a record's framing."""

    LENGTH_CRC = "length-crc"
    """Where the record ends is not known, nor anything behind it."""
    DATA_CRC = "data-crc"
    TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it lies in its file: ``size`` counts the framing too; ``data`` is empty where it was cut off."""

    offset: int
    size: int
    data: bytes
    broken: Break | None = None


def masked_crc(data: bytes) -> int:
    """Return the CRC32C of ``data``, rotated and shifted as TFRecord files hold it."""
    crc = int(google_crc32c.value(data))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data: bytes) -> bytes:
    """Return ``data`` as one record."""
    length = len(data).to_bytes(8, "little")
    return b"".join((length, _TAIL.pack(masked_crc(length)), data, _TAIL.pack(masked_crc(data))))


def read_records(file: BinaryIO, file_size: int) -> Iterator[Record]:
    """Yield the records of ``file`` from its beginning, each checked.

    It ends after the first record whose length cannot be trusted or that ``file_size`` cuts off.
    """
    offset = 0
    while offset < file_size:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            yield Record(offset, file_size - offset, b"", Break.TRUNCATED)
            return
        length, length_crc = _HEAD.unpack(head)
        if masked_crc(head[:8]) != length_crc or length > MAX_RECORD:
            yield Record(offset, file_size - offset, b"", Break.LENGTH_CRC)
            return
        if offset + length + FRAMING > file_size:
            yield Record(offset, file_size - offset, b"", Break.TRUNCATED)
            return
        data = file.read(length)
        (data_crc,) = _TAIL.unpack(file.read(_TAIL.size))
        size = length + FRAMING
        yield Record(offset, size, data, None if masked_crc(data) == data_crc else Break.DATA_CRC)
        offset += size


def index_line(offset: int, size: int) -> str:
    """Return a record's line in DALI's index file, as its ``tfrecord2idx`` writes it."""
    return f"{offset} {size}\n"
