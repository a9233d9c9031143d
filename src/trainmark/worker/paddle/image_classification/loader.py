"""``native``: paddle.io.DataLoader, whose processes read, decode, crop and flip; the device normalises."""

from __future__ import annotations

from typing import Any, Iterator, List

import numpy as np
import paddle
from paddle.io import DataLoader

from ...core.feed import LoadedFeed
from ...core.outcomes import RunError
from ...core.place import Place
from ...core.queues import AHEAD, in_parts, joined
from ...tasks.image_classification.decoding import single_threaded
from ...tasks.image_classification.loading import Photos, collate
from ...tasks.image_classification.settings import ImageSettings
from .feed import Normalise


class DataLoaderFeed(LoadedFeed):
    """Batches of Paddle's loader, which has to be told to end: a thread of its own holds it."""

    def __init__(self, photos: Photos, settings: ImageSettings) -> None:
        """Start the loader processes of this rank."""
        if not settings.loader_workers:
            single_threaded()
        share = in_parts(settings.batch_per_device, settings.loader_workers)
        loader = DataLoader(
            photos,
            batch_sampler=photos.parts(share.in_batch),
            num_workers=share.workers,
            collate_fn=_collate,
            prefetch_factor=share.tasks,
            # A second queue, of batches on their way to the device: the copy is a small part of a step.
            use_buffer_reader=False,
            use_shared_memory=True,
            worker_init_fn=_start_worker,
        )
        self._loader = iter(loader)
        batches = joined(_read(self._loader), share.in_batch, _join)
        # Without processes a thread works ahead, with a queue that cannot be taken away.
        more = (len(photos), photos.decoder.name, share.ahead or AHEAD, photos.produced)
        super().__init__(batches, Normalise(settings), *more)
        self.workers = share.workers

    def close(self) -> None:
        """End the loader processes."""
        super().close()
        self._loader._try_shutdown_all()


def open_native(settings: ImageSettings, place: Place) -> DataLoaderFeed:
    """Return the feed of the images of this rank."""
    return DataLoaderFeed(Photos(settings, place), settings)


def _start_worker(_worker: int) -> None:
    single_threaded()


def _collate(samples: List[Any]) -> Any:
    """Return (bytes (batch, size, size, 3), labels (batch,)), or a ``RunError`` beside an array.

    Paddle's loader takes a batch without any array in it for the end of the data.
    """
    batch = collate(samples)
    return (np.zeros(1, np.uint8), batch) if isinstance(batch, RunError) else batch


def _join(parts: List[Any]) -> Any:
    pixels, labels = zip(*parts)
    return paddle.concat(list(pixels)), paddle.concat(list(labels))


def _read(batches: Iterator[Any]) -> Iterator[Any]:
    for pixels, labels in batches:
        yield labels if isinstance(labels, RunError) else (pixels, labels)
