"""``native``: TFRecord shards as ImageNet has them, ``train-00000-of-01024``, with its feature keys."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any, List

import tensorflow as tf

from ....core.outcomes import FAILED, RunError
from ....core.place import Place
from ....tasks.image_classification.settings import ImageSettings
from ...failures import plain_sentence
from .pipeline import Source

SHARD = re.compile(r"train-\d{5,}-of-(?P<count>\d{5,})")
FIRST_LABEL = 1
"""The label of the first class: ImageNet's files keep 0 for "background"."""

OPEN_SHARDS = 16
"""Shards that are read in turns."""

READ_AHEAD_BYTES = 1 << 20
SHUFFLED_RECORDS = 4096
"""Records among which the next one is drawn; the order of the shards is drawn for each epoch besides."""

INDEX_FOLDER = "idx"
"""Where ``trainmark data index`` puts DALI's index files: a line a record."""


def find_records(settings: ImageSettings) -> Source:
    """Return the training shards in the folder ``settings.data``, or that one file; raise ``RunError`` if unusable."""
    path = Path(settings.data)
    if path.is_file():
        return RecordSource([path], settings)
    if not path.is_dir():
        raise RunError(FAILED, f"the data set {path} does not exist")
    matches = [match for entry in sorted(path.iterdir()) if (match := SHARD.fullmatch(entry.name))]
    if not matches:
        raise RunError(FAILED, f"the data set {path} has no TFRecord shards like train-00000-of-01024 in it")
    asked = int(matches[0]["count"])
    if len(matches) != asked:
        raise RunError(FAILED, f"the data set {path} has {len(matches)} training shards of {asked}")
    return RecordSource([path / match.string for match in matches], settings)


class RecordSource(Source):
    """Shards; an example is the shard's path and a serialized tf.train.Example."""

    def __init__(self, shards: List[Path], settings: ImageSettings) -> None:
        """Count the records: of the indexes where there are any, else by going from record to record."""
        self._shards = shards
        self._seed = settings.seed
        self._reads_ahead = settings.loader_workers > 0
        self.images = sum(_count_records(shard) for shard in shards)
        if not self.images:
            raise RunError(FAILED, f"{shards[0].parent} has no records in its TFRecord shards")

    def examples(self, place: Place) -> Any:
        """Return this rank's part of the records.

        Each epoch deals the shards out anew where their number is a multiple of the ranks'; else every rank reads all
        of them and keeps each so-many-th record.
        """
        by_shards = len(self._shards) % place.world_size == 0
        shards = tf.data.Dataset.from_tensor_slices([str(shard) for shard in self._shards])
        shards = shards.shuffle(len(self._shards), self._seed).repeat()
        turns = min(OPEN_SHARDS, len(self._shards))
        mine = shards.shard(place.world_size, place.rank) if by_shards else shards
        records = mine.interleave(
            _read_shard,
            cycle_length=turns,
            num_parallel_calls=turns if self._reads_ahead else None,
            deterministic=True if self._reads_ahead else None,
        )
        if not by_shards:
            records = records.shard(place.world_size, place.rank)
        return records.shuffle(min(SHUFFLED_RECORDS, self.images), self._seed)

    def read(self, *example: Any) -> Any:
        """Return the encoded image, and its label from 0."""
        _, serialized = example
        features = {
            "image/encoded": tf.io.FixedLenFeature((), tf.string),
            "image/class/label": tf.io.FixedLenFeature((), tf.int64),
        }
        parsed = tf.io.parse_single_example(serialized, features)
        return parsed["image/encoded"], parsed["image/class/label"] - FIRST_LABEL

    def name(self, *example: Any) -> str:
        """Return the shard, and the image's own name if the record has it."""
        shard, serialized = example
        try:
            features = {"image/filename": tf.io.FixedLenFeature((), tf.string, "")}
            own = tf.io.parse_single_example(serialized, features)["image/filename"].numpy().decode()
        except (tf.errors.OpError, UnicodeDecodeError):
            own = ""
        return f"{shard.numpy().decode()}, record of {own}" if own else f"{shard.numpy().decode()}, a record"

    def explain(self, error: BaseException) -> RunError:
        """Find the shard that cannot be read to its end: TensorFlow does not name it."""
        for shard in self._shards:
            try:
                tf.data.TFRecordDataset(str(shard)).reduce(0, lambda count, _: count + 1)
            except tf.errors.OpError as broken:
                return RunError(FAILED, f"{shard} cannot be read: {plain_sentence(broken)}")
        return RunError(FAILED, f"the TFRecord loader failed: {plain_sentence(error)}")


def _read_shard(path: Any) -> Any:
    records = tf.data.TFRecordDataset(path, buffer_size=READ_AHEAD_BYTES)
    return records.map(lambda record: (path, record))


def _count_records(shard: Path) -> int:
    """Return the number of records: lines of the shard's index, or lengths that lead from one record to the next.

    A record is a length (8 bytes, little-endian), its CRC (4), the data, and its CRC (4).
    """
    index = shard.parent / INDEX_FOLDER / (shard.name + ".idx")
    try:
        if index.is_file():
            return sum(1 for line in index.read_text(encoding="ascii").splitlines() if line.strip())
        size, offset, count = shard.stat().st_size, 0, 0
        with shard.open("rb", buffering=0) as file:
            while offset < size:
                file.seek(offset)
                head = file.read(8)
                length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
                offset += 12 + length + 4
                if offset > size:
                    raise RunError(
                        FAILED, f"{shard} cannot be read: it ends within a record, or a length is damaged"
                    )
                count += 1
        return count
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(FAILED, f"cannot read {shard}: {error}") from error
