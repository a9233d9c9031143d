"""A made picture whose colours tell where in it one is, so that what a loader made of it tells the crop, and the rest.

``WIDTH`` x ``HEIGHT``: red rises from ``LOW`` by ``RISE`` from left to right, green from top to bottom. Blue is
``BLUE`` with stripes of ``DETAIL`` levels: upright ones with a period of ``ACROSS`` pixels, level ones of ``ALONG``.
A decoder that decodes at a reduced size loses them. As a JPEG (quality 92, no subsampling of the colours) it is off by
less than 4 levels anywhere, and by 1 on average.
"""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

WIDTH, HEIGHT = 160, 120
LOW, RISE, BLUE = 16.0, 224.0, 64.0
DETAIL, ACROSS, ALONG = 24.0, 8, 4

JPEG = Path(__file__).with_suffix(".jpg").read_bytes()
"""The picture as a baseline JPEG."""

TURNED_OVER = Path(__file__).with_name("known_picture_turned_over.jpg").read_bytes()
"""The same with top and bottom exchanged: green falls from top to bottom."""

PICTURES = (JPEG, TURNED_OVER)
"""The picture of a class: the first one of classes with an even number, the second one of the others."""

CLASSES = 8
"""The most classes of the samples; with several, each but the last has a neighbour with the other picture."""


def class_of(number: int, classes: int) -> int:
    """Return the class of a sample, from 0, of a network with so many ``classes``."""
    return number % min(classes, CLASSES)


FOLDER, TFRECORD, RECORDIO = "folder", "tfrecord", "recordio"


def write_known(form: str, folder: Path, count: int, classes: int = 1) -> Path:
    """Write ``count`` samples of the first of ``classes`` into an empty folder; return what ``--data`` would name."""
    _WRITERS[form](folder, [class_of(number, classes) for number in range(count)])
    return folder


def _images(folder: Path, labels: Sequence[int]) -> None:
    for label in set(labels):
        (folder / f"class{label}").mkdir()
    for number, label in enumerate(labels):
        (folder / f"class{label}" / f"{number:06d}.jpg").write_bytes(PICTURES[label % 2])


def _tfrecord(folder: Path, labels: Sequence[int]) -> None:
    """Write one shard with ImageNet's feature keys, and the index that DALI wants.

    The messages of tensorflow/core/example/example.proto, and the framing of tensorflow/core/lib/io/record_writer.h.
    """
    records = {label: _record(label) for label in set(labels)}
    shard, offset = folder / "train-00000-of-00001", 0
    lines = []
    for label in labels:
        lines.append(f"{offset} {len(records[label])}\n")
        offset += len(records[label])
    shard.write_bytes(b"".join(records[label] for label in labels))
    (folder / "idx").mkdir()
    (folder / "idx" / f"{shard.name}.idx").write_text("".join(lines), encoding="ascii")


def _record(label: int) -> bytes:
    """Return a sample of a class from 0; ImageNet's records count classes from 1."""
    features = [
        _feature(b"image/encoded", _field(1, _field(1, PICTURES[label % 2]))),
        _feature(b"image/class/label", _field(3, _field(1, _varint(label + 1)))),
    ]
    example = _field(1, b"".join(features))
    length = struct.pack("<Q", len(example))
    return length + _masked_crc(length) + example + _masked_crc(example)


def _feature(name: bytes, value: bytes) -> bytes:
    return _field(1, _field(1, name) + _field(2, value))


def _field(number: int, data: bytes) -> bytes:
    """Return a protobuf field of bytes, a message or packed numbers."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _masked_crc(data: bytes) -> bytes:
    """Return the CRC32C (polynomial 0x1EDC6F41, reflected) as TFRecord masks it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _recordio(folder: Path, labels: Sequence[int]) -> None:
    """Write ``train.rec`` and its index: dmlc-core's include/dmlc/recordio.h, mxnet/recordio.py."""
    records = bytearray()
    offsets: list[int] = []
    for number, label in enumerate(labels):
        offsets.append(len(records))
        data = struct.pack("<IfQQ", 0, float(label), number, 0) + PICTURES[label % 2]
        records += struct.pack("<II", 0xCED7230A, len(data)) + data + bytes(-len(data) % 4)
    (folder / "train.rec").write_bytes(records)
    lines = [f"{number}\t{offset}\n" for number, offset in enumerate(offsets)]
    (folder / "train.idx").write_text("".join(lines), encoding="ascii")


_WRITERS: dict[str, Callable[[Path, Sequence[int]], None]] = {
    FOLDER: _images,
    TFRECORD: _tfrecord,
    RECORDIO: _recordio,
}
