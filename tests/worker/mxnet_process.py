"""What the tests of the MXNet worker share: Python beside MXNet, and RecordIO files of known images."""

import io
from pathlib import Path
from typing import Any

from PIL import Image
from worker_process import beside

from trainmark.dataset.images.recordio import frame, index_line, pack


def in_mxnet(code: str) -> Any:
    return beside("mxnet", "import mxnet as mx\n" + code)


def write_records(folder: Path, images: list[tuple[int, bytes]]) -> Path:
    """Write labels and JPEGs as RecordIO, in this order; return the new folder."""
    folder.mkdir()
    data, index = b"", ""
    for number, (label, jpeg) in enumerate(images):
        index += index_line(number, len(data))
        data += frame(pack(label, number, jpeg))
    (folder / "train.rec").write_bytes(data)
    (folder / "train.idx").write_text(index, encoding="ascii")
    return folder


def write_colours(folder: Path, colours: list[int]) -> Path:
    """Write a RecordIO file of images of one colour each, which no crop and no mirror changes."""
    images = []
    for colour in colours:
        jpeg = io.BytesIO()
        Image.new("RGB", (48, 40), (colour, 255 - colour, 128)).save(jpeg, "JPEG")
        images.append((colour % 7, jpeg.getvalue()))
    return write_records(folder, images)
