"""How a batch gets to the device: copied once, or copied and normalised beside the training."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, Tuple

import torch

from ...core.feed import LoadedFeed
from ...core.produced import Produced
from ...tasks.image_classification.normalisation import DEVIATION, MEAN
from ...tasks.image_classification.settings import ImageSettings

Batch = Tuple[Any, Any]
"""Images (batch, 3, size, size) in the compute type, and labels (batch,) in int64, on the device."""


def memory_format(layout: str) -> Any:
    """Return torch's name for a layout."""
    return torch.channels_last if layout == "nhwc" else torch.contiguous_format


class ToDevice:
    """Makes batches of numpy arrays."""

    def __init__(self, settings: ImageSettings, device: Any, dtype: Any) -> None:
        """Take what the batches are to be."""
        self._device, self._dtype, self._format = device, dtype, memory_format(settings.layout)

    def __call__(self, images: Any, labels: Any) -> Batch:
        """Copy images (batch, 3, size, size) in float32 and labels (batch,) in int64 to the device."""
        pixels = torch.from_numpy(images).to(self._device, self._dtype)
        return pixels.contiguous(memory_format=self._format), torch.from_numpy(labels).to(self._device)


class Normalise:
    """Turns bytes (batch, size, size, 3) into the network's input: mean 0, deviation 1, by channel.

    It runs on the device, since bytes are a quarter of the floats to copy. It computes in FP32 and rounds once.
    """

    def __init__(self, device: Any, dtype: Any, layout: str) -> None:
        """Put the constants on the device."""
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


class Parted:
    """A batch in parts, each (bytes (images, size, size, 3), labels), which are put together on the device."""

    def __init__(self, parts: List[Any]) -> None:
        """Take the parts in their order."""
        self._parts = parts

    def on(self, device: Any) -> Tuple[Any, Any]:
        """Return the whole batch on a device; from pinned memory without waiting for the copies."""
        pixels, labels = (
            torch.cat([tensor.to(device, non_blocking=True) for tensor in tensors])
            for tensors in zip(*self._parts)
        )
        return pixels, labels


class HostFeed(LoadedFeed):
    """Brings decoded batches from host memory to the device, one ahead of the step that uses it.

    ``batches`` yields (bytes (batch, size, size, 3), labels), a ``Parted``, or a ``RunError`` in its place.
    On a GPU they are in pinned memory, and are copied and normalised on a stream of their own while the step before
    computes.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        device: Any,
        normalise: Normalise,
        epoch_samples: int,
        decoder: str,
        ahead: float,
        produced: Optional[Produced] = None,
    ) -> None:
        """Take over the iterator; ``close`` drops it."""
        super().__init__(batches, self._on_device, epoch_samples, decoder, ahead, produced)
        self._device = device
        self._normalise = normalise
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def _on_device(self, loaded: Any) -> Batch:
        """Start the copy, and let the training stream wait for it."""
        parted = loaded if isinstance(loaded, Parted) else Parted([loaded])
        if self._stream is None:
            pixels, labels = parted.on(self._device)
            return self._normalise(pixels), labels
        with torch.cuda.stream(self._stream):
            pixels, labels = parted.on(self._device)
            images = self._normalise(pixels)
        training = torch.cuda.current_stream()
        training.wait_stream(self._stream)
        # Their memory was taken on the copying stream: it may be given away only when the training is done with it.
        images.record_stream(training)
        labels.record_stream(training)
        return images, labels
