"""``nvjpeg``: processes read the files and choose the crops, the GPU decodes, crops, scales, flips and normalises."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch.utils.data import DataLoader, Dataset

from ....core.feed import Feed
from ....core.loading import NAMED
from ....core.outcomes import FAILED, OOM, UNSUPPORTED, RunError, first_sentence
from ....core.place import Place
from ....core.produced import Produced
from ....core.queues import Cut, in_parts, joined
from ....tasks.image_classification.decoding import (
    choose_decoder,
    decode_whole,
    decoder_names,
    frame_of,
    installed,
    is_cut_off,
    last_word,
    single_threaded,
)
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
from ..feed import Batch
from ..nvjpeg import FIRST, Decoder

READ_AHEAD = 2
"""Batches that the processes may have read, or be reading, ahead of the decoder."""

READY = 1
"""Batches that may wait, ready, on the device."""

ENCODED, DECODED, UNREADABLE = 0, 1, 2


class Photo(NamedTuple):
    """One file to be decoded, as whole numbers: ``length`` bytes, and what becomes of the picture in them.

    Where ``state`` is ``DECODED`` the bytes are the pixels (3, height, width), where it is ``UNREADABLE`` nothing.
    """

    image: int
    length: int
    state: int
    label: int
    height: int
    width: int
    top: int
    left: int
    rows: int
    columns: int
    mirrored: int

    @property
    def shape(self) -> Tuple[int, int, int]:
        """Return that of the decoded picture."""
        return 3, self.height, self.width


class Part(NamedTuple):
    """Files of a part of a batch: their bytes one after another, and a ``Photo`` in each row.

    ``reasons`` tells of images, by their numbers, why they are unreadable.
    """

    files: Any
    photos: Any
    reasons: Dict[int, str]


class Files(Dataset):
    """Reads files and chooses what of each picture is trained on; what a GPU does not read is decoded here."""

    def __init__(self, images: ImageList, seed: int) -> None:
        """Keep what every loader process needs; raise ``RunError`` (unsupported) if nothing can decode here."""
        decoder = choose_decoder()
        if decoder is None:
            names = ", ".join(decoder_names())
            raise RunError(UNSUPPORTED, f"the loader nvjpeg needs one of these too, for odd JPEGs: {names}")
        self._images, self._seed, self._decoder = images, seed, decoder

    def __getitems__(self, draws: List[Draw]) -> Any:
        """Return a ``Part``, or the ``RunError`` that tells what went wrong."""
        reasons: Dict[int, str] = {}
        try:
            read = [self._read(draw, reasons) for draw in draws]
        except RunError as stopped:
            return stopped
        except MemoryError:
            return RunError(OOM, "a loader process could not allocate memory")
        # A byte more: there may be none, and of none no tensor can be made.
        files = torch.frombuffer(bytearray(b"".join([*(data for data, _ in read), b"\0"])), dtype=torch.uint8)
        return Part(files, torch.tensor([photo for _, photo in read], dtype=torch.int64), reasons)

    def _read(self, draw: Draw, reasons: Dict[int, str]) -> Tuple[bytes, Photo]:
        path = self._images.paths[draw.image]
        try:
            data, state = Path(path).read_bytes(), ENCODED
        except OSError as error:
            raise RunError(FAILED, f"cannot read {path}: {error.strerror}") from error
        frame = None if is_cut_off(data) else frame_of(data)
        if frame is not None and frame.plain:
            width, height = frame.width, frame.height
        else:
            try:
                pixels = decode_whole(data, self._decoder)
                height, width, state = pixels.shape[0], pixels.shape[1], DECODED
                data = pixels.transpose(2, 0, 1).tobytes()
            except ValueError as error:
                width, height, state, reasons[draw.image] = 1, 1, UNREADABLE, str(error)
        rng = randomness(self._seed, draw)
        box = random_resized_crop(width, height, rng)
        label = self._images.labels[draw.image]
        crop = (box.top, box.left, box.height, box.width)
        return data, Photo(draw.image, len(data), state, label, height, width, *crop, rng.random() < 0.5)


def open_nvjpeg(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Start the reading processes and the decoding thread, and return the feed that they fill."""
    if device.type != "cuda":
        raise RunError(UNSUPPORTED, "the loader nvjpeg decodes on an NVIDIA GPU, and this run is on a CPU")
    if not installed("triton"):
        raise RunError(UNSUPPORTED, "the loader nvjpeg needs Triton, which is not installed here")
    try:
        decoder = Decoder(device, settings.loader_workers)
    except OSError as error:
        raise RunError(UNSUPPORTED, f"the loader nvjpeg: {error}") from error
    return NvjpegFeed(settings, place, device, dtype, decoder)


