"""``native``: Grain, whose processes read, decode, crop and flip; the training step normalises."""

from __future__ import annotations

from typing import Any

import grain
import numpy as np
from absl import flags

from ....core.feed import Feed, LoadedFeed
from ....core.queues import Parts, in_parts, joined
from ....tasks.image_classification.decoding import single_threaded
from ....tasks.image_classification.images import Draw
from ....tasks.image_classification.loading import Photos, collate, join
from ....tasks.image_classification.settings import ImageSettings
from ...ranks import Group
from ..loss import Batch

TASKS = 4
"""Parts of batches that a loader process of Grain's has, with the shortest queue that it offers; seen, not told."""

WITHOUT_END = 1 << 60


class ToDraw:
    """Numbers the uses of an image: the row of epochs is endless, and each has its own crop."""

    def __init__(self, images: int) -> None:
        """Take the number of images in an epoch."""
        self._images = images

    def __call__(self, position: int, image: int) -> Draw:
        """Return the use of an image at a position in the row of epochs."""
        return Draw(position // self._images, int(image))


class Draws:
    """The parts of a rank's batches as lists of draws, by their number; of ``world_size`` batches it makes one."""

    def __init__(self, row: Any, settings: ImageSettings, group: Group, parts: int) -> None:
        """Take the endless row of draws, and the parts of a batch."""
        self._row, self._parts, self._batch = row, parts, settings.batch_per_device
        self._rank, self._world_size = group.place.rank, group.place.world_size

    def __len__(self) -> int:
        """Return more than anybody asks for."""
        return WITHOUT_END

    def __getitem__(self, number: int) -> Any:
        """Return the draws of a part."""
        batch, part = divmod(int(number), self._parts)
        size = self._batch // self._parts
        start = (batch * self._world_size + self._rank) * self._batch + part * size
        return [self._row[position] for position in range(start, start + size)]


class ToPart:
    """Makes a part of a batch; it can be pickled."""

    def __init__(self, photos: Photos) -> None:
        """Take the images."""
        self._photos = photos

    def __call__(self, draws: Any) -> Any:
        """Return what ``collate`` makes of the images."""
        return collate([self._photos[draw] for draw in draws])


class GrainFeed(LoadedFeed):
    """Brings Grain's batches to the device, one ahead of the step that uses it."""

    def __init__(self, iterator: Any, group: Group, photos: Photos, share: Parts) -> None:
        """Take over the iterator, which yields parts of batches."""
        batches = joined(iterator, share.in_batch, join)
        more = (len(photos), photos.decoder.name, share.ahead, photos.produced)
        super().__init__(batches, self._on_device, *more)
        self._iterator, self._group, self.workers = iterator, group, share.workers

    def _on_device(self, loaded: Any) -> Batch:
        """Start the copy."""
        images, labels = loaded
        return self._group.part(images), self._group.part(labels.astype(np.int32))

    def close(self) -> None:
        """End the loader's processes."""
        super().close()
        self._iterator.close()


def open_native(settings: ImageSettings, group: Group) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill.

    Grain shuffles each epoch anew. The endless row of epochs is cut into batches, and of each ``world_size`` batches
    that follow one another a rank makes one. Neither order nor crops depend on the number of processes.
    """
    photos = Photos(settings, group.place)
    share = in_parts(settings.batch_per_device, settings.loader_workers, TASKS, TASKS)
    epochs = grain.MapDataset.range(len(photos)).seed(settings.seed).shuffle().repeat()
    row = epochs.map_with_index(ToDraw(len(photos)))
    parts = grain.MapDataset.source(Draws(row, settings, group, share.in_batch)).map(ToPart(photos))
    # The processes are the parallelism; without any, the batch is made when it is asked for.
    loader: Any = parts.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    single_threaded()
    if share.workers:
        # Grain reads its own flags from absl, which wants to have seen a command line first.
        flags.FLAGS.mark_as_parsed()
        loader = loader.mp_prefetch(
            grain.MultiprocessingOptions(share.workers, 1),
            worker_init_fn=start_worker,
        )
    iterator = iter(loader)
    if settings.loader_workers:
        iterator.start_prefetch()
    return GrainFeed(iterator, group, photos, share)


def start_worker(_worker: int, _workers: int) -> None:
    """Prepare a loader process."""
    single_threaded()
