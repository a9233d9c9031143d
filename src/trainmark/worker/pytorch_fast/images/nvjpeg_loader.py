"""``nvjpeg``: processes read files and choose crops, the GPU decodes, scales, flips and normalises them.

Where it has JPEG engines, the processes decode a share of the pictures themselves: each that the GPU need not make
leaves more of it to the training.
"""

import contextlib
import mmap
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from ...backends.pytorch import FAILURES
from ...backends.pytorch.loading import Batch, as_it_is, hold, require_gpu
from ...core.feed import Feed
from ...core.outcomes import FAILED, OOM, UNSUPPORTED, RunError, classify, first_sentence
from ...core.place import Place
from ...core.queues import Cut, Parts, SampleCounter, in_parts, joined, tell_unreadable
from ...tasks.image_classification import decoding
from ...tasks.image_classification.images import Draw, ImageList, ImageSampler, crop_of, read_images
from ...tasks.image_classification.settings import ImageSettings
from .nvjpeg import Decoder

# Bytes of a slot for each image of a part: twice what one of ImageNet has as a file, and about what its crop has.
ROOM = 2**18

NO_MEMORY = 2  # of CUDA's errors

ENCODED, DECODED, UNREADABLE = 0, 1, 2


class Photo(NamedTuple):
    """One file to be decoded, with ``length`` bytes; ``crop`` is top, left, height and width of what is trained on.

    Where ``state`` is ``DECODED`` the bytes are the pixels (height, width, 3) of the crop; where it is ``UNREADABLE``
    there are none, and ``why`` is the reason.
    """

    image: int
    length: int
    state: int
    label: int
    height: int
    width: int
    crop: tuple[int, int, int, int]
    mirrored: bool
    why: str = ""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return that of the decoded picture."""
        return 3, self.height, self.width


class Part(NamedTuple):
    """Files of a part of a batch: their bytes one after another, in a slot, or in ``files`` if they are too many."""

    photos: list[Photo]
    slot: int
    files: Any | None


class Slots:
    """Memory in ``count`` pieces that is there before the processes are forked, so that nothing has to be handed over.

    A tensor that a process of torch's hands over costs its receiver a connection to it and new pages for its memory.
    """

    def __init__(self, count: int, images: int) -> None:
        self.count, self.size, self._pinned = count, images * ROOM, False
        try:
            self._memory = mmap.mmap(-1, count * self.size)
        except OSError as error:
            message = f"the loader nvjpeg: {count * self.size / 2**20:.0f} MiB of the host's memory: {error.strerror}"
            raise RunError(OOM, message) from error

    def pin(self) -> None:
        """Pin the memory, so that the GPU reads it by itself; of other memory the host copies each file, and waits."""
        memory = self.bytes_of(0, self.count * self.size)
        refused = int(torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), memory.numel(), 0))
        if refused:
            message = f"{memory.numel() / 2**20:.0f} MiB of the host's memory cannot be pinned: CUDA's error {refused}"
            raise RunError(OOM if refused == NO_MEMORY else FAILED, f"the loader nvjpeg: {message}")
        self._pinned = True

    def unpin(self) -> None:
        """Unpin the memory, once nothing is copied from it."""
        if self._pinned:
            torch.cuda.cudart().cudaHostUnregister(self.bytes_of(0, 1).data_ptr())
        self._pinned = False

    def fill(self, slot: int, data: bytes) -> bool:
        """Write into a slot; return whether it has room for that."""
        if len(data) > self.size:
            return False
        self._memory[slot * self.size : slot * self.size + len(data)] = data
        return True

    def bytes_of(self, slot: int, length: int) -> Any:
        """Return the first bytes of a slot as a tensor (length,) in the same memory."""
        return torch.frombuffer(self._memory, dtype=torch.uint8, count=length, offset=slot * self.size)


class Task(NamedTuple):
    """A process's next work: read ``draws`` into ``slot``, and decode the first ``by_host`` of them itself."""

    slot: int
    by_host: int
    draws: list[Draw]


