"""Looks at a RecordIO file before MXNet does, because what MXNet's reader does not expect ends the whole process.

A record is the number 0xced7230a, a word of 3 bits "which part of it" and 29 bits length, the data, and zeros up to a
multiple of 4, all little-endian (dmlc-core, include/dmlc/recordio.h). The data begin with a flag, a label (float32)
and two numbers of 64 bits; where the flag is not 0, as many labels follow (mxnet/recordio.py). Then comes the picture.
The index has a line ``number<TAB>offset`` a record.

The index and the file's length are checked in full, the records themselves in a sample: a cut-off file, the index of
another file, and pictures that were cut off before they were packed are found. One damaged record of many is found only
by ``trainmark data verify``, or by MXNet when it aborts; a JPEG that is cut off MXNet itself fills up with grey.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, List

from ....core.outcomes import FAILED, RunError
from ....tasks.image_classification.decoding import is_cut_off

MAGIC = 0xCED7230A
SAMPLE = 1000
"""Records that are looked at, evenly spread; of a file with fewer, all."""

TAIL_BYTES = 4096
"""Of a picture, at its end, that are looked at for its end marker."""

_HEAD = struct.Struct("<IIIf")
_PART_HEAD = struct.Struct("<II")
_BEFORE_PICTURE = struct.calcsize("<IIIfQQ")
_LABEL = struct.calcsize("<f")


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
    position = end_of_data = begin
    while magic == MAGIC and position < end:
        end_of_data = position + _PART_HEAD.size + (word & 0x1FFFFFFF)
        position = end_of_data + -end_of_data % 4
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
    if _is_cut_off(file, begin + _BEFORE_PICTURE + _LABEL * flag, end_of_data):
        raise RunError(
            FAILED, f"{records}: the JPEG in the record at byte {begin} is cut off: it has no end marker"
        )


def _is_cut_off(file: BinaryIO, begin: int, end: int) -> bool:
    """Return whether the picture between two positions is a JPEG without its end; only its two ends are read."""
    file.seek(begin)
    start = file.read(2)
    file.seek(max(begin, end - TAIL_BYTES))
    return is_cut_off(start + file.read(max(min(TAIL_BYTES, end - begin), 0)))
