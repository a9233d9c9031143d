"""Where a step's batch comes from: made up on the device once, or read, copied and normalised beside the training."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator, Tuple

import torch

from ..arguments import Settings
from ..feed import Feed
from ..normalisation import DEVIATION, MEAN
from ..outcomes import RunError

Batch = Tuple[Any, Any]
"""Images (batch, 3, size, size) in the compute type, and labels (batch,) in int64, on the device."""


def memory_format(layout: str) -> Any:
    """Return torch's name for a layout."""
    return torch.channels_last if layout == "nhwc" else torch.contiguous_format


class SyntheticFeed(Feed):
    """One batch of noise, made on the device before the first step and used in every step."""

    def __init__(self, settings: Settings, rank: int, device: Any, dtype: Any) -> None:
        """Draw the batch; each rank has its own."""
        self.epoch_images = settings.epoch_images
        generator = torch.Generator(device=device).manual_seed(settings.seed + rank)
        shape = (settings.batch_per_device, 3, settings.image_size, settings.image_size)
        images = torch.randn(shape, generator=generator, device=device)
        labels = torch.randint(settings.classes, shape[:1], generator=generator, device=device)
        self._batch = (images.to(dtype).contiguous(memory_format=memory_format(settings.layout)), labels)

    def next(self) -> Batch:
        """Return the batch."""
        return self._batch


class GivenFeed(Feed):
    """One batch that was given as numpy arrays, used in every step."""

    def __init__(self, images: Any, labels: Any, settings: Settings, device: Any, dtype: Any) -> None:
        """Copy images (batch, 3, size, size) in float32 and labels (batch,) in int64 to the device."""
        self.epoch_images = settings.epoch_images
        pixels = torch.from_numpy(images).to(device, dtype)
        layout = memory_format(settings.layout)
        self._batch = (pixels.contiguous(memory_format=layout), torch.from_numpy(labels).to(device))

    def next(self) -> Batch:
        """Return the batch."""
        return self._batch


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


class HostFeed(Feed):
    """Brings decoded batches from host memory to the device, one ahead of the step that uses it.

    ``batches`` yields (bytes (batch, size, size, 3), labels), or a ``RunError`` instead of a batch that could not
    be read. On a GPU the copy and the normalisation run on a stream of their own while the step before computes.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        device: Any,
        normalise: Normalise,
        epoch_images: int,
        decoder: str,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Take over the iterator; ``close`` drops it."""
        self.epoch_images = epoch_images
        self.decoder = decoder
        self._batches = batches
        self._device = device
        self._normalise = normalise
        self._clock = clock
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def next(self) -> Batch:
        """Wait for the loader, start the copy, and let the training stream wait for it."""
        started = self._clock()
        loaded = next(self._batches)
        self.wait_s = self._clock() - started
        if isinstance(loaded, RunError):
            raise loaded
        pixels, labels = loaded
        if self._stream is None:
            return self._normalise(pixels), labels
        with torch.cuda.stream(self._stream):
            images = self._normalise(pixels.to(self._device, non_blocking=True))
            labels = labels.to(self._device, non_blocking=True)
        training = torch.cuda.current_stream()
        training.wait_stream(self._stream)
        # Their memory was taken on the copying stream: it may be given away only when the training is done with it.
        images.record_stream(training)
        labels.record_stream(training)
        return images, labels

    def close(self) -> None:
        """Let the loader end its processes."""
        self._batches = iter(())