def tasks_of(parts: Iterable[list[Draw]], in_batch: int, slots: int, by_host: int) -> Iterator[Task]:
    """Yield a task for each of the ``in_batch`` parts of a batch, of which processes decode ``by_host`` pictures."""
    for number, draws in enumerate(parts):
        before = number % in_batch
        of_batch = [by_host * count // in_batch for count in (before, before + 1)]
        yield Task(number % slots, of_batch[1] - of_batch[0], draws)


class Files(Dataset):
    """Reads files, chooses each picture's crop, and decodes what a GPU does not read, and as many as a task says."""

    def __init__(self, images: ImageList, seed: int, slots: Slots) -> None:
        """Keep what every loader process needs; raise ``RunError`` (unsupported) if nothing can decode here."""
        decoder = decoding.choose_decoder()
        if decoder is None:
            those = decoding.DECODERS
            raise RunError(UNSUPPORTED, f"the loader nvjpeg needs one of these too, for odd JPEGs: {those}")
        self._images, self._seed, self._slots, self._decoder = images, seed, slots, decoder

    def __getitems__(self, task: Task) -> Any:
        """Return a ``Part``, or the ``RunError`` that tells what went wrong."""
        slot, by_host, draws = task
        read: list[tuple[bytes, Photo]] = []
        room = self._slots.size
        try:
            for left, draw in zip(range(len(draws) - 1, -1, -1), draws):
                # Nothing is decoded that would take the room of the files that come after it.
                read.append(self._read(draw, (room, left) if len(read) < by_host else None))
                room -= len(read[-1][0])
            data = b"".join(data for data, _ in read)
            fits = self._slots.fill(slot, data)
            # A copy that can be written to, as torch wants it.
            files = None if fits else torch.frombuffer(bytearray(data), dtype=torch.uint8)
        except RunError as stopped:
            return stopped
        except MemoryError:
            return RunError(OOM, "a loader process could not allocate memory")
        return Part([photo for _, photo in read], slot, files)

    def _read(self, draw: Draw, here: tuple[int, int] | None) -> tuple[bytes, Photo]:
        """Read a file; decode it where nvJPEG does not, or ``here``: in so many bytes with so many files after it."""
        path = self._images.paths[draw.image]
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise RunError(FAILED, f"cannot read {path}: {error.strerror}") from error
        frame = None if decoding.is_cut_off(data) else decoding.frame_of(data)
        if frame is not None and frame.plain:
            photo = self._photo(draw, ENCODED, len(data), frame.height, frame.width)
            room, left = here or (0, 0)
            if 3 * photo.crop[2] * photo.crop[3] + left * len(data) > room:
                return data, photo
        try:
            pixels = decoding.decode_whole(data, self._decoder)
        except ValueError as error:
            return b"", self._photo(draw, UNREADABLE, 0, 1, 1)._replace(why=str(error))
        photo = self._photo(draw, DECODED, 0, *pixels.shape[:2])
        top, left, height, width = photo.crop
        part = pixels[top : top + height, left : left + width]
        crop = (0, 0, height, width)
        return part.tobytes(), photo._replace(length=part.size, height=height, width=width, crop=crop)

    def _photo(self, draw: Draw, state: int, length: int, height: int, width: int) -> Photo:
        """Return what the draw's own random numbers make of a picture of this size."""
        box, mirrored = crop_of(self._seed, draw, width, height)
        crop = (box.top, box.left, box.height, box.width)
        label = self._images.labels[draw.image]
        return Photo(draw.image, length, state, label, height, width, crop, mirrored)


def read_in_processes(
    images: ImageList, settings: ImageSettings, place: Place, share: Parts, by_host: float
) -> tuple[Slots, Iterator[Any]]:
    """Start the processes; return the slots, and the batches: lists of ``Part``, or a ``RunError``.

    What a batch lies in is written over once the next one is asked for. ``by_host``: the share of pictures that the
    processes decode.
    """
    batch = settings.batch_per_device
    # Of parts that are read or being read, and of the batch that was given out.
    slots = Slots(share.workers * share.tasks + share.in_batch, batch // share.in_batch)
    dealer = ImageSampler(len(images.paths), batch, place.rank, place.world_size, settings.seed)
    parts = Cut(dealer, share.in_batch)
    forked = {"prefetch_factor": share.tasks, "multiprocessing_context": "fork"} if share.workers else {}
    loader = DataLoader(
        Files(images, settings.seed, slots),
        batch_sampler=tasks_of(parts, share.in_batch, slots.count, round(by_host * batch)),
        num_workers=share.workers,
        collate_fn=as_it_is,
        worker_init_fn=decoding.single_threaded,
        **forked,
    )
    batches = joined(iter(loader), share.in_batch, list)
    return slots, ([batch] if isinstance(batch, Part) else batch for batch in batches)


def unpack_parts(parts: list[Part], slots: Slots) -> tuple[list[Photo], list[Any]]:
    """Return the photos of a batch, and the bytes of each; no byte is copied."""
    photos: list[Photo] = []
    files: list[Any] = []
    for part in parts:
        lengths = [photo.length for photo in part.photos]
        whole = part.files
        if whole is None:
            # A byte more: there may be none, and of none no tensor can be made.
            whole = slots.bytes_of(part.slot, max(sum(lengths), 1))
        photos += part.photos
        files += torch.split(whole[: sum(lengths)], lengths)
    return photos, files


LeaveOut = Callable[[Photo, str], None]  # is told of each picture that cannot be decoded, and why
Resample = Callable[[list[Any], Sequence[Sequence[int]]], Any]  # ``resampled``, for the form of the batches


class Maker:
    """Makes one batch at a time, on a stream of its own."""

    def __init__(
        self, device: Any, resample: Resample, slots: Slots, decoder: Decoder, leave_out: LeaveOut
    ) -> None:
        self._device, self._resample, self._slots = device, resample, slots
        self._decoder, self._leave_out = decoder, leave_out
        self._stream = torch.cuda.Stream(device)

    def make(self, parts: list[Part]) -> Batch:
        """Return images and labels that are there, for any stream; what the parts lie in is not needed any longer."""
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            try:
                return self._make(parts)
            finally:
                # Where it fails too: what was begun reads from the parts until then.
                done = torch.cuda.Event(blocking=True)
                done.record()
                done.synchronize()

    def close(self) -> None:
        """Release the decoder."""
        self._decoder.close()

    def _make(self, parts: list[Part]) -> Batch:
        """Return images and labels, from decoded to normalised without leaving the device."""
        photos, files = unpack_parts(parts, self._slots)
        decoded = self._decode(photos, files)
        # Top, left, height and width of what is trained on, and whether it is mirrored.
        crops = [
            (0, 0, 1, 1, 0) if image is None else (*photo.crop, photo.mirrored)
            for photo, image in zip(photos, decoded)
        ]
        # In the place of what cannot be decoded stands black: the batch keeps its size, and the run is in doubt.
        black = torch.zeros((3, 1, 1), dtype=torch.uint8, device=self._device)
        images = [black if image is None else image for image in decoded]
        labels = torch.tensor([photo.label for photo in photos]).pin_memory()
        labels = labels.to(self._device, non_blocking=True)
        return self._resample(images, crops), labels

    def _decode(self, photos: list[Photo], files: list[Any]) -> list[Any]:
        """Return the pictures as bytes (3, height, width) on the device; None for one that cannot be decoded.

        One that nvJPEG refuses makes it refuse the batch, so the batch's files are then tried one by one.
        """
        encoded = [index for index, photo in enumerate(photos) if photo.state == ENCODED]
        by_index: dict[int, Any] = {}
        with contextlib.suppress(ValueError):
            images = self._on_gpu([photos[index] for index in encoded], [files[index] for index in encoded])
            by_index = dict(zip(encoded, images))
        return [
            by_index[index] if index in by_index else self._decode_one(photo, file)
            for index, (photo, file) in enumerate(zip(photos, files))
        ]

    def _on_gpu(self, photos: list[Photo], files: list[Any]) -> list[Any]:
        return self._decoder.decode(files, [(photo.height, photo.width) for photo in photos])

    def _decode_one(self, photo: Photo, file: Any) -> Any | None:
        """Return one picture; Pillow has the last word, as it has in every loader that decodes here."""
        if photo.state == DECODED:
            return self._planes(file.view(photo.height, photo.width, 3))
        try:
            if photo.state == UNREADABLE:
                raise ValueError(photo.why)
            try:
                return self._on_gpu([photo], [file])[0]
            except ValueError as refused:
                pixels = decoding.last_word(file.numpy().tobytes(), refused)
            image = self._planes(torch.from_numpy(pixels.copy()))
            if tuple(image.shape) != photo.shape:
                raise ValueError(f"its header says {photo.width} x {photo.height}, and it is another size")
        except ValueError as error:
            self._leave_out(photo, str(error))
            return None
        return image

    def _planes(self, pixels: Any) -> Any:
        """Return pixels (height, width, 3) of the host as (3, height, width) on the device, as they lie."""
        return pixels.to(self._device, non_blocking=True).permute(2, 0, 1)


READ_AHEAD = 2  # batches that the processes may have read, or be reading, ahead of the decoders
READY = 1  # batches that may wait, made, beside the one that is being made or waits for room among them
# The share of the pictures that each process decodes, which is 180 of 9 000 a second where one of an H200's processors
# decodes 330 of 110 kB by itself; and the most that all of them do. Half is too much there (docs/appendix/gpus.md).
A_PROCESS, MOST_BY_PROCESSES = 0.02, 0.5
# Where there are none, and the feed's own thread reads, as in the look at a known picture: it sees either way then.
USUAL_PROCESSES = 8


def by_processes(workers: int) -> float:
    """Return the share of pictures that so many processes decode beside JPEG engines."""
    return min((workers or USUAL_PROCESSES) * A_PROCESS, MOST_BY_PROCESSES)


def open_nvjpeg(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Start the reading processes and the decoding threads, and return the feed that they fill."""
    require_gpu(settings, device)
    if not decoding.installed("triton"):
        raise RunError(UNSUPPORTED, "the loader nvjpeg needs Triton, which is not installed here")
    try:
        decoder = Decoder(device, settings.loader_workers)
    except OSError as error:
        raise RunError(UNSUPPORTED, f"the loader nvjpeg: {error}") from error
    from ..kernels.resample import resampled

    nhwc = settings.layout == "nhwc"
    resample = partial(resampled, size=settings.image_size, dtype=dtype, nhwc=nhwc)
    return NvjpegFeed(settings, place, device, resample, decoder)


class NvjpegFeed(Feed):
    """A thread that makes batches, and a short queue of them."""

    def __init__(
        self, settings: ImageSettings, place: Place, device: Any, resample: Resample, decoder: Decoder
    ) -> None:
        self._images: ImageList = read_images(settings.data, settings.classes)
        self.epoch_samples = len(self._images.paths)
        share = in_parts(settings.batch_per_device, settings.loader_workers, ahead=READ_AHEAD)
        # Those that are read, those that wait in the queue, and the one that is made or waits for room in it.
        self.ahead, self.produced = share.ahead + READY + 1, SampleCounter()
        # The processes decode, and count nothing: a picture counts when the GPU has it, with the batch that is made.
        self.uncounted = round((share.ahead + 1) * settings.batch_per_device)
        self.workers = share.workers
        self.unreadable: list[str] = []
        # Its processes are started here, by the thread that outlives them.
        by_host = by_processes(share.workers) if decoder.hardware else 0.0
        self.decoder = f"nvjpeg, engines; {by_host:.0%} by the host" if decoder.hardware else "nvjpeg"
        self._slots, batches = read_in_processes(self._images, settings, place, share, by_host)
        self._slots.pin()
        self._maker = Maker(device, resample, self._slots, decoder, self._leave_out)
        self._ready: queue.Queue[Any] = queue.Queue(READY)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._fill, args=(batches,), name="nvjpeg", daemon=True)
        self._thread.start()

    def next(self) -> Batch:
        made = self.timed(self._ready.get)
        if isinstance(made, RunError):
            # Nothing comes after it, however often it is asked for.
            self._ready.put(made)
            raise made
        return hold(made)

    def close(self) -> None:
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
                    # Not raised: its traceback would hold the loader, whose processes end with its last reference.
                    self._ready.put(parts)
                    return
                batch = self._maker.make(parts)
                self.produced.add(len(batch[1]))
                self._ready.put(batch)
        except Exception as error:
            other = RunError(FAILED, f"the loader nvjpeg: {first_sentence(error)}")
            self._ready.put(classify(error, FAILURES) or other)

    def _leave_out(self, photo: Photo, why: str) -> None:
        tell_unreadable(self.unreadable, self._images.paths[photo.image], why)
