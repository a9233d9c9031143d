"""``native``: paddle.io.DataLoader, whose processes read, decode, crop and flip; the device normalises."""

from __future__ import annotations

import ctypes
import signal
from typing import Any, List

import numpy as np
from paddle.io import DataLoader, Dataset

from ..arguments import Settings
from ..decoding import Decoder, choose_decoder, decoder_names, load_image, single_threaded
from ..feed import Feed
from ..images import Dealer, Draw, ImageList, read_images
from ..outcomes import OOM, UNSUPPORTED, RunError
from ..place import Place
from .feed import Decoded

PREFETCH_BATCHES = 2
"""Batches that each loader process works ahead."""

PR_SET_PDEATHSIG = 1
"""Of <linux/prctl.h>: which signal this process gets when its parent ends."""


class Images(Dataset):
    """Decodes one image a draw."""

    def __init__(self, images: ImageList, settings: Settings, decoder: Decoder) -> None:
        """Keep what every loader process needs."""
        self._images, self._decoder = images, decoder
        self._size, self._seed = settings.image_size, settings.seed

    def __len__(self) -> int:
        """Return the images of an epoch."""
        return len(self._images.paths)

    def __getitem__(self, draw: Draw) -> Any:
        """Return (bytes (size, size, 3), label), or the ``RunError`` that tells what went wrong.

        Returned and not raised: the DataLoader would end with another exception, whose text does not name the file.
        """
        path, label = self._images.paths[draw.image], self._images.labels[draw.image]
        try:
            return load_image(path, draw, self._size, self._seed, self._decoder), label
        except RunError as stopped:
            return stopped
        except MemoryError:
            return RunError(OOM, "a loader process could not allocate memory")


def open_native(settings: Settings, place: Place) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill."""
    decoder = choose_decoder()
    if decoder is None:
        raise RunError(
            UNSUPPORTED, f"no JPEG decoder is installed here; install one of: {', '.join(decoder_names())}"
        )
    images = read_images(settings.data, settings.classes)
    dealer = Dealer(len(images.paths), settings.batch_per_device, place.rank, place.world_size, settings.seed)
    if not settings.loader_workers:
        single_threaded()
    loader = DataLoader(
        Images(images, settings, decoder),
        batch_sampler=dealer,
        num_workers=settings.loader_workers,
        collate_fn=_collate,
        prefetch_factor=PREFETCH_BATCHES,
        use_shared_memory=True,
        worker_init_fn=_start_worker,
    )
    batches = iter(loader)
    return Decoded(batches, batches._try_shutdown_all, settings, len(images.paths), decoder.name)


def _start_worker(_worker: int) -> None:
    """Keep OpenCV to one thread, and end with the process that trains.

    Paddle's loader processes wait for work without a time limit, and so would outlive a rank that is killed.
    """
    single_threaded()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _collate(samples: List[Any]) -> Any:
    """Return (bytes (batch, size, size, 3), labels (batch,), None), or nothing and the first sample's ``RunError``."""
    for sample in samples:
        if isinstance(sample, RunError):
            return np.zeros(1, np.uint8), np.zeros(1, np.int64), sample
    pixels, labels = zip(*samples)
    return np.stack(pixels), np.array(labels, np.int64), None
