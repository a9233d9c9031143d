"""``nvjpeg``: processes read files and choose crops, the GPU decodes, scales, flips and normalises them.

Where it has JPEG engines, the processes decode a share of the pictures themselves: beside a training that fills the
GPU, engines alone give less than both together.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Iterator, List

import torch

from ....core.feed import Feed
from ....core.loading import NAMED
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
from .nvjpeg_batches import Maker, Wanted
from .nvjpeg_files import Part, Photo, read_in_processes

READ_AHEAD = 2
"""Batches that the processes may have read, or be reading, ahead of the decoders."""

MAKERS = 2
"""Batches that are made beside each other: while one's files are handed over, another's are decoded."""

READY = 1
"""Batches that may wait, made or in the making, beside the one that waits for room among them."""

BESIDE_TRAINING, A_PROCESS = 6700, 330
"""Pictures a second that the engines of an H200 decode while it trains, however many are given them, and that one
process decodes: of 110 kB each (docs/gpus.md). Each is given its share, so that the sum of both comes in. Other GPUs
and processors have other figures, which were not measured, and the same share."""

USUAL_PROCESSES = 8
"""Where there are none, and the feed's own thread reads, as in the look at a known picture: it sees either way then."""


def by_processes(workers: int) -> float:
    """Return the share of pictures that so many processes decode beside JPEG engines."""
    decoded = (workers or USUAL_PROCESSES) * A_PROCESS
    return decoded / (decoded + BESIDE_TRAINING)


def open_nvjpeg(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Start the reading processes and the decoding threads, and return the feed that they fill."""
    if device.type != "cuda":
        raise RunError(UNSUPPORTED, "the loader nvjpeg decodes on an NVIDIA GPU, and this run is on a CPU")
    if not installed("triton"):
        raise RunError(UNSUPPORTED, "the loader nvjpeg needs Triton, which is not installed here")
    try:
        decoders = [Decoder(device, settings.loader_workers) for _ in range(MAKERS)]
    except OSError as error:
        raise RunError(UNSUPPORTED, f"the loader nvjpeg: {error}") from error
    wanted = Wanted(settings.image_size, dtype, settings.layout == "nhwc", device)
    return NvjpegFeed(settings, place, wanted, decoders)


class NvjpegFeed(Feed):
    """Threads that make batches beside each other, and a short queue of them in their order."""

    def __init__(
        self, settings: ImageSettings, place: Place, wanted: Wanted, decoders: List[Decoder]
    ) -> None:
        """Start making batches, one with each decoder."""
        self._images: ImageList = read_images(settings.data, settings.classes)
        self.epoch_samples = len(self._images.paths)
        share = in_parts(settings.batch_per_device, settings.loader_workers, ahead=READ_AHEAD)
        # Those that are read, those that wait in the queue, the one that waits for room in it, and the one waited for.
        self.ahead, self.produced = share.ahead + READY + 2, Produced()
        # The processes decode, and count nothing: a picture counts when the GPU has it.
        self.uncounted = round(share.ahead * settings.batch_per_device)
        self.workers = share.workers
        self.unreadable: List[str] = []
        # Its processes are started here, by the thread that outlives them.
        by_host = by_processes(share.workers) if decoders[0].hardware else 0.0
        self.decoder = f"nvjpeg, engines; {by_host:.0%} by the host" if decoders[0].hardware else "nvjpeg"
        self._slots, batches = read_in_processes(
            self._images, settings, place, share, held=READY + 2, by_host=by_host
        )
        self._slots.pin()
        self._makers: "queue.SimpleQueue[Maker]" = queue.SimpleQueue()
        for decoder in decoders:
            self._makers.put(Maker(wanted, self._slots, decoder, self._leave_out))
        self._making = ThreadPoolExecutor(len(decoders), thread_name_prefix="nvjpeg")
        self._ready: "queue.Queue[Future[Any]]" = queue.Queue(READY)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._fill, args=(batches,), name="nvjpeg", daemon=True)
        self._thread.start()

    def next(self) -> Batch:
        """Wait for a batch."""
        images, labels = self.timed(lambda: self._ready.get().result())
        # Their memory was taken on a maker's stream: it may be given away only when the training is done with it.
        training = torch.cuda.current_stream()
        images.record_stream(training)
        labels.record_stream(training)
        return images, labels

    def close(self) -> None:
        """Let the threads run out, and with them the processes."""
        self._closing.set()
        while self._thread.is_alive():
            with contextlib.suppress(queue.Empty):
                self._ready.get(timeout=0.1)
        self._making.shutdown()
        while not self._makers.empty():
            self._makers.get().close()
        self._slots.unpin()

    def _fill(self, batches: Iterator[Any]) -> None:
        """Have batches made until told to stop; what goes wrong is handed over in a batch's place."""
        try:
            for parts in batches:
                if isinstance(parts, RunError):
                    self._ready.put(_already(parts))
                    return
                self._ready.put(self._making.submit(self._made, parts))
                if self._closing.is_set():
                    return
        except Exception as error:
            self._ready.put(_already(_stopped(error)))

    def _made(self, parts: List[Part]) -> Any:
        """Return a batch, or what went wrong."""
        maker = self._makers.get()
        try:
            batch = maker.make(parts)
        except Exception as error:
            return _stopped(error)
        finally:
            self._makers.put(maker)
        assert self.produced is not None
        self.produced.add(len(batch[1]))
        return batch

    def _leave_out(self, photo: Photo, why: str) -> None:
        name = self._images.paths[photo.image]
        self.unreadable.append(name)
        if len(self.unreadable) <= NAMED:
            print(f"trainmark-worker: {name} cannot be decoded: {why}", file=sys.stderr, flush=True)


def _already(made: Any) -> "Future[Any]":
    future: "Future[Any]" = Future()
    future.set_result(made)
    return future


def _stopped(error: Exception) -> RunError:
    if isinstance(error, RunError):
        return error
    return stopped_by(error) or RunError(FAILED, f"the loader nvjpeg: {first_sentence(error)}")
