"""``native``: Grain, whose processes make parts of batches: images, and text and clicks by numbers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import grain
import numpy as np
from absl import flags

from ...core.feed import Feed, IndexedReader, LoadedFeed, Numbered, shard_batches
from ...core.place import Place
from ...core.queues import Parts, SampleCounter, in_parts, joined
from ...core.settings import Settings
from ...tasks.image_classification.decoding import Photos, collate, join, single_threaded
from ...tasks.image_classification.images import Draw
from ...tasks.image_classification.settings import ImageSettings
from .collectives import Group

TASKS = 4
"""Parts of batches that a loader process of Grain's has, with the shortest queue that it offers, measured."""

WITHOUT_END = 1 << 60
"""What a source says of its length: more than any run needs."""


class GrainFeed(LoadedFeed):
    """The batches whose ``parts``, a dataset of Grain's, are made by as many processes as ``share`` says."""

    def __init__(
        self,
        parts: Any,
        share: Parts,
        join: Callable[[list[Any]], Any],
        ready: Callable[[Any], Any],
        samples: int,
        decoder: str | None,
        produced: SampleCounter,
        begin: Callable[[int, int], None] | None = None,
    ) -> None:
        """Start the processes, each by ``begin``; ``join`` makes a batch of its parts."""
        # The processes are the parallelism; without any, the batch is made when it is needed.
        loader = parts.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
        if share.workers:
            # Grain reads its own flags from absl, which requires a parsed command line first.
            flags.FLAGS.mark_as_parsed()
            loader = loader.mp_prefetch(grain.MultiprocessingOptions(share.workers, 1), worker_init_fn=begin)
        self._iterator = iter(loader)
        if share.workers:
            self._iterator.start_prefetch()
        batches = joined(self._iterator, share.in_batch, join)
        super().__init__(batches, ready, samples, decoder, share.ahead, produced, share.workers)

    def close(self) -> None:
        super().close()
        self._iterator.close()


class Numbers:
    """The numbers of the samples of each part of a rank's batches; quick for one part after another."""

    def __init__(self, samples: int, batch: int, place: Place, seed: int, parts: int) -> None:
        """Take the arguments of ``shard_batches``, and the parts of a batch."""
        self._given = samples, batch, place, seed, parts
        self._size, self._parts = batch // parts, parts
        self._start()

    def _start(self) -> None:
        self._shard_batches, self._at = shard_batches(*self._given[:-1]), -1
        self._numbers = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Return more than any run needs."""
        return WITHOUT_END

    def __getitem__(self, number: int) -> Any:
        """Return the numbers of a part."""
        batch, part = divmod(int(number), self._parts)
        if batch < self._at:
            self._start()
        while self._at < batch:
            self._numbers, self._at = next(self._shard_batches), self._at + 1
        return self._numbers[part * self._size : (part + 1) * self._size]

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Let another process start from the beginning."""
        return Numbers, self._given


def open_numbers(data: Numbered, settings: Settings, place: Place) -> LoadedFeed:
    """Start the loader processes of this rank and return the feed that they fill.

    Without ``loader_workers`` a batch is read when it is needed.
    """
    samples, batch_of, ready = data
    share = in_parts(settings.batch_per_device, settings.loader_workers, TASKS, TASKS)
    numbers = Numbers(samples, settings.batch_per_device, place, settings.seed, share.in_batch)
    read = IndexedReader(batch_of)
    parts = grain.MapDataset.source(numbers).map(read)
    return GrainFeed(parts, share, _join, ready, samples, None, read.produced)


def _join(parts: list[Any]) -> tuple[Any, ...]:
    return tuple(np.concatenate(arrays) for arrays in zip(*parts))


class Draws:
    """The parts of a rank's batches as lists of draws, by their number; of ``world_size`` batches it makes one."""

    def __init__(self, row: Any, settings: ImageSettings, group: Group, parts: int) -> None:
        self._row, self._parts, self._batch = row, parts, settings.batch_per_device
        self._rank, self._world_size = group.place.rank, group.place.world_size

    def __len__(self) -> int:
        """Return more than any run needs."""
        return WITHOUT_END

    def __getitem__(self, number: int) -> Any:
        """Return the draws of a part."""
        batch, part = divmod(int(number), self._parts)
        size = self._batch // self._parts
        start = (batch * self._world_size + self._rank) * self._batch + part * size
        return [self._row[position] for position in range(start, start + size)]


def _draw(images: int, position: int, image: int) -> Draw:
    """Return the use of one of the ``images`` at a position in the endless row of epochs: each has its own crop."""
    return Draw(position // images, int(image))


def _part(photos: Photos, draws: Any) -> Any:
    """Return a part of a batch."""
    return collate([photos[draw] for draw in draws])


def open_images(settings: ImageSettings, group: Group) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill.

    Grain shuffles each epoch anew. The endless row of epochs is cut into batches, and of each ``world_size`` batches
    that follow one another a rank makes one. Neither order nor crops depend on the number of processes.
    """
    photos = Photos(settings, group.place)
    share = in_parts(settings.batch_per_device, settings.loader_workers, TASKS, TASKS)
    epochs = grain.MapDataset.range(len(photos)).seed(settings.seed).shuffle().repeat()
    row = epochs.map_with_index(partial(_draw, len(photos)))
    parts = grain.MapDataset.source(Draws(row, settings, group, share.in_batch)).map(partial(_part, photos))
    single_threaded()

    def on_device(loaded: Any) -> tuple[Any, Any]:
        """Start the copy."""
        images, labels = loaded
        return group.part(images), group.part(labels.astype(np.int32))

    decoder, produced = photos.decoder.name, photos.produced
    return GrainFeed(parts, share, join, on_device, len(photos), decoder, produced, single_threaded)
