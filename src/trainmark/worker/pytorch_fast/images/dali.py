"""The loaders ``dali-cpu`` and ``dali-gpu``, also for TFRecord: NVIDIA DALI reads, decodes, crops and mirrors.

``dali-cpu`` needs no GPU, and the device normalises its pictures. ``dali-gpu`` reads on the host and does the rest on
the GPU, whose JPEG engines decode a part of the pictures. DALI draws its own random numbers: crops and order have the
same distribution as the other loaders', but are not the same.
"""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from nvidia.dali import fn, pipeline_def, tfrecord, types

from ...backends.pytorch.loading import ON_GPU, Batch, Normalise, require_gpu, to_device
from ...core.feed import Feed, LoadedFeed, Loader
from ...core.outcomes import RunError
from ...core.place import Place
from ...tasks.image_classification.decoding import END_BYTES
from ...tasks.image_classification.images import DEVIATION, MEAN, read_images
from ...tasks.image_classification.settings import ImageSettings
from .dali_files import Batches, Files, Source, find_shards

PREFETCH_BATCHES = 2
AHEAD = PREFETCH_BATCHES + 1  # with the batch in progress; DALI does not report how many are finished
# The size of a rank's shuffle buffer in records; the shards themselves are written in random order.
SHUFFLE_WINDOW = 1024
FIRST_LABEL = 1  # the first label of ImageNet's TFRecord files, in which 0 means "background"
# The share of the pictures that a GPU's JPEG engines decode, if it has any. With DALI's default of 0.65 the host
# decodes the Huffman codes of the others; an H200's engines can decode all (docs/appendix/gpus.md).
BY_ENGINES = 1.0


def open_folder(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Return a feed from an image folder or a list file."""
    files = Files(read_images(settings.data, settings.classes), settings.seed)

    def read() -> tuple[Any, Any]:
        # Every rank passes the same order; DALI distributes it and shuffles it again after each epoch.
        options = {"files": files.paths, "labels": files.labels, "shuffle_after_epoch": True}
        return tuple(fn.readers.file(**options, **_share(place)))

    feed = _feed(Source(read, 0, files.leave_out), settings, place, device, dtype)
    feed.unreadable = files.unreadable
    return feed


def open_tfrecord(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Return a feed from the training shards of a TFRecord data set and their index files."""
    shards = find_shards(Path(settings.data), place)
    options = {
        "path": list(map(str, shards)),
        "index_path": list(map(str, shards.values())),
        "features": {
            "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
            "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
        },
        "random_shuffle": True,
        "initial_fill": SHUFFLE_WINDOW,
        "seed": settings.seed,
        **_share(place),
    }

    def read() -> tuple[Any, Any]:
        features = fn.readers.tfrecord(**options)
        return features["image/encoded"], features["image/class/label"]

    return _feed(Source(read, FIRST_LABEL), settings, place, device, dtype)


def _share(place: Place) -> dict[str, Any]:
    return {"name": "reader", "shard_id": place.rank, "num_shards": place.world_size}


def _feed(source: Source, settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    on_gpu = settings.loader in ON_GPU
    if on_gpu:
        require_gpu(settings, device)
    threads, decoder = max(1, settings.loader_workers), "dali, mixed" if on_gpu else "dali"

    @pipeline_def(
        batch_size=settings.batch_per_device,
        num_threads=threads,
        device_id=device.index if on_gpu else None,
        seed=settings.seed + place.rank,
        prefetch_queue_depth=PREFETCH_BATCHES,
    )
    def pipeline() -> tuple[Any, ...]:
        files, labels = source.read()
        pictures = _pictures(files, settings, dtype, on_gpu)
        return (pictures, labels, *_ends(files), fn.get_property(files, key="source_info"))

    batches = Batches(pipeline, source, settings)
    loader = Loader(batches.images, decoder, AHEAD, None, threads)
    if on_gpu:
        return LoadedFeed(iter(batches), partial(_placed, settings.layout, device, dtype), loader)
    ready = to_device(device, Normalise(device, dtype, settings.layout))
    return LoadedFeed((_retained(batch, device) for batch in batches), ready, loader)


def _pictures(files: Any, settings: ImageSettings, dtype: Any, on_gpu: bool) -> Any:
    """Return the pictures of files: on the host bytes (batch, size, size, 3).

    On a GPU they are normalised, in the requested layout, and in FP16 if ``dtype`` is.
    """
    part = fn.decoders.image_random_crop(
        files,
        output_type=types.RGB,
        random_area=[0.08, 1.0],
        random_aspect_ratio=[3 / 4, 4 / 3],
        num_attempts=10,
        **({"device": "mixed", "hw_decoder_load": BY_ENGINES} if on_gpu else {"device": "cpu"}),
    )
    size = [settings.image_size] * 2
    part = fn.resize(part, size=size, interp_type=types.INTERP_LINEAR, antialias=False)
    mirrored = fn.random.coin_flip()
    if not on_gpu:
        return fn.flip(part, horizontal=mirrored)
    return fn.crop_mirror_normalize(
        part,
        dtype=types.FLOAT16 if dtype == torch.float16 else types.FLOAT,
        output_layout="HWC" if settings.layout == "nhwc" else "CHW",
        mean=[255 * mean for mean in MEAN],
        std=[255 * deviation for deviation in DEVIATION],
        mirror=mirrored,
    )


def _ends(files: Any) -> tuple[Any, Any]:
    """Return each file's last two bytes, and its first two bytes with the part of its end for ``is_cut_off``."""
    length = files.shape(dtype=types.INT32)[0]
    last = fn.slice(files, start=length - 2, shape=[2], axes=[0], out_of_bounds_policy="pad")
    begin = fn.slice(files, start=[0], shape=[2], axes=[0], out_of_bounds_policy="pad")
    end = fn.slice(
        files, start=length - END_BYTES, shape=[END_BYTES], axes=[0], out_of_bounds_policy="trim_to_shape"
    )
    return last, fn.cat(begin, end, axis=0)


def _retained(batch: Any, device: Any) -> Any:
    """Return a copy of a host batch, because DALI reuses its own memory for the batch after next."""
    if isinstance(batch, RunError):
        return batch
    pixels, labels = batch
    return (pixels.pin_memory() if device.type == "cuda" else pixels.clone()), labels


def _placed(layout: str, device: Any, dtype: Any, batch: Any) -> Batch:
    """Return images (batch, 3, size, size) and labels (batch,) on the GPU; NHWC is not copied for that."""
    pixels, labels = batch
    images = pixels.permute(0, 3, 1, 2) if layout == "nhwc" else pixels
    return images.to(dtype), labels.pin_memory().to(device, non_blocking=True)
