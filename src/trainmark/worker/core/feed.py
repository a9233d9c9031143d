"""The sources of a step's batch, for every framework, and samples that are read by their numbers."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .outcomes import FAILED, RunError, first_sentence
from .place import Place
from .queues import UNCOUNTED, Loading, SampleCounter

TRAIN, MANIFEST = "train.bin", "dataset.json"  # of a data set: its training samples, its description


@dataclass(eq=False)
class Loader:
    """The facts of what makes batches."""

    epoch_samples: int  # those of the data set, or from the settings
    decoder: str | None = None
    ahead: float | None = None  # batches that can be in flight, made or being made; None without a loader
    produced: SampleCounter | None = None  # of the samples that the loader has made; None if it has no count
    workers: int | None = None  # the actual loading processes or threads, if not as many as in the settings
    uncounted: int = 0  # samples that the loader may have read before ``produced`` counts them


class Feed(Loader):
    """An endless source of batches; each framework has its own type of batch."""

    wait_s = 0.0  # how long the last call of ``next`` waited for the loader
    counted: list[int] | None = None  # the work of each fetched batch, if it does not follow from its samples
    taken = 0  # batches that were fetched from the loader
    unreadable: list[str] | None = None  # files replaced by black pictures; None if such a file ends the run

    def next(self) -> Any:
        """Return the next batch; the device may still be filling it, in the order of its work."""
        raise NotImplementedError

    def close(self) -> None:
        """End threads and processes."""

    def loading(self) -> Loading:
        """Return the loader's counts of made and taken samples."""
        return Loading(UNCOUNTED if self.produced is None else self.produced.count(), self.taken)

    def timed(self, fetch: Callable[[], Any]) -> Any:
        """Return the result of ``fetch`` and record its duration; raise it if it is a ``RunError``."""
        started = time.perf_counter()
        try:
            fetched = fetch()
        except (ConnectionError, EOFError) as error:
            # A process that was killed while it handed a batch over; no rank is lost by that.
            raise RunError(FAILED, f"a loader process ended: {first_sentence(error)}") from error
        self.taken += 1
        self.wait_s = time.perf_counter() - started
        if isinstance(fetched, RunError):
            raise fetched
        return fetched


class FixedFeed(Feed):
    """One batch, already where it is needed, used in every step."""

    def __init__(self, batch: Any, epoch_samples: int) -> None:
        super().__init__(epoch_samples)
        self._batch = batch

    def next(self) -> Any:
        return self._batch


class LoadedFeed(Feed):
    """Batches from an iterator, which yields a ``RunError`` instead of a batch that could not be read."""

    def __init__(
        self,
        batches: Iterator[Any],
        ready: Callable[[Any], Any],
        loader: Loader,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        """Take over the iterator; ``ready`` converts its items to batches on the device, in the form for the step.

        ``end`` ends a loader that does not end with the last reference to the iterator.
        """
        super().__init__(**vars(loader))
        self._batches, self._ready, self._end = batches, ready, end

    def next(self) -> Any:
        return self._ready(self.timed(self._batches.__next__))

    def close(self) -> None:
        """Drop the iterator: with its last reference a loader ends its processes."""
        self._batches = iter(())
        self._end()


class Numbered(NamedTuple):
    """The samples of a data set that a loader reads by their numbers."""

    samples: int
    batch_of: Callable[[Any], tuple[Any, ...]]  # returns those of some numbers as numpy arrays
    ready: Callable[[Any], Any]  # makes of a loaded batch what the step needs


class IndexedReader:
    """Reads the samples of some numbers, and counts those that it has read; it can be pickled."""

    def __init__(self, batch_of: Callable[[Any], tuple[Any, ...]]) -> None:
        self._batch_of, self.produced = batch_of, SampleCounter()

    def __call__(self, numbers: Any) -> tuple[Any, ...] | RunError:
        """Return the arrays, or the ``RunError`` that ended the reading: a loader's process cannot end the run."""
        try:
            arrays = tuple(self._batch_of(numbers))
        except RunError as stopped:
            return stopped
        self.produced.add(len(numbers), numbers)
        return arrays

    __getitem__ = __call__  # as a data set of whole batches, by the numbers of their samples


class Epochs:
    """The endless row of a data set's epochs, each a new order of all its samples; it can be pickled."""

    def __init__(self, samples: int, seed: int) -> None:
        """Take the number of samples, and the seed that alone decides the orders."""
        self._samples, self._seed = samples, seed
        self._orders: dict[int, Any] = {}

    def order(self, epoch: int) -> Any:
        """Return the numbers of all samples in the order of an epoch."""
        return np.random.RandomState([self._seed % 2**32, epoch]).permutation(self._samples)

    def numbers(self, row: range) -> Any:
        """Return the numbers of the samples at these positions, int64; quick for one range after another."""
        positions, numbers = np.arange(row.start, row.stop), np.empty(len(row), np.int64)
        epochs = positions // self._samples
        for epoch in range(row.start // self._samples, (row.stop - 1) // self._samples + 1):
            if epoch not in self._orders:
                self._orders = {at: order for at, order in self._orders.items() if at == epoch - 1}
                self._orders[epoch] = self.order(epoch)
            within = epochs == epoch
            numbers[within] = self._orders[epoch][positions[within] % self._samples]
        return numbers


def shard_positions(batch: int, rank: int, world_size: int) -> Iterator[range]:
    """Yield where one rank's batches lie in the endless row of samples: its part of each global batch."""
    for start in count(rank * batch, world_size * batch):
        yield range(start, start + batch)


def shard_batches(samples: int, batch: int, place: Place, seed: int) -> Iterator[Any]:
    """Yield the numbers of the samples of one rank's batches without end."""
    return map(Epochs(samples, seed).numbers, shard_positions(batch, place.rank, place.world_size))


class MappedFile:
    """A file of records of one size, mapped into memory; ``manifest`` has what ``dataset.json`` beside it says.

    It can be pickled: another process maps the file itself, because what is pickled of a map is the whole file.
    """

    def __init__(self, source: str, *others: Any) -> None:
        """Find the file, in a folder ``train.bin``; ``others`` are the further arguments of the class."""
        self._given = (source, *others)
        path = Path(source)
        self.path = path / TRAIN if path.is_dir() else path
        self.manifest = read_manifest(self.path.with_name(MANIFEST))

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Let another process map the file itself."""
        return type(self), self._given

    def map(self, kind: Any, words: int, record: str, wanted: int | None) -> Any:
        """Return the file as (records, ``words``) of a numpy type; ``wanted`` is the number of records, if known.

        Raises ``RunError`` (failed) for a file that is missing, empty or cut, where a ``record`` is called so.
        """
        of_one = np.dtype(kind).itemsize * words
        try:
            size = self.path.stat().st_size
        except OSError as error:
            raise RunError(FAILED, f"cannot read {self.path}: {error.strerror}") from error
        if size % of_one or wanted not in (None, size // of_one):
            of = "" if wanted is None else f" of {wanted * of_one}"
            raise RunError(FAILED, f"{self.path} is cut: it has {size}{of} bytes, {of_one} a {record}")
        if not size:
            raise RunError(FAILED, f"{self.path} is empty")
        return np.memmap(self.path, kind, "r").reshape(-1, words)


def read_manifest(path: Path) -> Any:
    """Return the content of a data set's manifest; nothing if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RunError(FAILED, f"{path} cannot be read: {error}") from error
