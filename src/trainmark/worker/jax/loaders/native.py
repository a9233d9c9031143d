"""``native``: Grain, whose processes read, decode, crop and flip; the training step normalises."""

from __future__ import annotations

from typing import Any, Tuple

import grain
import numpy as np
from absl import flags

from ...arguments import Settings
from ...decoding import Decoder, choose_decoder, decoder_names, load_image, single_threaded
from ...feed import Feed
from ...images import Draw, ImageList, read_images
from ...outcomes import UNSUPPORTED, RunError
from ..feed import HostFeed
from ..ranks import Ranks

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


class Load:
    """Makes one training image of a use."""

    def __init__(self, images: ImageList, size: int, seed: int, decoder: Decoder) -> None:
        """Keep what every loader process needs."""
        self._images, self._size, self._seed, self._decoder = images, size, seed, decoder

    def __call__(self, draw: Draw) -> Tuple[Any, Any]:
        """Return bytes (size, size, 3) and the label; raise ``RunError`` for a file that is no whole JPEG."""
        path = self._images.paths[draw.image]
        pixels = load_image(path, draw, self._size, self._seed, self._decoder)
        return pixels, np.int32(self._images.labels[draw.image])


def open_native(settings: Settings, ranks: Ranks) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill.

    Grain shuffles each epoch anew. The endless row of epochs is cut into batches, and of each ``world_size`` batches
    that follow one another a rank makes one. Neither order nor crops depend on the number of processes.
    """
    decoder = choose_decoder()
    if decoder is None:
        raise RunError(
            UNSUPPORTED, f"no JPEG decoder is installed here; install one of: {', '.join(decoder_names())}"
        )
    place = ranks.place
    images = read_images(settings.data, settings.classes)
    epochs = grain.MapDataset.range(len(images.paths)).seed(settings.seed).shuffle().repeat()
    draws = epochs.map_with_index(ToDraw(len(images.paths)))
    load = Load(images, settings.image_size, settings.seed, decoder)
    batches = draws.map(load).batch(settings.batch_per_device)[place.rank :: place.world_size]
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
    return HostFeed(iterator, ranks, len(images.paths), decoder.name, iterator.close)


def start_worker(_worker: int, _workers: int) -> None:
    """Prepare a loader process."""
    single_threaded()
