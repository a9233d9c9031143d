"""``native``: OneFlow's DataLoader, whose processes read, decode, crop and flip; the device normalises."""

from __future__ import annotations

from typing import Any

from oneflow.utils.data import DataLoader

from ...core.choices import one_of
from ...core.feed import Feed, LoadedFeed
from ...core.place import Place
from ...tasks.image_classification.decoding import single_threaded
from ...tasks.image_classification.loading import Photos, collate
from ...tasks.image_classification.settings import ImageSettings
from .feed import Normalise

PREFETCH_BATCHES = 2
"""Batches that each loader process works ahead."""


def open_loader(settings: ImageSettings, place: Place, device: Any) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill."""
    one_of("OneFlow", "loader", settings.loader, ("native",))
    photos, workers = Photos(settings, place), settings.loader_workers
    if not workers:
        single_threaded()
    loader = DataLoader(
        photos,
        batch_sampler=photos.dealer,
        num_workers=workers,
        collate_fn=collate,
        worker_init_fn=_start_worker,
        **({"prefetch_factor": PREFETCH_BATCHES} if workers else {}),
    )
    return LoadedFeed(iter(loader), Normalise(device), len(photos), photos.decoder.name)


def _start_worker(_worker: int) -> None:
    single_threaded()
