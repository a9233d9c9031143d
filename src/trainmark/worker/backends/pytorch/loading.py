"""The loaders of PyTorch: torch's DataLoader for every kind of data, and the choice among those of images."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from ...core.choices import one_of
from ...core.feed import Feed, IndexedReader, LoadedFeed, Loader, Numbered, shard_batches
from ...core.outcomes import UNSUPPORTED, RunError, first_sentence
from ...core.place import Place
from ...core.queues import AHEAD, in_parts, joined
from ...core.settings import Settings
from ...tasks.image_classification.decoding import Photos, single_threaded
from ...tasks.image_classification.images import DEVIATION, MEAN, Draw
from ...tasks.image_classification.settings import ImageSettings


def open_numbers(data: Numbered, settings: Settings, place: Place) -> LoadedFeed:
    """Start the loader processes of this rank, at most ``AHEAD``; return their feed.

    Each batch is made by one process, in one piece.
    """
    read, workers = IndexedReader(data.batch_of), min(settings.loader_workers, AHEAD)
    each = AHEAD // workers if workers else 0
    loader: DataLoader[Any] = DataLoader(
        read,
        batch_size=None,
        sampler=shard_batches(data.samples, settings.batch_per_device, place, settings.seed),
        num_workers=workers,
        collate_fn=_tensors,
        pin_memory=settings.device != "cpu" and torch.cuda.is_available(),
        prefetch_factor=each or None,
    )
    facts = Loader(data.samples, None, each * workers, read.produced, workers)
    return LoadedFeed(iter(loader), data.ready, facts)


def _tensors(batch: Any) -> Any:
    return batch if isinstance(batch, RunError) else tuple(map(torch.from_numpy, batch))


# Images (batch, 3, size, size) in the compute type, and labels (batch,) in int64, on the device.
Batch = tuple[Any, Any]


def memory_format(layout: str) -> Any:
    """Return torch's name for a layout."""
    return torch.channels_last if layout == "nhwc" else torch.contiguous_format


class Normalise:
    """Turns bytes (batch, size, size, 3) into the network's input: mean 0, deviation 1, by channel.

    It runs on the device, since bytes are a quarter of the floats to copy. It computes in FP32 and rounds once.
    """

    def __init__(self, device: Any, dtype: Any, layout: str) -> None:
        shape = (1, 3, 1, 1)
        self._mean = torch.tensor(MEAN, device=device).view(shape) * 255
        self._scale = 1 / (torch.tensor(DEVIATION, device=device).view(shape) * 255)
        self._dtype = dtype
        self._format = memory_format(layout)

    def __call__(self, pixels: Any) -> Any:
        """Return (batch, 3, size, size); bytes in NHWC order are a channels-last tensor without being moved."""
        return self.planes(pixels.permute(0, 3, 1, 2).to(torch.float32))

    def planes(self, images: Any) -> Any:
        """Return the same for floats from 0 to 255, (batch, 3, size, size), which are overwritten."""
        return images.sub_(self._mean).mul_(self._scale).to(self._dtype, memory_format=self._format)


def to_device(device: Any, normalise: Normalise) -> Callable[[Any], Batch]:
    """Return the function that brings a decoded batch from host memory to the device.

    It takes (bytes (batch, size, size, 3), labels), or a list of parts of that form. On a GPU they are in pinned
    memory, and are copied and normalised on a stream of their own while the step before computes.
    """
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def copied(loaded: Any) -> Batch:
        parts = [loaded] if isinstance(loaded[0], torch.Tensor) else loaded
        pixels, labels = (
            torch.cat([tensor.to(device, non_blocking=True) for tensor in tensors]) for tensors in zip(*parts)
        )
        return normalise(pixels), labels

    def ready(loaded: Any) -> Batch:
        if stream is None:
            return copied(loaded)
        with torch.cuda.stream(stream):
            batch = copied(loaded)
        torch.cuda.current_stream().wait_stream(stream)
        return hold(batch)

    return ready


