"""``native``: Grain, whose processes make parts of batches: images, and text and clicks by numbers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import grain
import numpy as np
from absl import flags

from ...core.feed import Epochs, Feed, IndexedReader, LoadedFeed, Loader, Numbered
from ...core.place import Place
from ...core.queues import Parts, in_parts, joined
from ...core.settings import Settings
from ...tasks.image_classification.decoding import Photos, collate, join, single_threaded
from ...tasks.image_classification.images import Draw
from ...tasks.image_classification.settings import ImageSettings
from .collectives import Group

TASKS = 4  # parts of batches that a loader process of Grain's has, with the shortest queue that it offers, measured


def open_parts(
    parts: Any,
    share: Parts,
    ready: Callable[[Any], Any],
    loader: Loader,
    begin: Callable[[int, int], None] | None = None,
) -> LoadedFeed:
    """Start the processes that ``share`` the parts, a dataset of Grain's, each by ``begin``; return their feed."""
    # The processes are the parallelism; without any, the batch is made when it is needed.
    made = parts.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    if share.workers:
        # Grain reads its own flags from absl, which requires a parsed command line first.
        flags.FLAGS.mark_as_parsed()
        made = made.mp_prefetch(grain.MultiprocessingOptions(share.workers, 1), worker_init_fn=begin)
    iterator = iter(made)
    if share.workers:
        iterator.start_prefetch()
    return LoadedFeed(joined(iterator, share.in_batch, join), ready, loader, iterator.close)


class Row:
    """The parts of a rank's batches, by their number: it makes one of ``world_size`` batches of an endless row."""

    def __init__(self, take: Callable[[range], Any], settings: Settings, place: Place, parts: int) -> None:
        """Take what returns the content of some positions of the row, and the parts of a batch."""
        self._take, self._parts, self._batch = take, parts, settings.batch_per_device
        self._rank, self._world_size = place.rank, place.world_size

    def __len__(self) -> int:
        """Return more than any run needs."""
        return 1 << 60

    def __getitem__(self, number: int) -> Any:
        """Return the content of a part."""
        batch, part = divmod(int(number), self._parts)
        size = self._batch // self._parts
        start = (batch * self._world_size + self._rank) * self._batch + part * size
        return self._take(range(start, start + size))


def open_numbers(data: Numbered, settings: Settings, place: Place) -> LoadedFeed:
    """Start this rank's loader processes, and return their feed; without any a batch is read when it is needed."""
    share = in_parts(settings.batch_per_device, settings.loader_workers, TASKS, TASKS)
    numbers = Row(Epochs(data.samples, settings.seed).numbers, settings, place, share.in_batch)
    read = IndexedReader(data.batch_of)
    parts = grain.MapDataset.source(numbers).map(read)
    loader = Loader(data.samples, None, share.ahead, read.produced, share.workers)
    return open_parts(parts, share, data.ready, loader)


def _part(photos: Photos, epochs: Any, positions: range) -> Any:
    """Return the images at some positions of the endless row of epochs; each use of an image has its own crop."""
    return collate([photos[Draw(position // len(photos), int(epochs[position]))] for position in positions])


def open_images(settings: ImageSettings, place: Place, group: Group) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill.

    Grain shuffles each epoch anew. The endless row of epochs is cut into batches, and of each ``world_size`` batches
    that follow one another a rank makes one. Neither order nor crops depend on the number of processes.
    """
    photos = Photos(settings, place)
    share = in_parts(settings.batch_per_device, settings.loader_workers, TASKS, TASKS)
    epochs = grain.MapDataset.range(len(photos)).seed(settings.seed).shuffle().repeat()
    row = Row(partial(_part, photos, epochs), settings, place, share.in_batch)
    single_threaded()

    def on_device(loaded: Any) -> tuple[Any, Any]:
        """Start the copy."""
        images, labels = loaded
        return group.part(images), group.part(labels.astype(np.int32))

    return open_parts(grain.MapDataset.source(row), share, on_device, photos.loader(share), single_threaded)
