"""One task of a conversion: write a TFRecord shard with its index, or a piece of a RecordIO file, atomically."""

import hashlib
import io
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from trainmark.dataset import example, tfrecord
from trainmark.dataset.images import features, recordio
from trainmark.dataset.images.jpeg import find_fault
from trainmark.dataset.images.shards import INDEX_FOLDER
from trainmark.dataset.images.source import SourcePicture
from trainmark.dataset.images.spec import Split
from trainmark.dataset.problems import Depth
from trainmark.errors import InputError
from trainmark.files import to_json, write_atomically
from trainmark.tasks.image_classification.axes import Form

_QUALITY = 95
"""JPEG quality of re-encoded pictures."""


@dataclass(frozen=True, slots=True)
class RecordPart:
    """A part to write: ``pictures`` as the file ``name``; the first of them is number ``first`` of its split."""

    work: Path
    source: Path
    form: Form
    split: Split
    name: str
    first: int
    pictures: Sequence[SourcePicture]

    @property
    def index(self) -> str:
        """Return the name of a shard's index file, relative to the data set."""
        return f"{INDEX_FOLDER}/{self.name}.idx"

    @property
    def file(self) -> Path:
        """Return the path of the file of records."""
        return self.work / ("data" if self.form is Form.TFRECORD else "parts") / self.name

    @property
    def note(self) -> Path:
        """Return the path of the note that marks the part as finished; written last."""
        return self.work / "done" / f"{self.name}.json"


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A finished part; ``encoded_anew`` are the paths of re-encoded pictures."""

    name: str
    records: int
    bytes: int
    sha256: str
    encoded_anew: tuple[str, ...]


def finished_part(part: RecordPart) -> WrittenPart | None:
    """Return the part if an interrupted conversion finished it, else None."""
    try:
        values: dict[str, Any] = json.loads(part.note.read_bytes())
    except FileNotFoundError:
        return None
    return WrittenPart(**{**values, "encoded_anew": tuple(values["encoded_anew"])})


def write_part(part: RecordPart) -> WrittenPart:
    """Write one part: its records, its index, and then the note that it is finished.

    Raises ``InputError`` if a picture is unreadable or damaged, and ``OSError``.
    """
    write = _write_shard if part.form is Form.TFRECORD else _write_piece
    for folder in (part.file.parent, part.note.parent):
        folder.mkdir(parents=True, exist_ok=True)
    # A helper process of a killed conversion may still be writing the same part.
    temporary = part.file.with_name(f".{part.name}.{os.getpid()}.tmp")
    anew: list[str] = []
    try:
        with temporary.open("wb") as file:
            written = _HashingWriter(file)
            write(part, _pictures(part, anew), written)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(part.file)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    done = WrittenPart(part.name, len(part.pictures), written.bytes, written.sha256.hexdigest(), tuple(anew))
    write_atomically(part.note, to_json(asdict(done)))
    return done


class _HashingWriter:
    """Writes a file and tracks its length and checksum."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes = 0
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write ``data``; return its offset."""
        begin = self.bytes
        self._file.write(data)
        self.sha256.update(data)
        self.bytes += len(data)
        return begin


def _write_shard(part: RecordPart, pictures: Iterator["_Picture"], file: _HashingWriter) -> None:
    lines = []
    for picture in pictures:
        record = tfrecord.frame(example.encode_example(_features(picture)))
        lines.append(tfrecord.index_line(file.write(record), len(record)))
    index = part.work / "data" / part.index
    index.parent.mkdir(exist_ok=True)
    write_atomically(index, "".join(lines))


def _write_piece(part: RecordPart, pictures: Iterator["_Picture"], file: _HashingWriter) -> None:
    index, listing = [], []
    for identity, picture in enumerate(pictures, start=part.first):
        record = recordio.frame(recordio.pack(picture.source.label, identity, picture.data))
        index.append(recordio.index_line(identity, file.write(record)))
        listing.append(recordio.list_line(identity, picture.source.label, picture.source.path))
    write_atomically(part.file.with_name(f"{part.name}.idx"), "".join(index))
    write_atomically(part.file.with_name(f"{part.name}.lst"), _bytes("".join(listing)))


@dataclass(frozen=True, slots=True)
class _Picture:
    """A JPEG to write. ``mode`` is Pillow's: RGB, or L for grey."""

    source: SourcePicture
    data: bytes
    width: int
    height: int
    mode: str


def _pictures(part: RecordPart, anew: list[str]) -> Iterator[_Picture]:
    for source in part.pictures:
        path = part.source / source.path
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        fault = find_fault(data, Depth.STRUCTURE)
        if fault:
            raise InputError(f"{path}: {fault[0].value}: {fault[1]}; repair or remove it first")
        picture = _load_picture(source, data, path)
        if picture.data is not data:
            anew.append(source.path)
        yield picture


def _load_picture(source: SourcePicture, data: bytes, path: Path) -> _Picture:
    """Return the picture with its size, re-encoded unless it is an RGB or grey JPEG, which every reader accepts.

    ImageNet has one PNG and 22 CMYK pictures under JPEG names, which its usual conversion re-encodes as well
    (tensorflow/models, build_imagenet_data.py).
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # Warnings about odd metadata do not matter here.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as image:
                if image.format != "JPEG" or image.mode not in ("RGB", "L"):
                    file = io.BytesIO()
                    image.convert("RGB").save(file, "JPEG", quality=_QUALITY, subsampling="4:4:4")
                    return _Picture(source, file.getvalue(), image.width, image.height, "RGB")
                return _Picture(source, data, image.width, image.height, image.mode)
    # Pillow's format plugins raise what their parsers raise: OSError, SyntaxError, ValueError, struct.error, ...
    except Exception as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}; repair or remove it first") from None


def _features(picture: _Picture) -> dict[str, example.Value]:
    name = _bytes(picture.source.class_name)
    grey = picture.mode == "L"
    return {
        features.ENCODED: picture.data,
        features.LABEL: picture.source.label + features.FIRST_LABEL,
        "image/class/synset": name,
        "image/class/text": name,
        "image/filename": _bytes(PurePosixPath(picture.source.path).name),
        "image/format": b"JPEG",
        "image/height": picture.height,
        "image/width": picture.width,
        "image/colorspace": b"Grayscale" if grey else b"RGB",
        "image/channels": 1 if grey else 3,
    }


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
