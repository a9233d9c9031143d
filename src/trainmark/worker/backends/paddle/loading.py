"""``native``: paddle.io.DataLoader, whose processes read text and clicks by numbers, and images."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import paddle
from paddle.io import DataLoader

from ...core.choices import one_of
from ...core.feed import IndexedReader, LoadedFeed, Loader, Numbered, shard_batches
from ...core.outcomes import RunError
from ...core.place import Place
from ...core.queues import AHEAD, Parts, in_parts, joined
from ...core.settings import Settings
from ...tasks.image_classification.decoding import Photos, collate, single_threaded
from ...tasks.image_classification.images import DEVIATION, MEAN
from ...tasks.image_classification.settings import ImageSettings


def open_parts(
    data: Any,
    parts: Any,
    share: Parts,
    collate: Callable[[list[Any]], Any],
    ready: Callable[[Any], Any],
    loader: Loader,
    begin: Callable[[int], None] | None = None,
) -> LoadedFeed:
    """Start the loader processes, return their feed; ``parts`` has the indices in ``data`` of each part of a batch."""
    made = iter(
        DataLoader(
            data,
            batch_sampler=parts,
            num_workers=share.workers,
            collate_fn=collate,
            prefetch_factor=share.tasks,
            # A second queue, of batches on their way to the device: the copy is a small part of a step.
            use_buffer_reader=False,
            use_shared_memory=True,
            worker_init_fn=begin,
        )
    )
    # See ``_with_array``.
    found = (part[-1] if isinstance(part[-1], RunError) else part for part in made)
    # Without processes a thread works ahead, with a queue that cannot be taken away.
    loader = replace(loader, ahead=share.ahead or AHEAD)
    # It does not end by itself: one of its threads refers to it.
    return LoadedFeed(joined(found, share.in_batch, _join), ready, loader, made._try_shutdown_all)


def open_numbers(data: Numbered, settings: Settings, place: Place) -> LoadedFeed:
    """Start the loader processes of this rank, at most ``AHEAD``: each makes a batch in one piece."""
    read, workers = IndexedReader(data.batch_of), min(settings.loader_workers, AHEAD)
    share = Parts(workers, AHEAD // max(workers, 1), 1)
    # A batch of samples is one index of the data.
    batches = ([own] for own in shard_batches(data.samples, settings.batch_per_device, place, settings.seed))
    loader = Loader(data.samples, None, share.ahead, read.produced, workers)
    return open_parts(read, batches, share, lambda one: _with_array(one[0]), data.ready, loader)


def _with_array(batch: Any) -> Any:
    """Return a batch, or a ``RunError`` next to an array: Paddle's loader takes one without any for the data's end."""
    return (np.zeros(1, np.uint8), batch) if isinstance(batch, RunError) else batch


def normalising(settings: ImageSettings) -> Callable[[Any], tuple[Any, Any]]:
    """Return what normalises a batch of (bytes (batch, size, size, 3), labels).

    On the device: bytes are a quarter of the floats to copy.
    """
    mean, scale = paddle.to_tensor(MEAN) * 255, 1 / (paddle.to_tensor(DEVIATION) * 255)

    def ready(batch: Any) -> tuple[Any, Any]:
        pixels, labels = batch
        with paddle.no_grad():
            images = (pixels.astype("float32") - mean) * scale
            if settings.layout == "nchw":
                images = paddle.transpose(images, [0, 3, 1, 2])
        return images, labels

    return ready


def open_images(settings: ImageSettings, place: Place) -> LoadedFeed:
    """Return the feed of the images of this rank; raise ``RunError`` if there is no such loader."""
    one_of("PaddlePaddle", "loader", settings.loader, ("native",))
    photos, share = Photos(settings, place), in_parts(settings.batch_per_device, settings.loader_workers)
    if not share.workers:
        single_threaded()
    parts, loader = photos.parts(share.in_batch), photos.loader(share)
    return open_parts(photos, parts, share, _collate, normalising(settings), loader, single_threaded)


def _collate(samples: list[Any]) -> Any:
    return _with_array(collate(samples))


def _join(parts: list[Any]) -> Any:
    pixels, labels = zip(*parts)
    return paddle.concat(list(pixels)), paddle.concat(list(labels))
