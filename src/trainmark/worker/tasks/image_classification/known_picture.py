"""A made picture whose colours tell where in it one is, so that what a loader made of it tells the crop, and the rest.

``WIDTH`` x ``HEIGHT``: red rises from ``LOW`` by ``RISE`` from left to right, green from top to bottom. Blue is
``BLUE`` with stripes of ``DETAIL`` levels: upright ones with a period of ``ACROSS`` pixels, level ones of ``ALONG``.
A decoder that decodes at a reduced size loses them. As a JPEG (quality 92, no subsampling of the colours) it is off by
less than 4 levels anywhere, and by 1 on average.
"""

import base64
import struct
from collections.abc import Callable
from pathlib import Path

WIDTH, HEIGHT = 160, 120
LOW, RISE, BLUE = 16.0, 224.0, 64.0
DETAIL, ACROSS, ALONG = 24.0, 8, 4

JPEG = base64.b64decode(
    """
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQ
CgwSExIQEw8QEBD/2wBDAQMDAwQDBAgEBAgQCwkLEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ
EBD/wAARCAB4AKADAREAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABAgJ/8QAHxAAAgMBAQEBAQEBAAAAAAAAAAMEJDEBFCMyAhND
/8QAGQEBAQEBAQEAAAAAAAAAAAAAAwQHCQUG/8QAGxEAAgIDAQAAAAAAAAAAAAAAAAMiJQJBQwH/2gAMAwEAAhEDEQA/AM81xfv+Wn2/
udj0JFthoSuLY/LQfWWPQvW2GhK4tjGh5MsehepsNCVxrGNCyZY9C9bYaEri2Py0L1lj0L1thoSuLY/LQsmWPQvW2GhK4v3xoXrLHoXr
bDQlcWx+WhZZ2PQvU2GhK4tjGhessehctsNCFxbH5aDkyx6F62w0J/iLYxoXrLHoXrbDQlcWxjQsmWPQvW2GhK4v3/LQsmWPQvU2GhK4
tj8tD9ZY9C9bYaEri2MaDkyx6F62w0JXF++NCyZY9C9bYaEri2Py0L1lj0L1thoSuLYxoWTLHoXqbDQlcWx+WhZMsehetsNCVxbGNC9Z
Y9C9bYaJsXFsY01P1lj0OaS2w0JXF++NCyZY9C9bYaEri99GNCyZY9C9TYaEri2MaDkyx6F62w0JXF76MaH6yx6F62w0JXFsY0LJlj0L
1thoSuLYxoPrLHoXrbDQlcWxjQ8mWPQvU2GhK4tjGhZMsehctsNCVxbGNByZY9C9bYaEri/fGhessehetsNCVxe+jGhZMsehetsNCVxb
GNCyZY9C9TYaELi99GNC9ZY9C9bYaEri2MaFkyx6F62w0JXFsY0L1lj0L1thoSuLYxoWWdj0L1thoSuLYxoWTLHoXqbDQlcWxjQsmWPQ
vW2GhK4vfRjQvWWPQvW2GibVxbGNNT9ZY9DmktkNCVxbGNCyZY9D0FthoSuL30Y0HJlj0LlMhoSuLYxoWTLHoXrbDQlcWxjQvWWPQvWy
GhP8RbGNCyZY9C9bIaEri2MaF6yx6F62w0IXF76MaFkyx6F6mQ0JXF76MaFkyx6F62w0JXFsY0L1lj0L1shoSuLYxoXrLHoXrZDQlcXv
oxoWTLHoXrbDQlcWxjQsmWPQvUyGhK4vfRjQvWWPQvW2GhK4tjGhZMsehctkNCVxbGNC9ZY9C9bIaEri2MaFkyx6HoLbDQlcWxjQsmWP
QuUyGhK41jGhZMsehetsNCf4i2MaF6yx6F62Q0TYuLYxpqXrLHoc01thoSuL30Y0PJlj0L1thoSuL30Y0HJlj0L1NhoSuL30Y0P1lj0L
1thoSuLYxoPrLHoXLbDQlcXvoxoWTLHoXrbDQlcXvoxoXrLHoegtsNCVxe+jGhZMsehcpsNCFxe+jGhZMsehetsNClxe+jGhessehets
NCVxe+jGhZMsehetsNCFxe+jGhessehetsNCVxe+jGhZMsehepsNCVxbGNC9ZY9C9bYaEri99GNCyZY9C9bYaEri9/3xoXrLHoXrbDQl
cXvoxoWTLHoXrbDQlcXvoxoOTLHoXqbDQlcXvoxoeTLHoXrbDQlcXvoxoXrLHoXLbDRNq4vfRjTUvWWPQ5prbDQlcXvoxoWTLHoXrZDQ
hcWxjQsmWPQvU2GhK4vfRjQvWWPQuWyGhK4vfRjQsmWPQvW2GhK4vfRjQvWWPQvW2GhK4vfRjQsmWPQvWyGhK4vfRjQsmWPQvU2GhK4t
jGg5MsehetkNCVxe+jGh+ssehetsNCVxe+jGhZMsehetsNCVxbGNC9ZY9C9bIaEri99GNCyZY9C9TYaEri99GNCyZY9C9bIaEri99GNB
yZY9C9bYaEri2MaF6yx6F62w0JXF76MaFkyx6F62Q0IXFsY0LJlj0L1NhoSuL30Y0P1lj0LlshoSuLYxoOTLHoegtsNE2/xFsY01P1lj
0Oaa2w0JXF76MaFkyx6Fy2w0JXFsY0HJlj0L1NhoSuLYxofrLHoXrbDQlcTvoxoWTLHoXrbDQlcT740L1lj0L1thoSuLYxoWTLHoXrbD
QhcTvoxoWTLHoXqbDQlcWxjQcmWPQvW2GhK4vfRjQvWWPQvW2GhK4tjGhZMsehetsNCVxbGOC9ZY9C9bYaEri2MaHkyx6F6mw0JXE76M
aDkyx6Fy2w0JXFsY0L1lj0PQW2GhK4tjGhessehetsNCVxe/740LJlj0LlthoSuLYxoWTLHoegpsNCVxe+jGhessehctsNCVxbGNCyZY
9C9bYaJs/iL98aankyx6HNJbYaEri2MaDkyx6F62w0JXEsY0LJlj0L1NhoSuLYxofrLHoXrbDQlcXvoxoOTLHoXrbDQlcXvoxoXrLHoX
rbDQlcWxjQ8mWPQvW2GhK4vfRjQcmWPQvU2GhK4ljGhZMsehetsNCVxbGNC9ZY9C9bYaEri2MaFkyx6F62w0JXE++NC9ZY9C9bYaEri2
McFkyx6F6mw0IXE76MaFkyx6F62w0JXFsY0L1lj0LlthoT/EWxjQsmWPQvW2GhK4vfRjQsmWPQ9BbYaEri2MaFkyx6Fymw0JXFsY0L1l
j0L1thoSuL30Y0LJlj0L1thom1cSxjTU8mWPQ5prbDQlcSxjQfWWPQvW2GhK4ljGh5MsehepsNCFxLGNB9ZY9C9bYaEriWMaFkyx6F62
w0JXEsY0L1lj0L1thoSuJYxoWTLHoXrbDQlcSxjQsmWPQvU2GhK4ljGh+ssehetsNCVxLGNByZY9C5bYaEriWMaFkyx6F62w0JXEsY0L
1lj0PQW2GhK4ljGhZMsehcpsNCVxLGNCyZY9C9bYaEriWMaF6yx6F62w0JXE++NCyZY9C9bYaEriWMaF6yx6F62w0JXEsY0LJlj0L1Nh
oQuJYxoXrLHoXrbDQn+IljGhZMsehetsNE2ri2Maalkyx6HNJbYaEri2MaF6yx6F62w0JXFsY0PJlj0L1NhoSuLYxoOTLHoXrbDQlcWx
jQsmWPQvW2GhK4tjGhessehetsNCVxbGNCyZY9C9bYaELi2MaFkyx6F6mw0JXF56MaF6yx6F62w0JXFsY0LJlj0L1thoSuLYxoXrLHoX
rbDQlcWxjQsmWPQvW2GhK4tjGhZMsehepsNCVxeejGhZMsehctsNCVxbGNC9ZY9C9bYaEri2MaFkyx6F62w0JXF56MaF6yx6F62w0JXF
sY0LJlj0L1NhoSuLYxoWTLHoXrbDQlcXnoxoOTLHoXrbDRNi4tjGmp5MsehzTW2GhK4v3xoXrLHoXrbDQlcXnoxoWTLHoXKbDQlcWxjQ
smWPQvW2GhK4tjGhessehetsNCVxbGNC9ZY9C9bYaEri89GNCyZY9C9bYaEri2MaDkyx6F6mw0JXF56MaH6yx6F62w0JXFsY0LJlj0L1
thoSuLYxoXrLHoXrbDQlcXnoxoWTLHoXrbDQlcWxjQsmWPQvU2GhK4nPRjQcmWPQvW2GhK4tjGhessehetsNCVxbGNCyZY9C9bYaELi2
MaF6yx6F62w0JXF56MaHkyx6Fymw0JXFsf8AUHJlj0L1thoSuLz0Y0P1lj0L1thom3+IvPRjTUsmWPQ5prbDQlcWxjQvWWPQvW2GhK4v
PRjQsmWPQvU2GhC4vPRjQsmWPQvW2GhK4tjGhessehetsNCVxeejGhZMsehetsNCVxeejGhZMsehetsNCVxbGNByZY9C9TYaEri89GND
9ZY9C5bYaEri2MaDkyx6F62w0JXF++ND9ZY9C9bYaEri89GNCyZY9C9bYaEri89GNByZY9C9TYaEri89GNDyzsehetsNCf4i89GNB9ZY
9C9bYaEri89GNCyZY9C9bYaEri/fGhessehetsNCVxeejGhZMsehepsNCFxbGNCyZY9C9bYaEri89GNC9ZY9C9bYaJtXF56Maan6yx6H
NJbYaEri89GNByZY9C9bYaEri89GNDyZY9C9TYaEri89GNByZY9C9bYaEri2MaH6yx6F62w0JXF5/vjQsmWPQvW2GhK4vPRjQfWWPQvW
2GhK4tjGh5MsehepsNCVxeejGg+ssehctsNCVxeejGhZMsehetsNCVxeejGhessehetsNCFxef740LJlj0L1thoSuLYxoWTLHoXqbDQl
cWxjQ/WWPQvW2GhK4vPRjQcmWPQvW2GhK4vPRjQsmWPQvW2GhK4tjGhessehetsNCVxeejGhZMsehepsNCVxeejGhZMsehetsNCVxbGN
C9ZY9C9bYaJtXF++NNT9ZY9DmmtsNCVxbGNCyZY9C9bYaELi2MaDkyx6F6mw0JXF++NCyZY9C9bYaEri89GNC9ZY9C9bYaEri2MaFkyx
6F62w0JXF++OC9ZY9C9bYaEri2MaHkyx6Fymw0JXFsY0HJlj0L1thoT/ABFsY0L1lj0L1thoSuLYxoXrLHoXrbDQlcWxjQsmWPQvW2Gh
K4tjGhZMsehepsNCVxbGNC9ZY9C9bYaELi2McFkyx6F62w0J/iLYxoXrLHoXrbDQpcWxjQss7HoXrbDQhcWxjQsmWPQvU2GhK4tjGhZM
sehetsNCVxbGNC9ZY9C9bYaJtXF56Maal6yx6HNJbYaEri2MaFkyx6F62w0JXF56Py0LJlj0L1NhoSuNYxoWWdj0LlthoT/EXnoxoXrL
HoXrbDQlcWxjQsmWPQvW2GhK4v3xoXrLHoXrbDQlcWxjQsmWPQvU2GhC4vPRjQsmWPQvW2GhK4v3xoXrLHoXrbDQn+ItjGhZMsehetsN
CVxeejGhZMsehetsNCVxfvjQcmWPQvU2GhK4vPRjQ/WWPQvW2GhK4tjGhZMsehetsNCVxfvjQvWWPQvW2GhK4vPRjQsmWPQvW2GhK4vP
RjQsmWPQvU2GhK4v3xwOTLHoXLbDQlcXnoxoXrLHoXrbDRNi4tj8tNT9ZY9DmotsNCVxfvjQsmWPQvW2GhK4tj8tCyZY9C5TYaEri2Ma
F6yx6F62w0JXF++NCyZY9C9bYaE/xFsfloWTLHoXrbDQlcWx+WhessehetsNCVxfvjQsmWPQvU2GhK4tj8tCyZY9C9bYaEri2MaF6yx6
F62w0JXF++NCyZY9C9bYaEri2Py0L1lj0L1thoQuLYxoOWdj0L1NhoSuL9/y0P1lj0L1thoSuLY/LQcmWPQvW2GhK4tj8tD9ZY9C9bYa
Eri2MaFkyx6F62w0JXFsfloOTLHoXKbDQlcWxjQ8mWPQvW2GhP8AEWx+Whe52PQvW2Gj/9k=
    """
)
"""The picture as a baseline JPEG."""


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
