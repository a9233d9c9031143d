"""``native``: Grain, whose processes read, decode, crop and flip; the training step normalises."""

from __future__ import annotations

from typing import Any

import grain
import numpy as np

from ....core.feed import Feed
from ....core.queues import in_parts
from ....tasks.image_classification.decoding import single_threaded
from ....tasks.image_classification.images import Draw
from ....tasks.image_classification.loading import Photos, collate, join
from ....tasks.image_classification.settings import ImageSettings
from ...loading import TASKS, WITHOUT_END, GrainFeed
from ...ranks import Group
from ..loss import Batch


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
    single_threaded()

    def on_device(loaded: Any) -> Batch:
        """Start the copy."""
        images, labels = loaded
        return group.part(images), group.part(labels.astype(np.int32))

    decoder, produced = photos.decoder.name, photos.produced
    return GrainFeed(parts, share, join, on_device, len(photos), decoder, produced, start_worker)


def start_worker(_worker: int, _workers: int) -> None:
    """Prepare a loader process."""
    single_threaded()
