"""Batches of DALI's pipelines, files that it cannot decode, and checks of TFRecord shards before it reads them.

DALI relies on the index and checks no CRC.

A record is its length (8 bytes), the masked CRC32C of those (4), the data, and the masked CRC32C of the data (4), all
little-endian (tensorflow/core/lib/io/record_writer.h). DALI's index has one line ``offset size`` per record; the size
includes the framing.

Names, indexes and file lengths are checked in full, the records of a large data set by a sample. This finds a missing
shard, a truncated shard and the index of another file; a single damaged record among many is found only by
``trainmark data verify``.
"""

import random
import re
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from google_crc32c import value as crc32c

from ...core.outcomes import FAILED, RunError, first_sentence
from ...core.place import Place
from ...core.queues import tell_unreadable
from ...tasks.image_classification.decoding import END_OF_IMAGE, is_cut_off
from ...tasks.image_classification.images import ImageList
from ...tasks.image_classification.settings import ImageSettings

SHARD = re.compile(r"train-(?P<number>\d{5,})-of-(?P<count>\d{5,})")
# About this many bytes of records are compared with their CRCs; all of a smaller data set.
SAMPLE_BYTES = 256 * 1024 * 1024

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")
_FRAMING = _HEAD.size + _TAIL.size


def find_shards(folder: Path, place: Place) -> dict[Path, Path]:
    """Return the index of each checked training shard in ``folder``, in the order of their numbers.

    Each rank checks its part of the sample of records. Raises ``RunError`` (failed), with the file and what to do, for
    data that DALI would read incorrectly.
    """
    try:
        shards = _find(folder)
        spans = {shard: _read_index(shard, index) for shard, index in shards.items()}
        step = max(1, sum(size for of_one in spans.values() for _, size in of_one) // SAMPLE_BYTES)
        number, first, every = 0, step * place.rank, step * place.world_size
        for shard, of_one in spans.items():
            chosen = [span for at, span in enumerate(of_one, number) if at % every == first]
            _check_records(shard, chosen)
            number += len(of_one)
    except OSError as error:
        raise RunError(FAILED, f"cannot read {error.filename}: {error.strerror}") from error
    if not number:
        raise RunError(FAILED, f"the data set {folder} has no records in its TFRecord shards")
    return shards


def _find(folder: Path) -> dict[Path, Path]:
    if not folder.is_dir():
        raise RunError(FAILED, f"the data set {folder} does not exist")
    matches = [match for entry in sorted(folder.iterdir()) if (match := SHARD.fullmatch(entry.name))]
    if not matches:
        raise RunError(FAILED, f"the data set {folder} has no TFRecord shards (train-00000-of-00008) in it")
    count = matches[0]["count"]
    for number in range(int(count)):
        wanted = f"train-{number:05d}-of-{count}"
        if not (folder / wanted).is_file():
            reason = f"{folder / wanted} is missing: the data set has {int(count)} training shards"
            raise RunError(FAILED, reason)
    if len(matches) != int(count):
        odd = next(match for match in matches if match["count"] != count)
        reason = f"{folder / odd.string} does not belong to the same data set as {matches[0].string}"
        raise RunError(FAILED, reason)
    shards = {folder / match.string: folder / "idx" / f"{match.string}.idx" for match in matches}
    for index in shards.values():
        if not index.is_file():
            raise RunError(FAILED, f"{index} is missing, which DALI needs: trainmark data index {folder}")
    return shards


def _read_index(shard: Path, index: Path) -> list[tuple[int, int]]:
    """Return offset and size of all records; raise ``RunError`` if they do not cover the whole shard."""
    spans, end = [], 0
    with index.open(encoding="ascii", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if len(words) != 2 or not all(word.isdecimal() for word in words):
                raise RunError(FAILED, f"{index}, line {number}: expected 'offset size', got {line[:80]!r}")
            offset, length = map(int, words)
            if offset != end or length < _FRAMING:
                reason = f"{index}, line {number}: the record does not follow the one before it"
                raise RunError(FAILED, reason)
            spans.append((offset, length))
            end += length
    size = shard.stat().st_size
    if end != size:
        other = f"it is truncated, or {index} is for another file"
        raise RunError(FAILED, f"{shard} has {size} bytes, but its index ends at {end}: {other}")
    return spans


def _check_records(shard: Path, spans: Iterable[tuple[int, int]]) -> None:
    with shard.open("rb") as file:
        for offset, size in spans:
            file.seek(offset)
            damage = _damage(file.read(size), size)
            if damage is not None:
                found = f"{shard} is damaged, or its index is for another file: the record at byte {offset} {damage}"
                raise RunError(FAILED, f"{found} (trainmark data verify {shard.parent})")


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


BLACK = b"P6 1 1 255\n\0\0\0"  # a black picture of one pixel, as a portable pixmap, which DALI reads too

# What files begin with that DALI has a decoder for: JPEG, PNG, BMP, WebP, TIFF, PNM and JPEG 2000.
MAGIC = (
    b"\xff\xd8", b"\x89PNG", b"BM", b"RIFF", b"II", b"MM", b"\0\0\0\x0cjP", b"\xff\x4f",
    *(b"P%d" % kind for kind in range(1, 8)),
)  # fmt: skip

UNDECODED = re.compile(r"Failed to decode sample #\d+ : (.+)")
UNMAPPED = re.compile(r"File mapping failed: (.+)")
# DALI's words about a file, with its name; and about one that is no picture, without.
UNKNOWN = "nvImageCodec failure: '#4'"

NO_END = "it has no end-of-image marker"


class UnreadableError(RuntimeError):
    """A file that DALI reads over."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} cannot be decoded: {why}")
        self.path, self.why = path, why


class Source(NamedTuple):
    """A source of pictures: ``read`` returns the files and labels of a pipeline; labels begin with ``first_label``.

    ``leave_out`` is told of an error that may be about a file, and returns whether that file has been left out.
    """

    read: Callable[[], tuple[Any, Any]]
    first_label: int
    leave_out: Callable[[RuntimeError], bool] | None = None


class Files:
    """The files of a data set in the order in which they are dealt out, and those that cannot be decoded.

    A black picture stands in their place: DALI ends a pipeline with the first of them, and the next one goes by this.
    """

    def __init__(self, images: ImageList, seed: int) -> None:
        order = list(range(len(images.paths)))
        random.Random(seed).shuffle(order)  # noqa: S311 (no secret)
        self.paths = [images.paths[image] for image in order]
        self.labels = [images.labels[image] for image in order]
        self.unreadable: list[str] = []

    def leave_out(self, error: RuntimeError) -> bool:
        """Put black in the place of the file that an error is about; return whether there is such a file."""
        if isinstance(error, UnreadableError):
            path, why = error.path, error.why
        else:
            path, why = self._named(str(error)) or "", "DALI refuses it"
        if path not in self.paths:
            return False
        self.paths[self.paths.index(path)] = self._black
        tell_unreadable(self.unreadable, path, why)
        return True

    def _named(self, message: str) -> str | None:
        """Return the path in DALI's words; of what is no picture at all it names none, and the files are looked at."""
        undecoded, unmapped = UNDECODED.search(message), UNMAPPED.search(message)
        if undecoded:
            return undecoded[1].strip()
        if unmapped:
            # An empty file cannot be mapped; neither can one that is not there, and that is another thing.
            path = unmapped[1].strip()
            return path if _is_no_picture(path) else None
        return next(filter(_is_no_picture, self.paths), None) if UNKNOWN in message else None

    @cached_property
    def _black(self) -> str:
        """Write the black picture, once: a pipeline has it mapped, and dies with the process if it becomes shorter."""
        self._folder = tempfile.TemporaryDirectory(prefix="trainmark-black-")
        path = Path(self._folder.name) / "black.ppm"
        path.write_bytes(BLACK)
        return str(path)


def _is_no_picture(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return not file.read(16).startswith(MAGIC)
    except OSError:
        return False


class Batches:
    """Batches without end: tensors of pictures, where the pipeline makes them, and labels (batch,) on the host.

    What ends them is a ``RunError`` in a batch's place. Where a file is left out a new pipeline begins the epoch anew.
    """

    def __init__(self, make: Callable[[], Any], source: Source, settings: ImageSettings) -> None:
        """Build the pipeline that ``make`` returns; raise ``RunError`` if it cannot be."""
        self._make, self._source, self._settings = make, source, settings
        self._pipeline = self._built()
        self.images = self._pipeline.reader_meta("reader")["epoch_size"]

    def __iter__(self) -> Iterator[Any]:
        """Yield them."""
        while True:
            try:
                yield self._next()
            except RuntimeError as error:
                leave_out = self._source.leave_out
                if leave_out is None or not leave_out(error):
                    yield _outcome_of(error, self._settings)
                    return
                self._pipeline = self._built()
            except RunError as stopped:
                yield stopped
                return

    def _built(self) -> Any:
        pipeline = self._make()
        try:
            pipeline.build()
        except RuntimeError as error:
            raise _outcome_of(error, self._settings) from error
        return pipeline

    def _next(self) -> Any:
        settings = self._settings
        # What is made on a GPU belongs to the stream that will read it, and nothing waits for it here.
        stream = torch.cuda.current_stream() if self._pipeline.device_id is not None else None
        made, numbers, last, ends, names = self._pipeline.run(stream)
        self._check_ends(last, ends, names)
        labels = torch.from_dlpack(numbers.as_tensor()).view(-1).long() - self._source.first_label
        lowest, highest = int(labels.min()), int(labels.max())
        if not 0 <= lowest <= highest < settings.classes:
            message = f"{settings.data} has labels from {lowest} to {highest}"
            raise RunError(FAILED, f"{message}, but the network has {settings.classes} classes (--classes)")
        return torch.from_dlpack(made.as_tensor()), labels

    def _check_ends(self, last: Any, ends: Any, names: Any) -> None:
        """Raise ``UnreadableError`` for the first file that is cut off, of which JPEG engines make half a picture."""
        odd = (torch.from_dlpack(last.as_tensor()) != torch.tensor(list(END_OF_IMAGE))).any(1)
        for index in odd.nonzero().view(-1).tolist():
            if is_cut_off(bytes(ends.at(index))):
                raise UnreadableError(bytes(names.at(index)).decode("utf-8", "replace"), NO_END)


def _outcome_of(error: RuntimeError, settings: ImageSettings) -> RunError:
    """Return the sentence that matters of DALI's many lines."""
    text = str(error)
    if isinstance(error, UnreadableError):
        return RunError(FAILED, text)
    undecoded = UNDECODED.search(text)
    if undecoded:
        return RunError(FAILED, f"{undecoded[1].strip()} cannot be decoded (DALI)")
    reason = first_sentence(RuntimeError(text.partition("encountered:")[2] or text))
    return RunError(FAILED, f"DALI cannot read {settings.data}: {reason}")
