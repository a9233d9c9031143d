"""Read one TFRecord shard or RecordIO file to its end, and collect the problems of its records."""

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
from trainmark.tasks.image_classification.axes import Form

_SENTENCES = {
    tfrecord.FramingFault.LENGTH_CRC: (ProblemKind.BROKEN, "the checksum of its length is wrong"),
    tfrecord.FramingFault.DATA_CRC: (ProblemKind.BROKEN, "the checksum of its data is wrong"),
    tfrecord.FramingFault.TRUNCATED: (ProblemKind.TRUNCATED, "the file ends within it"),
    recordio.FramingFault.MAGIC: (ProblemKind.BROKEN, "the magic number is missing"),
    recordio.FramingFault.TRUNCATED: (ProblemKind.TRUNCATED, "the file ends within it"),
    recordio.FramingFault.ORDER: (ProblemKind.BROKEN, "its parts do not follow one another"),
}


@dataclass(slots=True)
class ExaminedFile:
    """The result of reading one file. ``locations`` are (offset, size) in TFRecord, (id, offset) in RecordIO files."""

    name: str
    bytes: int = 0
    sha256: str = ""
    locations: list[tuple[int, int]] = field(default_factory=list)
    labels: Counter[int] = field(default_factory=Counter)
    problems: list[DatasetProblem] = field(default_factory=list)
    ended: bool = True
    """False if a broken record makes the rest of the file unreadable."""


_Found = dict[tuple[ProblemKind, str], list[str]]
"""The locations of each kind of damage, so that a thousand damaged records are reported in one line."""


def examine(directory: Path, form: Form, depth: Depth, name: str) -> ExaminedFile:
    """Read the file ``name`` in ``directory`` once for its records and once for its checksum."""
    read = _read_shard if form is Form.TFRECORD else _read_recordio
    path, result = directory / name, ExaminedFile(name)
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
    for (kind, what), locations in found.items():
        more = f"; and {len(locations) - 1} more such records" if len(locations) > 1 else ""
        result.problems.append(DatasetProblem(name, kind, f"{locations[0]}: {what}{more}"))
    return result


def _read_shard(file: BinaryIO, result: ExaminedFile, found: _Found, depth: Depth) -> None:
    for number, record in enumerate(tfrecord.read_records(file, result.bytes)):
        where = f"record {number} at byte {record.offset}"
        if record.broken:
            found.setdefault(_SENTENCES[record.broken], []).append(where)
            if record.broken is not tfrecord.FramingFault.DATA_CRC:
                result.ended = False
                return
        result.locations.append((record.offset, record.size))
        if not record.broken:
            _examine_example(record.data, where, result, found, depth)


def _examine_example(data: bytes, where: str, result: ExaminedFile, found: _Found, depth: Depth) -> None:
    try:
        features = example.decode_example(data)
    except ValueError:
        found.setdefault((ProblemKind.UNDECODABLE, "is not a tf.train.Example"), []).append(where)
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


def _read_recordio(file: BinaryIO, result: ExaminedFile, found: _Found, depth: Depth) -> None:
    for number, record in enumerate(recordio.read_records(file, result.bytes)):
        where = f"record {number} at byte {record.offset}"
        if record.broken:
            found.setdefault(_SENTENCES[record.broken], []).append(where)
            result.ended = False
            return
        try:
            content = recordio.unpack(record.data)
        except ValueError as error:
            found.setdefault((ProblemKind.BROKEN, str(error)), []).append(where)
            continue
        result.locations.append((content.identity, record.offset))
        if content.label == int(content.label):
            result.labels[int(content.label)] += 1
        else:
            what = (ProblemKind.MISLABELLED, f"its label {content.label} is not an integer")
            found.setdefault(what, []).append(where)
        _examine_picture(content.picture, where, found, depth)


def _examine_picture(data: bytes, where: str, found: _Found, depth: Depth) -> None:
    fault = find_fault(data, depth)
    if fault:
        found.setdefault((ProblemKind(fault[0].value), fault[1]), []).append(where)
    elif not data.startswith(b"\xff\xd8"):
        found.setdefault((ProblemKind.UNDECODABLE, "its picture is not a JPEG"), []).append(where)
