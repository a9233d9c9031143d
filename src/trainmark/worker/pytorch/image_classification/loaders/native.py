"""``native``: torch's DataLoader, whose processes read, decode, crop and flip; the device normalises."""

from __future__ import annotations

from typing import Any, List

import torch
from torch.utils.data import DataLoader, Dataset

from ....core.feed import Feed
from ....core.outcomes import RunError
from ....core.place import Place
from ....core.queues import in_parts, joined
from ....tasks.image_classification.decoding import single_threaded
from ....tasks.image_classification.images import Draw
from ....tasks.image_classification.loading import Photos
from ....tasks.image_classification.settings import ImageSettings
from ..feed import HostFeed, Normalise, Parted


class Batches(Dataset):
    """Makes parts of batches, so that a loader process writes each image once, straight into shared memory."""

    def __init__(self, photos: Photos) -> None:
        """Keep what every loader process needs."""
        self._photos = photos

    def __getitems__(self, draws: List[Draw]) -> Any:
        """Return (bytes (images, size, size, 3), labels), or the ``RunError`` that tells what went wrong."""
        size = self._photos.size
        pixels, labels = _empty_batch((len(draws), size, size, 3)), []
        rows = pixels.numpy()
        for row, draw in enumerate(draws):
            loaded = self._photos[draw]
            if isinstance(loaded, RunError):
                return loaded
            rows[row], label = loaded
            labels.append(label)
        return pixels, torch.tensor(labels)


def open_native(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill."""
    photos = Photos(settings, place)
    share = in_parts(settings.batch_per_device, settings.loader_workers)
    workers = share.workers
    loader = DataLoader(
        Batches(photos),
        batch_sampler=photos.parts(share.in_batch),
        num_workers=workers,
        collate_fn=as_it_is,
        pin_memory=device.type == "cuda",
        prefetch_factor=share.tasks if workers else None,
        worker_init_fn=start_worker,
    )
    if not workers:
        single_threaded()
    normalise = Normalise(device, dtype, settings.layout)
    batches = joined(iter(loader), share.in_batch, Parted)
    feed = HostFeed(
        batches, device, normalise, len(photos), photos.decoder.name, share.ahead, photos.produced
    )
    feed.workers = workers
    return feed


def as_it_is(batch: Any) -> Any:
    """Return what a process made: it is put together already."""
    return batch


def start_worker(_worker: int) -> None:
    """Begin a loader process."""
    single_threaded()


def _empty_batch(shape: Any) -> Any:
    """Return bytes of the shape; in a loader process in shared memory, so that they need not be copied there."""
    if torch.utils.data.get_worker_info() is None:
        return torch.empty(shape, dtype=torch.uint8)
    size = 1
    for side in shape:
        size *= side
    storage = torch.UntypedStorage._new_shared(size)
    return torch.empty(0, dtype=torch.uint8).set_(storage).view(shape)
