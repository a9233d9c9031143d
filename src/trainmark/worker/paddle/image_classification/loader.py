"""``native``: paddle.io.DataLoader, whose processes read, decode, crop and flip; the device normalises."""

from __future__ import annotations

from typing import Any, Iterator, List

import numpy as np
from paddle.io import DataLoader

from ...core.feed import LoadedFeed
from ...core.outcomes import RunError
from ...core.place import Place
from ...tasks.image_classification.decoding import single_threaded
from ...tasks.image_classification.loading import Photos, collate
from ...tasks.image_classification.settings import ImageSettings
from .feed import Normalise

PREFETCH_BATCHES = 2
"""Batches that each loader process works ahead."""


class DataLoaderFeed(LoadedFeed):
    """Batches of Paddle's loader, which has to be told to end: a thread of its own holds it."""

    def __init__(self, photos: Photos, settings: ImageSettings) -> None:
        """Start the loader processes of this rank."""
        if not settings.loader_workers:
            single_threaded()
        loader = DataLoader(
            photos,
            batch_sampler=photos.dealer,
            num_workers=settings.loader_workers,
            collate_fn=_collate,
            prefetch_factor=PREFETCH_BATCHES,
            use_shared_memory=True,
            worker_init_fn=_start_worker,
        )
        self._loader = iter(loader)
        super().__init__(_read(self._loader), Normalise(settings), len(photos), photos.decoder.name)

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


def _read(batches: Iterator[Any]) -> Iterator[Any]:
    for pixels, labels in batches:
        yield labels if isinstance(labels, RunError) else (pixels, labels)
