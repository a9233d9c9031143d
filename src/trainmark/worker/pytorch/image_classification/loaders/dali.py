"""``dali-cpu`` and ``dali-cpu-tfrecord``: NVIDIA DALI's threads read, decode, crop and flip; the device normalises.

The pipeline needs no GPU. DALI draws its own random numbers: the crops and the order are of the same kind as the other
loaders', but not the same ones.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any, Dict, Iterator, Tuple

import torch
from nvidia.dali import fn, pipeline_def, tfrecord, types

from ....core.feed import Feed
from ....core.outcomes import FAILED, RunError, first_sentence
from ....core.place import Place
from ....tasks.image_classification.images import read_images
from ....tasks.image_classification.settings import ImageSettings
from ..feed import HostFeed, Normalise
from .shards import find_shards

PREFETCH_BATCHES = 2
AHEAD = PREFETCH_BATCHES + 1
"""With the batch that is being made. DALI does not say how many it has made."""
SHUFFLE_WINDOW = 1024
"""Records of a rank that are kept to draw from; the shards themselves are written in random order."""
FIRST_LABEL = 1
"""Of ImageNet's TFRecord files, in which 0 stands for "background"."""


def open_folder(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Return a feed from an image folder or a list file."""
    images = read_images(settings.data, settings.classes)
    order = list(range(len(images.paths)))
    # Every rank passes the same order; DALI deals it out and shuffles it anew after each epoch.
    random.Random(settings.seed).shuffle(order)  # noqa: S311 (no secret)
    options = {
        "files": [images.paths[image] for image in order],
        "labels": [images.labels[image] for image in order],
        "shuffle_after_epoch": True,
        **_share(place),
    }

    def read() -> Tuple[Any, Any]:
        return tuple(fn.readers.file(**options))

    return _feed(_pipeline(settings, place, read), settings, device, dtype, first_label=0)


def open_tfrecord(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Return a feed from the training shards of a TFRecord data set and their index files."""
    shards = find_shards(Path(settings.data), place)
    options = {
        "path": [str(shard) for shard in shards.files],
        "index_path": [str(index) for index in shards.indices],
        "features": {
            "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
            "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
        },
        "random_shuffle": True,
        "initial_fill": SHUFFLE_WINDOW,
        "seed": settings.seed,
        **_share(place),
    }

    def read() -> Tuple[Any, Any]:
        features = fn.readers.tfrecord(**options)
        return features["image/encoded"], features["image/class/label"]

    return _feed(_pipeline(settings, place, read), settings, device, dtype, first_label=FIRST_LABEL)


def _share(place: Place) -> Dict[str, Any]:
    return {"name": "reader", "shard_id": place.rank, "num_shards": place.world_size}


def _pipeline(settings: ImageSettings, place: Place, read: Any) -> Any:
    """Return the pipeline from ``read`` to bytes (batch, size, size, 3) and labels."""

    @pipeline_def(
        batch_size=settings.batch_per_device,
        num_threads=max(1, settings.loader_workers),
        device_id=None,
        seed=settings.seed + place.rank,
        prefetch_queue_depth=PREFETCH_BATCHES,
    )
    def build() -> Tuple[Any, Any]:
        files, labels = read()
        part = fn.decoders.image_random_crop(
            files,
            device="cpu",
            output_type=types.RGB,
            random_area=[0.08, 1.0],
            random_aspect_ratio=[3 / 4, 4 / 3],
            num_attempts=10,
        )
        size = settings.image_size
        fitted = fn.resize(part, size=[size, size], interp_type=types.INTERP_LINEAR, antialias=False)
        return fn.flip(fitted, horizontal=fn.random.coin_flip()), labels

    return build()


def _feed(pipeline: Any, settings: ImageSettings, device: Any, dtype: Any, first_label: int) -> Feed:
    try:
        pipeline.build()
    except RuntimeError as error:
        raise _told(error, settings) from error
    images = pipeline.reader_meta("reader")["epoch_size"]
    batches = _batches(pipeline, settings, device, first_label)
    feed = HostFeed(batches, device, Normalise(device, dtype, settings.layout), images, "dali", AHEAD)
    feed.workers = max(1, settings.loader_workers)
    return feed


def _batches(pipeline: Any, settings: ImageSettings, device: Any, first_label: int) -> Iterator[Any]:
    while True:
        try:
            pixels, labels = pipeline.run()
        except RuntimeError as error:
            yield _told(error, settings)
            return
        labels = torch.from_dlpack(labels.as_tensor()).view(-1).long() - first_label
        if not 0 <= int(labels.min()) <= int(labels.max()) < settings.classes:
            yield RunError(
                FAILED,
                f"{settings.data} has labels from {int(labels.min())} to {int(labels.max())}, "
                f"but the network has {settings.classes} classes (--classes)",
            )
            return
        # DALI uses its memory again for the batch after next.
        pixels = torch.from_dlpack(pixels.as_tensor())
        yield (pixels.pin_memory() if device.type == "cuda" else pixels.clone()), labels


def _told(error: RuntimeError, settings: ImageSettings) -> RunError:
    """Return the sentence that matters of DALI's many lines."""
    text = str(error)
    sample = re.search(r"Failed to decode sample #\d+ : (.+)", text)
    if sample:
        return RunError(FAILED, f"{sample[1].strip()} cannot be decoded (DALI)")
    _, _, reason = text.partition("encountered:")
    return RunError(
        FAILED, f"DALI cannot read {settings.data}: {first_sentence(RuntimeError(reason or text))}"
    )
