"""Click logs without a framework: synthetic clicks, the file of raw records, each rank's share, and reading ahead.

A record is 40 words of 4 bytes, little end first, in the order of HugeCTR's raw format and of MLPerf's DLRM: the label
(an integer), 13 dense fields (float) and 26 categories, each counted from 0 in its own field. Files of these programs
may have other types in the same places; the first records show which.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.feed import MANIFEST, MappedFile, read_manifest
from ...core.outcomes import FAILED, UNSUPPORTED, RunError, first_sentence
from ...core.place import Place
from .architectures import CATEGORIES, CROSSES, DENSE

# The categories of the 26 fields as DLPerf's scripts have them ("deep_column_size_array" of train_one_embedding.sh).
PUBLISHED_SIZES = (
    1460, 558, 335378, 211710, 305, 20, 12136, 633, 3, 51298, 5302, 332600, 3179, 27, 12191, 301211, 10, 4841, 2086, 4,
    324273, 17, 15, 79734, 96, 58622,
)  # fmt: skip

CLICKED = 0.25  # the share of clicks in Criteo's log, about


class Batch(NamedTuple):
    """A batch of samples: ``labels`` (batch,) float32 are 1 for a click.

    ``dense`` is (batch, 13) float32; ``categories`` (batch, 26) and ``crossed`` (batch, 2) are int64 rows of tables.
    """

    dense: Any
    categories: Any
    crossed: Any
    labels: Any


def column_sizes(vocabulary: int) -> list[int]:
    """Return how many of a vocabulary's rows each field has: one, and its published share of the rest."""
    rest, total = vocabulary - CATEGORIES, sum(PUBLISHED_SIZES) - CATEGORIES
    sizes = [1 + rest * (size - 1) // total for size in PUBLISHED_SIZES]
    sizes[sizes.index(max(sizes))] += vocabulary - sum(sizes)
    return sizes


def offsets(sizes: Any) -> Any:
    """Return the first row of each field: they lie one behind the other in the one table."""
    return np.cumsum([0, *sizes[:-1]], dtype=np.int64)


def crossed(categories: Any, vocabulary: int) -> Any:
    """Return the rows of the wide table: pairs of categories (batch, 26), hashed into its vocabulary."""
    pairs = [(categories[:, one] * 1_000_003 + categories[:, other]) % vocabulary for one, other in CROSSES]
    return np.stack(pairs, axis=1)


def drawn(random: Any, count: int, sizes: Any) -> Any:
    """Return categories (count, 26) of numpy's ``random``, each from 0 in its own field: few are frequent (Zipf)."""
    sizes = np.asarray(sizes, np.float64)
    # With u uniform, size ** u falls as 1 / rank does.
    ranks = np.floor((sizes + 1) ** random.random((count, CATEGORIES))) - 1
    return np.minimum(ranks, sizes - 1).astype(np.int64)


def mirrored(batch: Batch, vocabulary: int) -> Batch:
    """Return the batch with each field's categories in the reverse order: mostly other rows are looked up."""
    sizes = np.asarray(column_sizes(vocabulary))
    categories = 2 * offsets(sizes) + sizes - 1 - batch.categories
    return batch._replace(categories=categories, crossed=crossed(categories, vocabulary))


def made_up(random: Any, count: int, vocabulary: int) -> Batch:
    """Return a batch of made-up clicks."""
    sizes = column_sizes(vocabulary)
    dense = random.random((count, DENSE), np.float32)
    categories = drawn(random, count, sizes) + offsets(sizes)
    labels = (random.random(count) < CLICKED).astype(np.float32)
    return Batch(dense, categories, crossed(categories, vocabulary), labels)


def read_ahead(items: Iterator[Any], count: int) -> Iterator[Any]:
    """Yield the items of an iterator, of which a thread has taken, or takes, the next ``count`` beforehand."""
    reader = ThreadPoolExecutor(1)
    waiting = deque(reader.submit(next, items) for _ in range(count))
    try:
        while True:
            waiting.append(reader.submit(next, items))
            yield waiting.popleft().result()
    finally:
        reader.shutdown(wait=False, cancel_futures=True)


# Criteo's fields, in their order; what has names has these.
COLUMNS = ("label", *(f"I{i + 1}" for i in range(DENSE)), *(f"C{i + 1}" for i in range(CATEGORIES)))

FLOATS = COLUMNS[1 : 1 + DENSE]
# So many records are looked at for their types; a float that is nearer to 0 is an integer.
FIRST, SMALLEST = 1024, 1e-30


class ClickFile(MappedFile):
    """A file of raw records; its manifest says how many categories a field has."""

    def __init__(self, source: str, vocabulary: int) -> None:
        """Open a file or its folder; raise ``RunError`` if it is missing, empty, cut or does not fit the tables."""
        super().__init__(source, vocabulary)
        check_columns(self.path, self.manifest.get("columns", COLUMNS))
        self._vocabulary = vocabulary
        self._sizes = np.array(fitting(self.path, self.manifest.get("column_sizes"), vocabulary))
        wanted = self.manifest.get("spec", {}).get("samples")
        self._words = self.map("<u4", len(COLUMNS), "sample", wanted)
        _check_types(self.path, self._words[:FIRST])
        self.samples = len(self._words)

    def batch(self, numbers: Any) -> Batch:
        """Return the samples of these numbers; raises ``RunError`` for a category that its field does not have."""
        return used_rows(self._words[numbers], self.path, self._sizes, self._vocabulary, numbers)


def _check_types(path: Path, rows: Any) -> None:
    """Raise ``RunError`` where labels or dense fields are of another type than they are read as."""
    if not np.isin(rows[:, 0], (0, 1)).all():
        raise RunError(FAILED, f"{path}: a label of its first records is no 0 or 1 as an integer of 4 bytes")
    dense = rows[:, 1 : 1 + DENSE].view("<f4")
    # Small integers, read as floats, are smaller than any number that a field has.
    if not np.isfinite(dense).all() or ((dense != 0) & (np.abs(dense) < SMALLEST)).any():
        raise RunError(FAILED, f"{path}: a dense field of its first records is no float of 4 bytes")


class Columns:
    """Parquet files with Criteo's names as columns, read by pyarrow."""

    def __init__(self, source: str, vocabulary: int) -> None:
        """Open all of a folder; raises ``RunError``, also where there is no pyarrow."""
        try:
            from pyarrow import parquet
        except ImportError as error:
            adds = "trainmark env create --extra parquet adds it (in an interpreter of your own: pip install pyarrow)"
            reason = f"loader parquet needs pyarrow, which {sys.executable} lacks; {adds}"
            raise RunError(UNSUPPORTED, reason) from error
        paths, made = record_files(source, "parquet")
        try:
            self._files = [(path, parquet.ParquetFile(path)) for path in paths]
        except (OSError, ValueError) as error:
            raise RunError(FAILED, f"{source} cannot be read: {first_sentence(error)}") from error
        for path, file in self._files:
            check_columns(path, file.schema_arrow.names)
        self._source, self._vocabulary = Path(source), vocabulary
        self._sizes = fitting(self._source, made.get("column_sizes"), vocabulary)
        self.samples = sum(file.metadata.num_rows for _, file in self._files)

    def batches(self, size: int, place: Place, seed: int) -> Iterator[Batch]:
        """Yield a rank's batches without end; row groups and the rows in each come in a new order each epoch."""
        groups = [(file, at) for _, file in self._files for at in range(file.metadata.num_row_groups)]
        retained, epoch = np.empty((0, len(COLUMNS)), "<u4"), 0
        while True:
            random = np.random.RandomState([seed % 2**32, epoch])
            for group in random.permutation(len(groups)):
                file, at = groups[group]
                table = file.read_row_group(at, columns=list(COLUMNS))
                own = random.permutation(table.num_rows)[place.rank :: place.world_size]
                types = {name: "<f4" if name in FLOATS else "<i4" for name in COLUMNS}
                words = [table[name].to_numpy().astype(kind) for name, kind in types.items()]
                rows = np.stack([column.view("<u4")[own] for column in words], axis=1)
                retained = np.concatenate([retained, rows])
                while len(retained) >= size:
                    yield used_rows(retained[:size], self._source, self._sizes, self._vocabulary)
                    retained = retained[size:]
            epoch += 1


# By loader but the native one: from a data set's place and the tables' rows to an object like ``Columns``.
READERS: Mapping[str, Callable[[str, int], Any]] = {"parquet": Columns}


def record_files(source: str, suffix: str) -> tuple[list[Path], Any]:
    """Return the files of a folder and what its ``dataset.json`` says; raise ``RunError`` where there are none."""
    found = sorted(Path(source).glob(f"*.{suffix}"))
    if not found:
        raise RunError(FAILED, f"{source} has no {suffix} files")
    return found, read_manifest(Path(source) / MANIFEST)


def used_rows(words: Any, path: Path, sizes: Any, vocabulary: int, numbers: Any = None) -> Batch:
    """Return samples (batch, 40) of words as a batch; ``path`` and ``numbers``, if known, say where they lie.

    Raises ``RunError`` (failed) for a category that its field does not have, naming where it is.
    """
    categories = words[:, 1 + DENSE :].astype(np.int64)
    outside = categories >= np.asarray(sizes)
    if outside.any():
        row, column = np.unravel_index(int(outside.argmax()), outside.shape)
        which = "a sample" if numbers is None else f"sample {int(numbers[row])}"
        found = f"{which} of {path} has category {categories[row, column]} in C{column + 1}"
        raise RunError(FAILED, f"{found}, which has {sizes[column]}")
    dense = np.ascontiguousarray(words[:, 1 : 1 + DENSE]).view("<f4").astype(np.float32)
    categories = categories + offsets(sizes)
    return Batch(dense, categories, crossed(categories, vocabulary), words[:, 0].astype(np.float32))


def check_columns(path: Path, columns: Any) -> None:
    """Raise ``RunError`` (failed) unless a data set has every column."""
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise RunError(FAILED, f"{path} has no column {missing[0]}")


def fitting(path: Path, sizes: list[int] | None, vocabulary: int) -> list[int]:
    """Return the categories of each field, of a data set or as made up; raise ``RunError`` if the tables lack rows."""
    if sizes is None:
        return column_sizes(vocabulary)
    if sum(sizes) > vocabulary:
        reason = f"{path} has {sum(sizes)} categories, the model's tables have {vocabulary} rows"
        raise RunError(FAILED, reason)
    return sizes
