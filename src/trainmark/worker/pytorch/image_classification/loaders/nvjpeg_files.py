"""Files on their way to a GPU that decodes them: processes read them into memory that they share with the decoder."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch.utils.data import DataLoader, Dataset

from ....core.outcomes import FAILED, OOM, UNSUPPORTED, RunError
from ....core.place import Place
from ....core.queues import Cut, Parts, joined
from ....tasks.image_classification.decoding import (
    choose_decoder,
    decode_whole,
    decoder_names,
    frame_of,
    is_cut_off,
)
from ....tasks.image_classification.images import (
    Dealer,
    Draw,
    ImageList,
    random_resized_crop,
    randomness,
)
from ....tasks.image_classification.settings import ImageSettings
from .native import as_it_is, start_worker

ROOM = 2**18
"""Bytes of a slot for each image of a part: twice what one of ImageNet has as a file, and about what its crop has."""

NO_MEMORY = 2
"""Of CUDA's errors."""

ENCODED, DECODED, UNREADABLE = 0, 1, 2


class Photo(NamedTuple):
    """One file to be decoded, with ``length`` bytes, and what becomes of the picture in them.

    Where ``state`` is ``DECODED`` the bytes are the pixels (height, width, 3) of what is trained on, where it is
    ``UNREADABLE`` there are none.
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
    mirrored: bool

    @property
    def shape(self) -> Tuple[int, int, int]:
        """Return that of the decoded picture."""
        return 3, self.height, self.width

    @property
    def crop(self) -> Tuple[int, int, int, int]:
        """Return top, left, height and width of what is trained on."""
        return self.top, self.left, self.rows, self.columns


class Part(NamedTuple):
    """Files of a part of a batch: their bytes one after another, in a slot or, where they are too many, in ``files``.

    ``reasons`` tells of images, by their numbers, why they are unreadable.
    """

    photos: List[Photo]
    reasons: Dict[int, str]
    slot: int
    files: Optional[Any]


class Slots:
    """Memory in ``count`` pieces that is there before the processes are forked, so that nothing has to be handed over.

    A tensor that a process of torch's hands over costs its receiver a connection to it and new pages for its memory.
    """

    def __init__(self, count: int, images: int) -> None:
        """Make room for parts of so many images."""
        self.count, self.size, self._pinned = count, images * ROOM, False
        try:
            self._memory = mmap.mmap(-1, count * self.size)
        except OSError as error:
            said = f"the loader nvjpeg: {count * self.size / 2**20:.0f} MiB of the host's memory: {error.strerror}"
            raise RunError(OOM, said) from error

    def pin(self) -> None:
        """Let the GPU read the memory by itself: of other memory the host copies, and waits for each file's turn."""
        memory = self.bytes_of(0, self.count * self.size)
        refused = int(torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), memory.numel(), 0))
        if refused:
            said = f"{memory.numel() / 2**20:.0f} MiB of the host's memory cannot be pinned: CUDA's error {refused}"
            raise RunError(OOM if refused == NO_MEMORY else FAILED, f"the loader nvjpeg: {said}")
        self._pinned = True

    def unpin(self) -> None:
        """Let go of it, before it goes; once nothing is copied from it."""
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
    """What a process does next: read ``draws`` into ``slot``, and decode the first ``by_host`` of them itself."""

    slot: int
    by_host: int
    draws: List[Draw]


