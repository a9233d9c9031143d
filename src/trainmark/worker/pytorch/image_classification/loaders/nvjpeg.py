"""``nvjpeg``: processes read files and choose crops, the GPU decodes, scales, flips and normalises them.

Where it has JPEG engines, the processes decode a share of the pictures themselves: each that the GPU need not make
leaves more of it to the training.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import Any, Iterator, List

import torch

from ....core.feed import Feed
from ....core.loading import tell_unreadable
from ....core.outcomes import FAILED, UNSUPPORTED, RunError, first_sentence
from ....core.place import Place
from ....core.produced import Produced
from ....core.queues import in_parts
from ....tasks.image_classification.decoding import installed
from ....tasks.image_classification.images import ImageList, read_images
from ....tasks.image_classification.settings import ImageSettings
from ...failures import stopped_by
from ..feed import Batch
from ..nvjpeg import Decoder
from . import require_gpu
from .nvjpeg_batches import Maker, Wanted
from .nvjpeg_files import Photo, read_in_processes

READ_AHEAD = 2
"""Batches that the processes may have read, or be reading, ahead of the decoders."""

READY = 1
"""Batches that may wait, made, beside the one that is being made or waits for room among them."""

A_PROCESS, MOST_BY_PROCESSES = 0.02, 0.5
"""The share of the pictures that each process decodes, which is 180 of 9 000 a second where one of an H200's processors
decodes 330 of 110 kB by itself; and the most that all of them do. Half is too much there (docs/how-to/gpus.md)."""

USUAL_PROCESSES = 8
"""Where there are none, and the feed's own thread reads, as in the look at a known picture: it sees either way then."""


def by_processes(workers: int) -> float:
    """Return the share of pictures that so many processes decode beside JPEG engines."""
    return min((workers or USUAL_PROCESSES) * A_PROCESS, MOST_BY_PROCESSES)


def open_nvjpeg(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Start the reading processes and the decoding threads, and return the feed that they fill."""
    require_gpu(settings, device)
    if not installed("triton"):
        raise RunError(UNSUPPORTED, "the loader nvjpeg needs Triton, which is not installed here")
    try:
        decoder = Decoder(device, settings.loader_workers)
    except OSError as error:
        raise RunError(UNSUPPORTED, f"the loader nvjpeg: {error}") from error
    wanted = Wanted(settings.image_size, dtype, settings.layout == "nhwc", device)
    return NvjpegFeed(settings, place, wanted, decoder)


class NvjpegFeed(Feed):
    """A thread that makes batches, and a short queue of them."""

    def __init__(self, settings: ImageSettings, place: Place, wanted: Wanted, decoder: Decoder) -> None:
        """Start making batches."""
        self._images: ImageList = read_images(settings.data, settings.classes)
        self.epoch_samples = len(self._images.paths)
        share = in_parts(settings.batch_per_device, settings.loader_workers, ahead=READ_AHEAD)
        # Those that are read, those that wait in the queue, and the one that is made or waits for room in it.
        self.ahead, self.produced = share.ahead + READY + 1, Produced()
        # The processes decode, and count nothing: a picture counts when the GPU has it, with the batch that is made.
        self.uncounted = round((share.ahead + 1) * settings.batch_per_device)
        self.workers = share.workers
        self.unreadable: List[str] = []
        # Its processes are started here, by the thread that outlives them.
        by_host = by_processes(share.workers) if decoder.hardware else 0.0
        self.decoder = f"nvjpeg, engines; {by_host:.0%} by the host" if decoder.hardware else "nvjpeg"
        self._slots, batches = read_in_processes(self._images, settings, place, share, by_host)
        self._slots.pin()
        self._maker = Maker(wanted, self._slots, decoder, self._leave_out)
        self._ready: "queue.Queue[Any]" = queue.Queue(READY)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._fill, args=(batches,), name="nvjpeg", daemon=True)
        self._thread.start()

    def next(self) -> Batch:
        """Wait for a batch."""
        made = self.timed(self._ready.get)
        if isinstance(made, RunError):
            # Nothing comes after it, however often it is asked for.
            self._ready.put(made)
            raise made
        images, labels = made
        # Their memory was taken on the maker's stream: it may be given away only when the training is done with it.
        training = torch.cuda.current_stream()
        images.record_stream(training)
        labels.record_stream(training)
        return images, labels

    def close(self) -> None:
        """Let the thread run out, and with it the processes."""
        self._closing.set()
        while self._thread.is_alive():
            with contextlib.suppress(queue.Empty):
                self._ready.get(timeout=0.1)
        self._maker.close()
        self._slots.unpin()

    def _fill(self, batches: Iterator[Any]) -> None:
        """Make batches until told to stop; what goes wrong is handed over in a batch's place."""
        assert self.produced is not None
        try:
            for parts in batches:
                if self._closing.is_set():
                    return
                if isinstance(parts, RunError):
                    self._ready.put(parts)
                    return
                batch = self._maker.make(parts)
                self.produced.add(len(batch[1]))
                self._ready.put(batch)
        except Exception as error:
            self._ready.put(_stopped(error))

    def _leave_out(self, photo: Photo, why: str) -> None:
        tell_unreadable(self.unreadable, self._images.paths[photo.image], why)


def _stopped(error: Exception) -> RunError:
    if isinstance(error, RunError):
        return error
    return stopped_by(error) or RunError(FAILED, f"the loader nvjpeg: {first_sentence(error)}")
