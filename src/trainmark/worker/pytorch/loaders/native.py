"""``native``: torch's DataLoader, whose processes read, decode, crop and flip; the device normalises."""

from __future__ import annotations

from typing import Any, List

import torch
from torch.utils.data import DataLoader, Dataset

from ...arguments import Settings
from ...decoding import Decoder, choose_decoder, decoder_names, load_image, single_threaded
from ...feed import Feed
from ...images import Dealer, Draw, ImageList, read_images
from ...outcomes import OOM, UNSUPPORTED, RunError
from ...place import Place
from ..feed import HostFeed, Normalise

PREFETCH_BATCHES = 2
"""Batches that each loader process works ahead."""


class Images(Dataset):
    """Makes whole batches, so that a loader process writes each image once, straight into shared memory."""

    def __init__(self, images: ImageList, size: int, seed: int, decoder: Decoder) -> None:
        """Keep what every loader process needs."""
        self._images, self._size, self._seed, self._decoder = images, size, seed, decoder

    def __getitems__(self, draws: List[Draw]) -> Any:
        """Return (bytes (batch, size, size, 3), labels), or the ``RunError`` that tells what went wrong.

        Returned and not raised: the DataLoader would wrap the exception into a text of many lines.
        """
        try:
            pixels = _empty_batch((len(draws), self._size, self._size, 3))
            rows = pixels.numpy()
            for row, draw in enumerate(draws):
                path = self._images.paths[draw.image]
                rows[row] = load_image(path, draw, self._size, self._seed, self._decoder)
        except RunError as stopped:
            return stopped
        except MemoryError:
            return RunError(OOM, "a loader process could not allocate memory")
        return pixels, torch.tensor([self._images.labels[draw.image] for draw in draws])


def open_native(settings: Settings, place: Place, device: Any, dtype: Any) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill."""
    decoder = choose_decoder()
    if decoder is None:
        raise RunError(
            UNSUPPORTED, f"no JPEG decoder is installed here; install one of: {', '.join(decoder_names())}"
        )
    images = read_images(settings.data, settings.classes)
    dealer = Dealer(len(images.paths), settings.batch_per_device, place.rank, place.world_size, settings.seed)
    workers = settings.loader_workers
    loader = DataLoader(
        Images(images, settings.image_size, settings.seed, decoder),
        batch_sampler=dealer,
        num_workers=workers,
        collate_fn=_as_it_is,
        pin_memory=device.type == "cuda",
        prefetch_factor=PREFETCH_BATCHES if workers else None,
        worker_init_fn=_start_worker,
    )
    if not workers:
        single_threaded()
    normalise = Normalise(device, dtype, settings.layout)
    return HostFeed(iter(loader), device, normalise, len(images.paths), decoder.name)


def _as_it_is(batch: Any) -> Any:
    return batch


def _start_worker(_worker: int) -> None:
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