class NvjpegFeed(Feed):
    """A thread that makes batches on a stream of its own, and a short queue of those that are ready."""

    def __init__(
        self, settings: ImageSettings, place: Place, device: Any, dtype: Any, decoder: Decoder
    ) -> None:
        """Start making batches."""
        self._decoder = decoder
        self.decoder = "nvjpeg, engines" if decoder.hardware else "nvjpeg"
        self._images: ImageList = read_images(settings.data, settings.classes)
        self.epoch_samples = len(self._images.paths)
        share = in_parts(settings.batch_per_device, settings.loader_workers, ahead=READ_AHEAD)
        # Those that are read, the one that is being decoded or waits to be put, and those that are ready.
        self.ahead, self.produced = share.ahead + 1 + READY, Produced()
        self.workers = share.workers
        self.unreadable: List[str] = []
        self._size, self._dtype, self._device = settings.image_size, dtype, device
        self._nhwc = settings.layout == "nhwc"
        dealer = Dealer(
            len(self._images.paths), settings.batch_per_device, place.rank, place.world_size, settings.seed
        )
        loader = DataLoader(
            Files(self._images, settings.seed),
            batch_sampler=Cut(dealer, share.in_batch),
            num_workers=share.workers,
            collate_fn=_as_it_is,
            worker_init_fn=_start_worker,
            prefetch_factor=share.tasks if share.workers else None,
        )
        # Its processes are started here, by the thread that outlives them.
        batches = joined(iter(loader), share.in_batch, list)
        self._ready: "queue.Queue[Any]" = queue.Queue(READY)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._fill, args=(batches,), name="nvjpeg", daemon=True)
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
        """Let the thread run out, and with it the processes."""
        self._closing.set()
        while self._thread.is_alive():
            with contextlib.suppress(queue.Empty):
                self._ready.get(timeout=0.1)
        self._decoder.close()

    def _fill(self, batches: Iterator[Any]) -> None:
        """Make batches until told to stop; what goes wrong is handed over in a batch's place."""
        try:
            torch.cuda.set_device(self._device)
            stream = torch.cuda.Stream(self._device, priority=FIRST)
            for parts in batches:
                if isinstance(parts, RunError):
                    raise parts
                with torch.cuda.stream(stream):
                    images, labels = self._make([parts] if isinstance(parts, Part) else parts)
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

    def _make(self, parts: List[Part]) -> Batch:
        """Return images and labels, from decoded to normalised without leaving the device."""
        from ..kernels.resample import resampled

        photos, files, reasons = taken_apart(parts)
        decoded = self._decode(photos, files, reasons)
        crops = [
            (photo.top, photo.left, photo.rows, photo.columns, photo.mirrored)
            if image is not None
            else (0, 0, 1, 1, 0)
            for photo, image in zip(photos, decoded)
        ]
        # In the place of what cannot be decoded stands black: the batch keeps its size, and the run is in doubt.
        black = torch.zeros((3, 1, 1), dtype=torch.uint8, device=self._device)
        images = [black if image is None else image for image in decoded]
        labels = torch.tensor([photo.label for photo in photos]).to(self._device, non_blocking=True)
        return resampled(images, crops, self._size, self._dtype, self._nhwc), labels

    def _decode(self, photos: List[Photo], files: List[Any], reasons: Dict[int, str]) -> List[Any]:
        """Return the pictures as bytes (3, height, width) on the device; None for one that cannot be decoded.

        One that nvJPEG refuses makes it refuse the batch, so the batch's files are then tried one by one.
        """
        encoded = [index for index, photo in enumerate(photos) if photo.state == ENCODED]
        by_index: Dict[int, Any] = {}
        with contextlib.suppress(ValueError):
            images = self._on_gpu([photos[index] for index in encoded], [files[index] for index in encoded])
            by_index = dict(zip(encoded, images))
        return [
            by_index[index] if index in by_index else self._decode_one(photo, file, reasons)
            for index, (photo, file) in enumerate(zip(photos, files))
        ]

    def _on_gpu(self, photos: List[Photo], files: List[Any]) -> List[Any]:
        return self._decoder.decode(files, [(photo.height, photo.width) for photo in photos])

    def _decode_one(self, photo: Photo, file: Any, reasons: Dict[int, str]) -> Optional[Any]:
        """Return one picture; Pillow has the last word, as it has in every loader that decodes here."""
        if photo.state == DECODED:
            return file.to(self._device).view(photo.shape)
        try:
            if photo.state == UNREADABLE:
                raise ValueError(reasons[photo.image])
            try:
                return self._on_gpu([photo], [file])[0]
            except ValueError as refused:
                pixels = last_word(file.numpy().tobytes(), refused)
            image = torch.from_numpy(pixels.copy()).permute(2, 0, 1).contiguous().to(self._device)
            if tuple(image.shape) != photo.shape:
                raise ValueError(f"its header says {photo.width} x {photo.height}, and it is another size")
        except ValueError as error:
            self._leave_out(photo, str(error))
            return None
        return image

    def _leave_out(self, photo: Photo, why: str) -> None:
        name = self._images.paths[photo.image]
        self.unreadable.append(name)
        if len(self.unreadable) <= NAMED:
            print(f"trainmark-worker: {name} cannot be decoded: {why}", file=sys.stderr, flush=True)


def _as_it_is(part: Any) -> Any:
    return part


def _start_worker(_worker: int) -> None:
    single_threaded()


def taken_apart(parts: List[Part]) -> Tuple[List[Photo], List[Any], Dict[int, str]]:
    """Return the photos of a batch, the bytes of each, and the reasons of all parts; no byte is copied."""
    photos: List[Photo] = []
    files: List[Any] = []
    reasons: Dict[int, str] = {}
    for part in parts:
        own = [Photo._make(row) for row in part.photos.tolist()]
        photos += own
        files += torch.split(part.files, [*(photo.length for photo in own), 1])[:-1]
        reasons.update(part.reasons)
    return photos, files, reasons