class Dealt:
    """Endless tasks, whose slots come in turn; of each batch as many pictures are a process' to decode."""

    def __init__(self, parts: Any, in_batch: int, slots: int, by_host: int) -> None:
        """Take parts of batches, each a list of draws, ``in_batch`` of a batch, of which ``by_host`` are decoded."""
        self._parts, self._in_batch, self._slots, self._by_host = parts, in_batch, slots, by_host

    def __iter__(self) -> Iterator[Task]:
        """Yield the tasks."""
        for number, draws in enumerate(self._parts):
            before = number % self._in_batch
            of_batch = [self._by_host * parts // self._in_batch for parts in (before, before + 1)]
            yield Task(number % self._slots, of_batch[1] - of_batch[0], draws)


class Files(Dataset):
    """Reads files and chooses what of each picture is trained on.

    Decoded here are what a GPU does not read, and as many others as a task says.
    """

    def __init__(self, images: ImageList, seed: int, slots: Slots) -> None:
        """Keep what every loader process needs; raise ``RunError`` (unsupported) if nothing can decode here."""
        decoder = choose_decoder()
        if decoder is None:
            names = ", ".join(decoder_names())
            raise RunError(UNSUPPORTED, f"the loader nvjpeg needs one of these too, for odd JPEGs: {names}")
        self._images, self._seed, self._slots, self._decoder = images, seed, slots, decoder

    def __getitems__(self, task: Task) -> Any:
        """Return a ``Part``, or the ``RunError`` that tells what went wrong."""
        slot, by_host, draws = task
        reasons: Dict[int, str] = {}
        read: List[Tuple[bytes, Photo]] = []
        room = self._slots.size
        try:
            for left, draw in zip(range(len(draws) - 1, -1, -1), draws):
                # Nothing is decoded that would take the room of the files that come after it.
                read.append(self._read(draw, (room, left) if len(read) < by_host else None, reasons))
                room -= len(read[-1][0])
            data = b"".join(data for data, _ in read)
            fits = self._slots.fill(slot, data)
            # A copy that can be written to, as torch wants it.
            files = None if fits else torch.frombuffer(bytearray(data), dtype=torch.uint8)
        except RunError as stopped:
            return stopped
        except MemoryError:
            return RunError(OOM, "a loader process could not allocate memory")
        return Part([photo for _, photo in read], reasons, slot, files)

    def _read(
        self, draw: Draw, here: Optional[Tuple[int, int]], reasons: Dict[int, str]
    ) -> Tuple[bytes, Photo]:
        """Read a file; decode it where nvJPEG does not, or ``here``: in so many bytes with so many files after it."""
        path = self._images.paths[draw.image]
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise RunError(FAILED, f"cannot read {path}: {error.strerror}") from error
        frame = None if is_cut_off(data) else frame_of(data)
        if frame is not None and frame.plain:
            photo = self._photo(draw, ENCODED, len(data), frame.height, frame.width)
            room, left = here or (0, 0)
            if 3 * photo.rows * photo.columns + left * len(data) > room:
                return data, photo
        try:
            pixels = decode_whole(data, self._decoder)
        except ValueError as error:
            reasons[draw.image] = str(error)
            return b"", self._photo(draw, UNREADABLE, 0, 1, 1)
        photo = self._photo(draw, DECODED, 0, *pixels.shape[:2])
        part = pixels[photo.top : photo.top + photo.rows, photo.left : photo.left + photo.columns]
        return part.tobytes(), photo._replace(
            length=part.size, height=photo.rows, width=photo.columns, top=0, left=0
        )

    def _photo(self, draw: Draw, state: int, length: int, height: int, width: int) -> Photo:
        """Return what the draw's own random numbers make of a picture of this size."""
        rng = randomness(self._seed, draw)
        box = random_resized_crop(width, height, rng)
        crop = (box.top, box.left, box.height, box.width)
        label = self._images.labels[draw.image]
        return Photo(draw.image, length, state, label, height, width, *crop, rng.random() < 0.5)


def read_in_processes(
    images: ImageList, settings: ImageSettings, place: Place, share: Parts, by_host: float
) -> Tuple[Slots, Iterator[Any]]:
    """Start the processes; return the slots, and the batches: lists of ``Part``, or a ``RunError``.

    What a batch lies in is written over once the next one is asked for. ``by_host``: the share of pictures that the
    processes decode.
    """
    batch = settings.batch_per_device
    # Of parts that are read or being read, and of the batch that was given out.
    slots = Slots(share.workers * share.tasks + share.in_batch, batch // share.in_batch)
    dealer = Dealer(len(images.paths), batch, place.rank, place.world_size, settings.seed)
    forked = {"prefetch_factor": share.tasks, "multiprocessing_context": "fork"} if share.workers else {}
    loader = DataLoader(
        Files(images, settings.seed, slots),
        batch_sampler=Dealt(Cut(dealer, share.in_batch), share.in_batch, slots.count, round(by_host * batch)),
        num_workers=share.workers,
        collate_fn=as_it_is,
        worker_init_fn=start_worker,
        **forked,
    )
    batches = joined(iter(loader), share.in_batch, list)
    return slots, ([batch] if isinstance(batch, Part) else batch for batch in batches)


def taken_apart(parts: List[Part], slots: Slots) -> Tuple[List[Photo], List[Any], Dict[int, str]]:
    """Return the photos of a batch, the bytes of each, and the reasons of all parts; no byte is copied."""
    photos: List[Photo] = []
    files: List[Any] = []
    reasons: Dict[int, str] = {}
    for part in parts:
        lengths = [photo.length for photo in part.photos]
        whole = part.files
        if whole is None:
            # A byte more: there may be none, and of none no tensor can be made.
            whole = slots.bytes_of(part.slot, max(sum(lengths), 1))
        photos += part.photos
        files += torch.split(whole[: sum(lengths)], lengths)
        reasons.update(part.reasons)
    return photos, files, reasons