def hold(batch: Batch) -> Batch:
    """Hold the memory of a batch, which was taken on another stream, until the training is done with it."""
    for tensor in batch:
        tensor.record_stream(torch.cuda.current_stream())
    return batch


class PhotoBatches(Dataset):
    """Makes parts of batches, so that a loader process writes each image once, straight into shared memory."""

    def __init__(self, photos: Photos) -> None:
        self._photos = photos

    def __getitems__(self, draws: list[Draw]) -> Any:
        """Return (bytes (images, size, size, 3), labels), or the ``RunError`` that tells what went wrong."""
        size = self._photos.size
        shape, labels = (len(draws), size, size, 3), []
        # In a loader process in shared memory, so that they need not be copied there.
        if torch.utils.data.get_worker_info() is None:
            pixels = torch.empty(shape, dtype=torch.uint8)
        else:
            storage = torch.UntypedStorage._new_shared(math.prod(shape))
            pixels = torch.empty(0, dtype=torch.uint8).set_(storage).view(shape)
        rows = pixels.numpy()
        for row, draw in enumerate(draws):
            loaded = self._photos[draw]
            if isinstance(loaded, RunError):
                return loaded
            rows[row], label = loaded
            labels.append(label)
        return pixels, torch.tensor(labels)


def open_native(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill."""
    photos = Photos(settings, place)
    share = in_parts(settings.batch_per_device, settings.loader_workers)
    loader = DataLoader(
        PhotoBatches(photos),
        batch_sampler=photos.parts(share.in_batch),
        num_workers=share.workers,
        collate_fn=as_it_is,
        pin_memory=device.type == "cuda",
        prefetch_factor=share.tasks if share.workers else None,
        worker_init_fn=single_threaded,
    )
    if not share.workers:
        single_threaded()
    ready = to_device(device, Normalise(device, dtype, settings.layout))
    return LoadedFeed(joined(iter(loader), share.in_batch, list), ready, photos.loader(share))


def as_it_is(batch: Any) -> Any:
    """Return what a process made: it is put together already."""
    return batch


ON_GPU = frozenset({"nvjpeg", "dali-gpu", "dali-gpu-tfrecord"})  # loaders that decode on an NVIDIA GPU


def open_images(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Return the feed of the loader that was asked for; its first images are already being read."""
    one_of("PyTorch", "loader", settings.loader, LOADERS)
    return LOADERS[settings.loader](settings, place, device, dtype)


def require_gpu(settings: ImageSettings, device: Any) -> None:
    """Raise where a loader that decodes on a GPU is to feed a run on a CPU."""
    if device.type != "cuda":
        message = f"the loader {settings.loader} decodes on an NVIDIA GPU, and this run is on a CPU"
        raise RunError(UNSUPPORTED, message)


def _nvjpeg(*given: Any) -> Feed:
    from ...pytorch_fast.images.nvjpeg_loader import open_nvjpeg

    return open_nvjpeg(*given)


def _dali(settings: ImageSettings, *given: Any) -> Feed:
    try:
        from ...pytorch_fast.images import dali
    except ImportError as error:
        raise RunError(
            UNSUPPORTED,
            f"NVIDIA DALI does not import here ({first_sentence(error)}); trainmark env create pytorch --extra dali "
            "adds it (in an interpreter of your own: pip install nvidia-dali-cuda130 google-crc32c)",
        ) from error
    opened = dali.open_tfrecord if settings.loader.endswith("tfrecord") else dali.open_folder
    return opened(settings, *given)


LOADERS: dict[str, Callable[..., Feed]] = {
    "native": open_native,
    "nvjpeg": _nvjpeg,
    **dict.fromkeys(("dali-cpu", "dali-cpu-tfrecord", "dali-gpu", "dali-gpu-tfrecord"), _dali),
}
