"""Click logs without a framework: the file of raw records, which rank gets which of them, and reading them ahead.

A record is 40 words of 4 bytes, little end first, as HugeCTR's raw format and MLPerf's DLRM have them: the label, 13
dense fields (float) and 26 categories, each counted from 0 in its own field.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Iterator, List, Optional

from ...core.feed import LoadedFeed
from ...core.outcomes import FAILED, RunError
from ...core.place import Place
from ...core.produced import Produced
from ...core.queues import AHEAD
from ..causal_lm.tokens import ReadAhead, dealt
from .architectures import CATEGORIES, DENSE
from .clicks import Batch, column_sizes, crossed, offsets
from .settings import ClickSettings

TRAIN, MANIFEST = "train.bin", "dataset.json"

COLUMNS = ("label", *(f"I{i + 1}" for i in range(DENSE)), *(f"C{i + 1}" for i in range(CATEGORIES)))
"""Criteo's fields, in their order; what has names has these."""


class ClickFile:
    """A file of raw records, mapped into memory; ``dataset.json`` beside it says how many categories a field has."""

    def __init__(self, source: str, vocabulary: int) -> None:
        """Open ``source`` (the file, or its folder) for tables of ``vocabulary`` rows.

        Raises ``RunError`` (failed) for a file that is not there, empty, cut, without a column, or of more categories.
        """
        import numpy as np

        path = Path(source)
        self._path = path / TRAIN if path.is_dir() else path
        made = _manifest(self._path.with_name(MANIFEST))
        check_columns(self._path, made.get("columns", COLUMNS))
        self._vocabulary = vocabulary
        self._sizes = np.array(fitting(self._path, made.get("column_sizes"), vocabulary))
        self._offsets = offsets(self._sizes)
        try:
            size = self._path.stat().st_size
        except OSError as error:
            raise RunError(FAILED, f"cannot read {self._path}: {error.strerror}") from error
        record = 4 * len(COLUMNS)
        wanted = made.get("spec", {}).get("samples")
        if size % record or (wanted is not None and size != wanted * record):
            of = "" if wanted is None else f" of {wanted * record}"
            raise RunError(FAILED, f"{self._path} is cut: it has {size}{of} bytes, {record} a sample")
        if not size:
            raise RunError(FAILED, f"{self._path} is empty")
        self._words = np.memmap(self._path, "<u4", "r").reshape(-1, len(COLUMNS))
        self.samples = len(self._words)

    def batch(self, numbers: Any) -> Batch:
        """Return the samples of these numbers.

        Raises ``RunError`` (failed) for a category that its field does not have, naming where it is.
        """
        import numpy as np

        words = self._words[numbers]
        categories = words[:, 1 + DENSE :].astype(np.int64)
        outside = categories >= self._sizes
        if outside.any():
            row, column = np.unravel_index(int(outside.argmax()), outside.shape)
            raise RunError(
                FAILED,
                f"sample {int(numbers[row])} of {self._path} has category {categories[row, column]} in "
                f"C{column + 1}, which has {self._sizes[column]}",
            )
        dense = np.ascontiguousarray(words[:, 1 : 1 + DENSE]).view("<f4").astype(np.float32)
        categories = categories + self._offsets
        labels = words[:, 0].astype(np.float32)
        return Batch(dense, categories, crossed(categories, self._vocabulary), labels)


def check_columns(path: Path, columns: Any) -> None:
    """Raise ``RunError`` (failed) unless a data set has every column."""
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise RunError(FAILED, f"{path} has no column {missing[0]}")


def fitting(path: Path, sizes: Optional[List[int]], vocabulary: int) -> List[int]:
    """Return the categories of each field: those that the data set says, or as made-up samples have them.

    Raises ``RunError`` (failed) for more categories than the tables have rows.
    """
    if sizes is None:
        return column_sizes(vocabulary)
    if sum(sizes) > vocabulary:
        raise RunError(
            FAILED, f"{path} has {sum(sizes)} categories, the model's tables have {vocabulary} rows"
        )
    return sizes


def _manifest(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RunError(FAILED, f"{path} cannot be read: {error}") from error


def open_feed(settings: ClickSettings, place: Place, ready: Callable[..., Any]) -> Optional[LoadedFeed]:
    """Return the feed of the data set, None for made-up samples; ``ready`` makes a batch of numpy's.

    One thread reads up to ``AHEAD`` batches ahead; with no loader workers they are read when they are needed.
    """
    if settings.synthetic:
        return None
    file = ClickFile(settings.data, settings.vocabulary)
    produced = Produced()

    def batches() -> Iterator[Any]:
        for numbers in dealt(file.samples, settings.batch_per_device, place, settings.seed):
            try:
                batch = file.batch(numbers)
            except RunError as stopped:
                yield stopped
                return
            produced.add(len(batch.labels))
            yield batch

    threaded = settings.loader_workers > 0
    source: Iterator[Any] = ReadAhead(batches(), AHEAD - 1) if threaded else batches()
    feed = LoadedFeed(
        source, lambda batch: ready(*batch), file.samples, None, AHEAD if threaded else 0, produced
    )
    feed.workers = int(threaded)
    return feed
