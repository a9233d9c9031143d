"""``native``: Grain, whose processes read, decode, crop and flip; the training step normalises."""

from __future__ import annotations

from typing import Any

import grain
import numpy as np
from absl import flags

from ....core.feed import Feed, LoadedFeed
from ....tasks.image_classification.decoding import single_threaded
from ....tasks.image_classification.images import Draw
from ....tasks.image_classification.loading import Photos, collate
from ....tasks.image_classification.settings import ImageSettings
from ...ranks import Group
from ..loss import Batch

PREFETCH_BATCHES = 2
"""Batches that each loader process works ahead."""


class ToDraw:
    """Numbers the uses of an image: the row of epochs is endless, and each has its own crop."""

    def __init__(self, images: int) -> None:
        """Take the number of images in an epoch."""
        self._images = images

    def __call__(self, position: int, image: int) -> Draw:
        """Return the use of an image at a position in the row of epochs."""
        return Draw(position // self._images, int(image))


class GrainFeed(LoadedFeed):
    """Brings Grain's batches to the device, one ahead of the step that uses it."""

    def __init__(self, iterator: Any, group: Group, photos: Photos) -> None:
        """Take over the iterator."""
        super().__init__(iterator, self._on_device, len(photos), photos.decoder.name)
        self._iterator, self._group = iterator, group

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
    place = group.place
    photos = Photos(settings, place)
    epochs = grain.MapDataset.range(len(photos)).seed(settings.seed).shuffle().repeat()
    images = epochs.map_with_index(ToDraw(len(photos))).map(photos.__getitem__)
    batches = images.batch(settings.batch_per_device, batch_fn=collate)[place.rank :: place.world_size]
    # The processes are the parallelism; without any, the batch is made when it is asked for.
    loader: Any = batches.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    single_threaded()
    if settings.loader_workers:
        # Grain reads its own flags from absl, which wants to have seen a command line first.
        flags.FLAGS.mark_as_parsed()
        loader = loader.mp_prefetch(
            grain.MultiprocessingOptions(settings.loader_workers, PREFETCH_BATCHES),
            worker_init_fn=start_worker,
        )
    iterator = iter(loader)
    if settings.loader_workers:
        iterator.start_prefetch()
    return GrainFeed(iterator, group, photos)


def start_worker(_worker: int, _workers: int) -> None:
    """Prepare a loader process."""
    single_threaded()
