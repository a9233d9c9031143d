"""``native-folder``: Gluon's DataLoader on an image folder; its processes read, decode, crop and mirror."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List
from zlib import crc32

import mxnet as mx
import numpy as np
from mxnet.base import MXNetError
from mxnet.gluon.data import DataLoader, Dataset
from mxnet.gluon.data.dataloader import _worker_initializer, default_batchify_fn, default_mp_batchify_fn
from mxnet.gluon.data.vision import transforms

from ....core.feed import LoadedFeed
from ....core.outcomes import FAILED, RunError
from ....core.place import Place
from ....core.produced import Produced
from ....core.queues import Cut, in_parts, joined
from ....tasks.image_classification.decoding import is_cut_off
from ....tasks.image_classification.images import (
    Dealer,
    Draw,
    ImageList,
    random_resized_crop,
    randomness,
    read_images,
)
from ....tasks.image_classification.normalisation import DEVIATION, MEAN
from ....tasks.image_classification.settings import ImageSettings
from ...failures import last_line
from ..feed import ToDevice
from .pool import LoaderPool

DECODER = "opencv (mx.image)"


class Images(Dataset):
    """Makes one image of a draw, in a loader process."""

    def __init__(self, images: ImageList, size: int, seed: int) -> None:
        """Keep what every loader process needs."""
        self._images, self._size, self._seed = images, size, seed
        self.produced = Produced()
        self._normalise = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)])

    def __getitem__(self, draw: Draw) -> Any:
        """Return an image (3, size, size) and its label, or the ``RunError`` that tells what went wrong."""
        path = self._images.paths[draw.image]
        try:
            data = Path(path).read_bytes()
            # OpenCV fills a truncated image up with grey.
            if is_cut_off(data):
                return RunError(FAILED, f"{path} cannot be decoded: it has no end-of-image marker")
            image = mx.image.imdecode(data)
            height, width, _ = image.shape
            rng = randomness(self._seed, draw)
            box = random_resized_crop(width, height, rng)
            side = self._size
            image = mx.image.fixed_crop(image, box.left, box.top, box.width, box.height, (side, side))
            if rng.random() < 0.5:
                image = image.flip(axis=1)
            pixels = self._normalise(image)
            pixels.wait_to_read()
        except (OSError, MXNetError) as error:
            return RunError(FAILED, f"{path} cannot be read or decoded: {last_line(error)}")
        self.produced.add(1, [crc32(path.encode())])
        return pixels, np.float32(self._images.labels[draw.image])

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._images.paths)


def open_folder(settings: ImageSettings, place: Place, ready: ToDevice) -> LoadedFeed:
    """Start the loader processes of this rank; images and crops depend on the seed alone."""
    images = read_images(settings.data, settings.classes)
    data = Images(images, settings.image_size, settings.seed)
    share = in_parts(settings.batch_per_device, settings.loader_workers)
    dealer = Dealer(len(images.paths), settings.batch_per_device, place.rank, place.world_size, settings.seed)
    loader = DataLoader(
        data,
        batch_sampler=Cut(dealer, share.in_batch),
        batchify_fn=_stack_shared if share.workers else _stack,
        prefetch=share.workers * share.tasks,
    )
    if share.workers:
        loader._num_workers = share.workers
        loader._worker_pool = LoaderPool(
            share.workers,
            initializer=_worker_initializer,
            initargs=(data, mx.util.is_np_shape(), mx.util.is_np_array()),
        )
    batches = joined(iter(loader), share.in_batch, _join)
    feed = LoadedFeed(batches, ready.loaded, len(images.paths), DECODER, share.ahead, data.produced)
    feed.workers = share.workers
    return feed


def _join(parts: List[Any]) -> Any:
    pixels, labels = zip(*parts)
    return mx.nd.concat(*pixels, dim=0), mx.nd.concat(*labels, dim=0)


def _stack(samples: List[Any]) -> Any:
    stopped = next((sample for sample in samples if isinstance(sample, RunError)), None)
    return default_batchify_fn(samples) if stopped is None else stopped


def _stack_shared(samples: List[Any]) -> Any:
    stopped = next((sample for sample in samples if isinstance(sample, RunError)), None)
    return default_mp_batchify_fn(samples) if stopped is None else stopped
