"""Reading one TFRecord shard or RecordIO file to its end, and noting what is wrong with its records."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from trainmark.dataset import example, tfrecord
from trainmark.dataset.images import recordio
from trainmark.dataset.images.features import ENCODED, LABEL
from trainmark.dataset.images.jpeg import find_fault
from trainmark.dataset.problems import DatasetProblem, Depth, ProblemKind
from trainmark.tasks.image_classification.data import Form

_SENTENCES = {
    tfrecord.Break.LENGTH_CRC: (ProblemKind.BROKEN, "the checksum of its length is wrong"),
    tfrecord.Break.DATA_CRC: (ProblemKind.BROKEN, "the checksum of its data is wrong"),
    tfrecord.Break.TRUNCATED: (ProblemKind.TRUNCATED, "the file ends within it"),
    recordio.Break.MAGIC: (ProblemKind.BROKEN, "the magic number is not there"),
    recordio.Break.TRUNCATED: (ProblemKind.TRUNCATED, "the file ends within it"),
    recordio.Break.ORDER: (ProblemKind.BROKEN, "its parts do not follow one another"),
}


@dataclass(slots=True)
class Examined:
    """What reading one file gave. ``places`` are (offset, size) of a TFRecord, (id, offset) of a RecordIO file."""

    name: str
    bytes: int = 0
    sha256: str = ""
    places: list[tuple[int, int]] = field(default_factory=list)
    labels: Counter[int] = field(default_factory=Counter)
    problems: list[DatasetProblem] = field(default_factory=list)
    ended: bool = True
    """False where a broken record hides what lies behind it."""


_Found = dict[tuple[ProblemKind, str], list[str]]
"""Where each kind of damage lies in a file, so that a thousand damaged records are one line and not a thousand."""


def examine(directory: Path, form: Form, depth: Depth, name: str) -> Examined:
    """Read the file ``name`` of ``directory`` once for its records and once for its checksum."""
    read = _read_shard if form is Form.TFRECORD else _read_recordio
    path, result = directory / name, Examined(name)
    found: _Found = {}
    try:
        result.bytes = path.stat().st_size
        with path.open("rb") as file:
            read(file, result, found, depth)
        with path.open("rb") as file:
            result.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        result.problems.append(DatasetProblem(name, ProblemKind.UNREADABLE, error.strerror or str(error)))
        return result
    if not result.bytes:
        result.problems.append(DatasetProblem(name, ProblemKind.TRUNCATED, "the file is empty"))
    for (kind, what), places in found.items():
        more = f"; and {len(places) - 1} more such records" if len(places) > 1 else ""
        result.problems.append(DatasetProblem(name, kind, f"{places[0]}: {what}{more}"))
    return result


def _read_shard(file: BinaryIO, result: Examined, found: _Found, depth: Depth) -> None:
    for number, record in enumerate(tfrecord.read_records(file, result.bytes)):
        where = f"record {number} at byte {record.offset}"
        if record.broken:
            found.setdefault(_SENTENCES[record.broken], []).append(where)
            if record.broken is not tfrecord.Break.DATA_CRC:
                result.ended = False
                return
        result.places.append((record.offset, record.size))
        if not record.broken:
            _examine_example(record.data, where, result, found, depth)


def _examine_example(data: bytes, where: str, result: Examined, found: _Found, depth: Depth) -> None:
    try:
        features = example.decode_example(data)
    except ValueError:
        found.setdefault((ProblemKind.UNDECODABLE, "is no tf.train.Example"), []).append(where)
        return
    picture, label = features.get(ENCODED), features.get(LABEL)
    if isinstance(label, int):
        result.labels[label] += 1
    else:
        what = (ProblemKind.MISLABELLED, f"has no integer in {LABEL}")
        found.setdefault(what, []).append(where)
    if isinstance(picture, bytes):
        _examine_picture(picture, where, found, depth)
    else:
        found.setdefault((ProblemKind.UNDECODABLE, f"has no {ENCODED}"), []).append(where)


def _read_recordio(file: BinaryIO, result: Examined, found: _Found, depth: Depth) -> None:
    for number, record in enumerate(recordio.read_records(file, result.bytes)):
        where = f"record {number} at byte {record.offset}"
        if record.broken:
            found.setdefault(_SENTENCES[record.broken], []).append(where)
            result.ended = False
            return
        try:
            held = recordio.unpack(record.data)
        except ValueError as error:
            found.setdefault((ProblemKind.BROKEN, str(error)), []).append(where)
            continue
        result.places.append((held.identity, record.offset))
        if held.label == int(held.label):
            result.labels[int(held.label)] += 1
        else:
            what = (ProblemKind.MISLABELLED, f"its label {held.label} is no whole number")
            found.setdefault(what, []).append(where)
        _examine_picture(held.picture, where, found, depth)


def _examine_picture(data: bytes, where: str, found: _Found, depth: Depth) -> None:
    fault = find_fault(data, depth)
    if fault:
        found.setdefault((ProblemKind(fault[0].value), fault[1]), []).append(where)
    elif not data.startswith(b"\xff\xd8"):
        found.setdefault((ProblemKind.UNDECODABLE, "its picture is no JPEG"), []).append(where)
