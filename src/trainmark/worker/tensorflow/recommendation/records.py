"""Clicks as Examples in TFRecord files, by tf.data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from ...core.outcomes import FAILED, RunError, first_sentence
from ...core.place import Place
from ...tasks.recommendation.clicks import Batch
from ...tasks.recommendation.records import COLUMNS, FLOATS, READERS, fitting, looked_up, record_files

SHUFFLED = 1 << 16
"""Samples among which the next one is drawn."""

SPECIFICATION = {
    name: tf.io.FixedLenFeature((), tf.float32 if name in FLOATS else tf.int64) for name in COLUMNS
}


class Examples:
    """A folder of TFRecord files; an Example has each column as one value."""

    def __init__(self, source: str, vocabulary: int) -> None:
        """Find the files; raises ``RunError`` where there are none."""
        self._paths, made = record_files(source, "tfrecord")
        self._source, self._vocabulary = Path(source), vocabulary
        self._sizes = fitting(self._source, made.get("column_sizes"), vocabulary)
        samples = made.get("spec", {}).get("samples")
        self.samples = samples or sum(1 for _ in tf.data.TFRecordDataset(list(map(str, self._paths))))

    def batches(self, size: int, place: Place, seed: int) -> Iterator[Batch]:
        """Yield a rank's batches without end; files come in a new order each epoch, samples from a shuffled buffer.

        Raises ``RunError`` for a file that is cut or damaged, and for an Example without a column.
        """
        files = tf.data.Dataset.from_tensor_slices(list(map(str, self._paths)))
        files = files.shuffle(len(self._paths), seed=seed).interleave(tf.data.TFRecordDataset, cycle_length=4)
        records = files.shard(place.world_size, place.rank).shuffle(min(SHUFFLED, self.samples), seed=seed)
        batches = records.repeat().batch(size, drop_remainder=True)
        parsed = batches.map(lambda rows: tf.io.parse_example(rows, SPECIFICATION))
        try:
            for columns in parsed.as_numpy_iterator():
                yield self._batch(columns)
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            missing = re.search(r"Feature: (\w+) .* could not be found", str(error))
            if missing:
                raise RunError(FAILED, f"an Example of {self._source} has no column {missing[1]}") from error
            raise RunError(FAILED, f"{self._source} cannot be read: {first_sentence(error)}") from error

    def _batch(self, columns: Any) -> Batch:
        words = np.empty((len(columns[COLUMNS[0]]), len(COLUMNS)), "<u4")
        for place, name in enumerate(COLUMNS):
            column = columns[name]
            if name in FLOATS:
                words[:, place] = column.view("<u4")
            else:
                # What has no room in a word is the largest number that has: no field has so many categories.
                words[:, place] = np.where((column < 0) | (column >= 2**32), 2**32 - 1, column)
        return looked_up(words, self._source, self._sizes, self._vocabulary)


ALL_READERS = {**READERS, "tfrecord": Examples}
"""What all frameworks read, and TensorFlow's own."""
