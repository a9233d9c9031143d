"""Looks at a RecordIO file before MXNet does, because what MXNet's reader does not expect ends the whole process.

A record is the number 0xced7230a, a word of 3 bits "which part of it" and 29 bits length, the data, and zeros up to a
multiple of 4, all little-endian (dmlc-core, include/dmlc/recordio.h). The data begin with a flag, a label (float32)
and two numbers of 64 bits (mxnet/recordio.py). The index has a line ``number<TAB>offset`` a record.

The index and the file's length are checked in full, the records themselves in a sample: a cut-off file and the index
of another file are found, one damaged record of many only by ``trainmark data verify``, or by MXNet when it aborts.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, List

from ...outcomes import FAILED, RunError

MAGIC = 0xCED7230A
SAMPLE = 1000
"""Records that are looked at, evenly spread; of a file with fewer, all."""

_HEAD = struct.Struct("<IIIf")
_PART_HEAD = struct.Struct("<II")


def check_framing(records: Path, index: Path, classes: int) -> int:
    """Return the number of records; raise ``RunError`` (failed), which names the file, for one that is damaged."""
    try:
        offsets = _read_index(index)
        size = records.stat().st_size
        if not offsets:
            raise RunError(FAILED, f"{index} names no records")
        if offsets[0] != 0 or any(offsets[i] - offsets[i - 1] < _HEAD.size for i in range(1, len(offsets))):
            raise RunError(FAILED, f"{index} is no index of {records.name}: its offsets do not fit")
        if offsets[-1] + _HEAD.size > size:
            raise RunError(FAILED, f"{records} is cut off: {index.name} goes on behind its {size} bytes")
        ends = [*offsets[1:], size]
        step = max(len(offsets) // SAMPLE, 1)
        with records.open("rb") as file:
            for number in {*range(0, len(offsets), step), len(offsets) - 1}:
                _check_record(file, records, offsets[number], ends[number], classes)
    except OSError as error:
        raise RunError(FAILED, f"cannot read {error.filename}: {error.strerror}") from error
    return len(offsets)


def _read_index(index: Path) -> List[int]:
    offsets = []
    with index.open(encoding="ascii", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if len(words) != 2 or not words[1].isdecimal():
                raise RunError(FAILED, f"{index}, line {number}: expected 'number offset', got {line[:80]!r}")
            offsets.append(int(words[1]))
    return sorted(offsets)


def _check_record(file: BinaryIO, records: Path, begin: int, end: int, classes: int) -> None:
    file.seek(begin)
    head = file.read(_HEAD.size)
    magic, word, flag, label = _HEAD.unpack(head)
    position = begin
    while magic == MAGIC and position < end:
        position += _PART_HEAD.size + (word & 0x1FFFFFFF)
        position += -position % 4
        if word >> 29 in (0, 3):
            break
        file.seek(position)
        magic, word = _PART_HEAD.unpack(file.read(_PART_HEAD.size).ljust(_PART_HEAD.size))
    if magic != MAGIC:
        raise RunError(FAILED, f"{records} is damaged: no record begins at byte {position}")
    if position > os.fstat(file.fileno()).st_size:
        raise RunError(FAILED, f"{records} is cut off: the record at byte {begin} ends behind it")
    if position != end:
        raise RunError(FAILED, f"{records} is damaged: the record at byte {begin} does not end at byte {end}")
    if flag == 0 and not 0 <= label < classes:
        raise RunError(
            FAILED,
            f"{records}: the record at byte {begin} has label {label:g}, but the network has {classes} classes "
            "(--classes)",
        )
