"""``native``: OneFlow's DataLoader, whose processes read, decode, crop and flip; the device normalises."""

from __future__ import annotations

from typing import Any, List

import numpy as np
from oneflow.utils.data import DataLoader, Dataset

from ..arguments import Settings
from ..decoding import Decoder, choose_decoder, decoder_names, load_image, single_threaded
from ..feed import Feed
from ..images import Dealer, Draw, ImageList, read_images
from ..outcomes import OOM, UNSUPPORTED, RunError
from ..place import Place
from .feed import Decoded

PREFETCH_BATCHES = 2
"""Batches that each loader process works ahead."""


class Images(Dataset):
    """Decodes one image a draw."""

    def __init__(self, images: ImageList, settings: Settings, decoder: Decoder) -> None:
        """Keep what every loader process needs."""
        self._images, self._decoder = images, decoder
        self._size, self._seed = settings.image_size, settings.seed

    def __getitem__(self, draw: Draw) -> Any:
        """Return (bytes (size, size, 3), label), or the ``RunError`` that tells what went wrong.

        Returned and not raised: the DataLoader would wrap the exception into a text of many lines.
        """
        try:
            path, label = self._images.paths[draw.image], self._images.labels[draw.image]
            return load_image(path, draw, self._size, self._seed, self._decoder), label
        except RunError as stopped:
            return stopped
        except MemoryError:
            return RunError(OOM, "a loader process could not allocate memory")


def open_loader(settings: Settings, place: Place, device: Any) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill."""
    if settings.loader != "native":
        raise RunError(UNSUPPORTED, f"OneFlow has no loader {settings.loader!r}; it has native")
    decoder = choose_decoder()
    if decoder is None:
        raise RunError(
            UNSUPPORTED, f"no JPEG decoder is installed here; install one of: {', '.join(decoder_names())}"
        )
    images = read_images(settings.data, settings.classes)
    dealer = Dealer(len(images.paths), settings.batch_per_device, place.rank, place.world_size, settings.seed)
    workers = settings.loader_workers
    if not workers:
        single_threaded()
    loader = DataLoader(
        Images(images, settings, decoder),
        batch_sampler=dealer,
        num_workers=workers,
        collate_fn=_collate,
        worker_init_fn=_start_worker,
        **({"prefetch_factor": PREFETCH_BATCHES} if workers else {}),
    )
    return Decoded(iter(loader), device, len(images.paths), decoder.name)


def _start_worker(_worker: int) -> None:
    single_threaded()


def _collate(samples: List[Any]) -> Any:
    """Return (bytes (batch, size, size, 3), labels (batch,)), or the first ``RunError`` among the samples."""
    for sample in samples:
        if isinstance(sample, RunError):
            return sample
    pixels, labels = zip(*samples)
    return np.stack(pixels), np.array(labels, np.int64)
