"""``native``: OneFlow's DataLoader, whose processes read, decode, crop and flip; the device normalises."""

from __future__ import annotations

from typing import Any

from oneflow.utils.data import DataLoader

from ...core.choices import one_of
from ...core.feed import Feed, LoadedFeed
from ...core.place import Place
from ...core.queues import in_parts, joined
from ...tasks.image_classification.decoding import single_threaded
from ...tasks.image_classification.loading import Photos, collate, join
from ...tasks.image_classification.settings import ImageSettings
from .feed import Normalise


def open_loader(settings: ImageSettings, place: Place, device: Any) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill."""
    one_of("OneFlow", "loader", settings.loader, ("native",))
    photos = Photos(settings, place)
    share = in_parts(settings.batch_per_device, settings.loader_workers)
    if not share.workers:
        single_threaded()
    loader = DataLoader(
        photos,
        batch_sampler=photos.parts(share.in_batch),
        num_workers=share.workers,
        collate_fn=collate,
        worker_init_fn=_start_worker,
        **({"prefetch_factor": share.tasks} if share.workers else {}),
    )
    batches = joined(iter(loader), share.in_batch, join)
    more = (len(photos), photos.decoder.name, share.ahead, photos.produced)
    feed = LoadedFeed(batches, Normalise(device), *more)
    feed.workers = share.workers
    return feed


def _start_worker(_worker: int) -> None:
    single_threaded()
