"""``nvjpeg``: threads read the files, the GPU decodes, crops, scales, flips and normalises them."""

from __future__ import annotations

import contextlib
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, List, Tuple

import torch
from torch.nn import functional

from ....core.failures import OUT_OF_MEMORY
from ....core.feed import Feed
from ....core.outcomes import FAILED, UNSUPPORTED, RunError, first_sentence
from ....core.place import Place
from ....core.produced import Produced
from ....tasks.image_classification.decoding import installed, is_cut_off, last_word
from ....tasks.image_classification.images import (
    Dealer,
    Draw,
    ImageList,
    random_resized_crop,
    randomness,
    read_images,
)
from ....tasks.image_classification.settings import ImageSettings
from ...failures import stopped_by
from ..feed import Batch, Normalise

BATCHES_AHEAD = 2
"""Batches that may wait, ready, on the device."""


def open_nvjpeg(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Start the decoding thread and return the feed that it fills."""
    if device.type != "cuda":
        raise RunError(UNSUPPORTED, "the loader nvjpeg decodes on an NVIDIA GPU, and this run is on a CPU")
    if not installed("torchvision"):
        raise RunError(UNSUPPORTED, "the loader nvjpeg needs torchvision, which is not installed here")
    return NvjpegFeed(settings, place, device, dtype)


class NvjpegFeed(Feed):
    """A thread that makes batches on a stream of its own, and a short queue of those that are ready."""

    decoder = "nvjpeg"

    def __init__(self, settings: ImageSettings, place: Place, device: Any, dtype: Any) -> None:
        """Start making batches."""
        self._images: ImageList = read_images(settings.data, settings.classes)
        self.epoch_samples = len(self._images.paths)
        # Those that are ready, the one that waits to be put among them, and the one whose files are being read.
        self.ahead, self.produced = BATCHES_AHEAD + 2, Produced()
        self._size, self._seed, self._device = settings.image_size, settings.seed, device
        self._normalise = Normalise(device, dtype, settings.layout)
        self.workers = max(1, settings.loader_workers)
        self._readers = ThreadPoolExecutor(self.workers, thread_name_prefix="read")
        self._ready: "queue.Queue[Any]" = queue.Queue(BATCHES_AHEAD)
        self._closing = threading.Event()
        dealer = Dealer(
            len(self._images.paths), settings.batch_per_device, place.rank, place.world_size, settings.seed
        )
        self._thread = threading.Thread(target=self._fill, args=(dealer,), name="nvjpeg", daemon=True)
        self._thread.start()

    def next(self) -> Batch:
        """Wait for a batch, and let the training stream wait for its last kernel."""
        images, labels, done = self.timed(self._ready.get)
        training = torch.cuda.current_stream()
        training.wait_event(done)
        images.record_stream(training)
        labels.record_stream(training)
        return images, labels

    def close(self) -> None:
        """Let the thread run out."""
        self._closing.set()
        while self._thread.is_alive():
            with contextlib.suppress(queue.Empty):
                self._ready.get(timeout=0.1)
        self._readers.shutdown()

    def _fill(self, dealer: Dealer) -> None:
        """Make batches until told to stop; what goes wrong is handed over in a batch's place."""
        try:
            torch.cuda.set_device(self._device)
            stream = torch.cuda.Stream(self._device)
            reading: Any = None
            for draws in dealer:
                # Files are read one batch ahead of the decoder.
                ahead, reading = reading, (draws, [self._readers.submit(self._read, draw) for draw in draws])
                if ahead is None:
                    continue
                with torch.cuda.stream(stream):
                    images, labels = self._make(ahead[0], [file.result() for file in ahead[1]])
                    done = stream.record_event()
                # Handed over to the device; that it is done there is what ``next`` waits for.
                assert self.produced is not None
                self.produced.add(len(labels))
                self._ready.put((images, labels, done))
                if self._closing.is_set():
                    return
        except RunError as error:
            self._ready.put(error)
        except Exception as error:
            self._ready.put(
                stopped_by(error) or RunError(FAILED, f"the loader nvjpeg: {first_sentence(error)}")
            )

    def _read(self, draw: Draw) -> bytes:
        path = self._images.paths[draw.image]
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise RunError(FAILED, f"cannot read {path}: {error.strerror}") from error

    def _make(self, draws: List[Draw], files: List[Any]) -> Tuple[Any, Any]:
        """Return images and labels, from decoded to normalised without leaving the device."""
        size = self._size
        pixels = torch.empty((len(draws), 3, size, size), device=self._device)
        mirrored = []
        decoded = self._decode(draws, files)
        for row, draw in enumerate(draws):
            image = decoded[row]
            rng = randomness(self._seed, draw)
            box = random_resized_crop(image.shape[2], image.shape[1], rng)
            part = image[:, box.top : box.top + box.height, box.left : box.left + box.width]
            pixels[row] = functional.interpolate(
                part.unsqueeze(0).float(), size=(size, size), mode="bilinear", antialias=False
            )[0]
            mirrored.append(rng.random() < 0.5)
        mirror = torch.tensor(mirrored).to(self._device, non_blocking=True).view(-1, 1, 1, 1)
        pixels = torch.where(mirror, pixels.flip(3), pixels)
        labels = torch.tensor([self._images.labels[draw.image] for draw in draws])
        return self._normalise.planes(pixels), labels.to(self._device, non_blocking=True)

    def _decode(self, draws: List[Draw], files: List[bytes]) -> List[Any]:
        """Return the images as bytes (3, height, width) on the device.

        One that nvJPEG refuses makes it refuse the batch, so the batch's files are then tried one by one.
        """
        if not any(is_cut_off(file) for file in files):
            with contextlib.suppress(RuntimeError, ValueError):
                return self._on_gpu(files)
        return [self._decode_one(draw, file) for draw, file in zip(draws, files)]

    def _on_gpu(self, files: List[bytes]) -> List[Any]:
        from torchvision.io import ImageReadMode, decode_jpeg

        tensors = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in files]
        return list(decode_jpeg(tensors, mode=ImageReadMode.RGB, device=self._device))

    def _decode_one(self, draw: Draw, file: bytes) -> Any:
        """Return one image; Pillow has the last word, as it has in every loader that decodes here."""
        try:
            if is_cut_off(file):
                raise ValueError("it has no end-of-image marker")
            return self._on_gpu([file])[0]
        except (RuntimeError, ValueError) as refused:
            if OUT_OF_MEMORY.search(str(refused)):
                raise
            try:
                pixels = last_word(file, ValueError(first_sentence(refused)))
            except ValueError as error:
                name = self._images.paths[draw.image]
                raise RunError(FAILED, f"{name} cannot be decoded: {error}") from error
        return torch.from_numpy(pixels.copy()).permute(2, 0, 1).to(self._device)
