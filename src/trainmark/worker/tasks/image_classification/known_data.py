"""Writes data sets of nothing but the known picture, in each form that a loader takes."""

import struct
from collections.abc import Callable
from pathlib import Path

from .known_picture import JPEG

FOLDER, TFRECORD, RECORDIO = "folder", "tfrecord", "recordio"


def write_known(form: str, folder: Path, count: int) -> Path:
    """Write ``count`` samples of the first class into an empty folder; return what ``--data`` would name."""
    _WRITERS[form](folder, count)
    return folder


def _images(folder: Path, count: int) -> None:
    (folder / "class0").mkdir()
    for number in range(count):
        (folder / "class0" / f"{number:06d}.jpg").write_bytes(JPEG)


def _tfrecord(folder: Path, count: int) -> None:
    """Write one shard with ImageNet's feature keys, and the index that DALI wants.

    The messages of tensorflow/core/example/example.proto, and the framing of tensorflow/core/lib/io/record_writer.h.
    """
    features = [
        _feature(b"image/encoded", _field(1, _field(1, JPEG))),
        _feature(b"image/class/label", _field(3, _field(1, _varint(1)))),
    ]
    example = _field(1, b"".join(features))
    length = struct.pack("<Q", len(example))
    record = length + _masked_crc(length) + example + _masked_crc(example)
    shard = folder / "train-00000-of-00001"
    shard.write_bytes(record * count)
    (folder / "idx").mkdir()
    lines = [f"{number * len(record)} {len(record)}\n" for number in range(count)]
    (folder / "idx" / f"{shard.name}.idx").write_text("".join(lines), encoding="ascii")


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


def _recordio(folder: Path, count: int) -> None:
    """Write ``train.rec`` and its index: dmlc-core's include/dmlc/recordio.h, mxnet/recordio.py."""
    records = bytearray()
    offsets: list[int] = []
    for number in range(count):
        offsets.append(len(records))
        data = struct.pack("<IfQQ", 0, 0.0, number, 0) + JPEG
        records += struct.pack("<II", 0xCED7230A, len(data)) + data + bytes(-len(data) % 4)
    (folder / "train.rec").write_bytes(records)
    lines = [f"{number}\t{offset}\n" for number, offset in enumerate(offsets)]
    (folder / "train.idx").write_text("".join(lines), encoding="ascii")


_WRITERS: dict[str, Callable[[Path, int], None]] = {
    FOLDER: _images,
    TFRECORD: _tfrecord,
    RECORDIO: _recordio,
}
