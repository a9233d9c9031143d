"""``native``: OneFlow's DataLoader, whose processes read, decode, crop and flip images; the device normalises."""

from typing import Any

import oneflow as flow
from oneflow.utils.data import DataLoader

from ...core.choices import one_of
from ...core.feed import Feed, LoadedFeed
from ...core.place import Place
from ...core.queues import in_parts, joined
from ...tasks.image_classification.decoding import Photos, collate, join, single_threaded
from ...tasks.image_classification.images import DEVIATION, MEAN
from ...tasks.image_classification.settings import ImageSettings


class Normalise:
    """Makes batches of decoded images; on the device, since bytes are a quarter of the floats to copy."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._mean = flow.tensor(MEAN).mul(255.0).reshape(1, 3, 1, 1).to(device)
        self._deviation = flow.tensor(DEVIATION).mul(255.0).reshape(1, 3, 1, 1).to(device)

    def __call__(self, decoded: tuple[Any, Any]) -> tuple[Any, Any]:
        """Return images (batch, 3, size, size) and labels on the device, from bytes (batch, size, size, 3) of numpy."""
        pixels, labels = decoded
        images = flow.from_numpy(pixels).to(self._device).permute(0, 3, 1, 2).float()
        return (images - self._mean) / self._deviation, flow.from_numpy(labels).to(self._device)


def open_images(settings: ImageSettings, place: Place, device: Any) -> Feed:
    """Start the loader processes of this rank and return the feed that they fill."""
    one_of("OneFlow", "loader", settings.loader, ("native",))
    photos = Photos(settings, place)
    share = in_parts(settings.batch_per_device, settings.loader_workers)
    if not share.workers:
        single_threaded()
    loader = DataLoader(
        photos,
        batch_sampler=photos.parts(share.in_batch),
        num_workers=share.workers,
        collate_fn=collate,
        worker_init_fn=single_threaded,
        **({"prefetch_factor": share.tasks} if share.workers else {}),
    )
    return LoadedFeed(joined(iter(loader), share.in_batch, join), Normalise(device), photos.loader(share))
