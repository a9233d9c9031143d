"""Check TFRecord shards before DALI reads them, because DALI relies on the index and checks no CRC.

A record is its length (8 bytes), the masked CRC32C of those (4), the data, and the masked CRC32C of the data (4), all
little-endian (tensorflow/core/lib/io/record_writer.h). DALI's index has one line ``offset size`` per record; the size
includes the framing.

Names, indexes and file lengths are checked in full, the records of a large data set by a sample. This finds a missing
shard, a truncated shard and the index of another file; a single damaged record among many is found only by
``trainmark data verify``.
"""

import re
import struct
from pathlib import Path
from typing import NamedTuple

from google_crc32c import value as crc32c

from ...core.outcomes import FAILED, RunError
from ...core.place import Place

SHARD = re.compile(r"train-(?P<number>\d{5,})-of-(?P<count>\d{5,})")
SAMPLE_BYTES = 256 * 1024 * 1024
"""About this many bytes of records are compared with their CRCs; all of a smaller data set."""

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")
_FRAMING = _HEAD.size + _TAIL.size


class Shards(NamedTuple):
    """The shards of a data set and their index files, in the order of their numbers."""

    files: list[Path]
    indices: list[Path]


class _Span(NamedTuple):
    """The position of a record in its file, from the index."""

    offset: int
    size: int


def find_shards(folder: Path, place: Place) -> Shards:
    """Return the checked training shards in ``folder``; each rank checks its part of the sample of records.

    Raises ``RunError`` (failed), with the file and what to do, for data that DALI would read incorrectly.
    """
    try:
        shards = _find(folder)
        spans = [_read_index(*pair) for pair in zip(shards.files, shards.indices)]
        step = max(1, sum(span.size for one in spans for span in one) // SAMPLE_BYTES)
        number = 0
        for shard, its in zip(shards.files, spans):
            chosen = [
                span
                for at, span in enumerate(its, number)
                if at % (step * place.world_size) == step * place.rank
            ]
            _check_records(shard, chosen)
            number += len(its)
    except OSError as error:
        raise RunError(FAILED, f"cannot read {error.filename}: {error.strerror}") from error
    if not number:
        raise RunError(FAILED, f"the data set {folder} has no records in its TFRecord shards")
    return shards


def _find(folder: Path) -> Shards:
    if not folder.is_dir():
        raise RunError(FAILED, f"the data set {folder} does not exist")
    matches = [match for entry in sorted(folder.iterdir()) if (match := SHARD.fullmatch(entry.name))]
    if not matches:
        raise RunError(FAILED, f"the data set {folder} has no TFRecord shards (train-00000-of-00008) in it")
    count = matches[0]["count"]
    for number in range(int(count)):
        wanted = f"train-{number:05d}-of-{count}"
        if not (folder / wanted).is_file():
            raise RunError(
                FAILED, f"{folder / wanted} is missing: the data set has {int(count)} training shards"
            )
    if len(matches) != int(count):
        odd = next(match for match in matches if match["count"] != count)
        raise RunError(
            FAILED, f"{folder / odd.string} does not belong to the same data set as {matches[0].string}"
        )
    files = [folder / match.string for match in matches]
    indices = [folder / "idx" / f"{file.name}.idx" for file in files]
    missing = next((index for index in indices if not index.is_file()), None)
    if missing is not None:
        raise RunError(FAILED, f"{missing} is missing, which DALI needs: trainmark data index {folder}")
    return Shards(files, indices)


def _read_index(shard: Path, index: Path) -> list[_Span]:
    """Return the positions of all records; raise ``RunError`` if they do not cover the whole shard."""
    spans, end = [], 0
    with index.open(encoding="ascii", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if len(words) != 2 or not all(word.isdecimal() for word in words):
                raise RunError(FAILED, f"{index}, line {number}: expected 'offset size', got {line[:80]!r}")
            span = _Span(int(words[0]), int(words[1]))
            if span.offset != end or span.size < _FRAMING:
                raise RunError(
                    FAILED, f"{index}, line {number}: the record does not follow the one before it"
                )
            spans.append(span)
            end += span.size
    size = shard.stat().st_size
    if end != size:
        raise RunError(
            FAILED,
            f"{shard} has {size} bytes, but its index ends at {end}: it is truncated, or {index} is for another file",
        )
    return spans


def _check_records(shard: Path, spans: list[_Span]) -> None:
    with shard.open("rb") as file:
        for span in spans:
            file.seek(span.offset)
            damage = _damage(file.read(span.size), span.size)
            if damage is not None:
                raise RunError(
                    FAILED,
                    f"{shard} is damaged, or its index is for another file: the record at byte {span.offset} {damage} "
                    f"(trainmark data verify {shard.parent})",
                )


def _damage(record: bytes, size: int) -> str | None:
    """Return the mistake in a record of ``size`` bytes, or None."""
    if len(record) < size:
        return "extends beyond the end of the file"
    length, crc = _HEAD.unpack_from(record)
    if _masked_crc(record[:8]) != crc:
        return "has a length with a wrong CRC"
    if length != size - _FRAMING:
        return f"has {length + _FRAMING} bytes, but {size} in the index"
    if _masked_crc(record[_HEAD.size : -_TAIL.size]) != _TAIL.unpack_from(record, size - _TAIL.size)[0]:
        return "has data with a wrong CRC"
    return None


def _masked_crc(data: bytes) -> int:
    crc = int(crc32c(data))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
