"""The loaders of MXNet: ImageRecordIter on RecordIO files (``native``), Gluon's DataLoader on image folders."""

import os
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.pool import RUN, Pool
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import mxnet as mx
import numpy as np
from mxnet.base import MXNetError
from mxnet.gluon.data import DataLoader
from mxnet.gluon.data.dataloader import _worker_initializer, default_batchify_fn, default_mp_batchify_fn
from mxnet.gluon.data.vision import transforms

from ...core.choices import one_of
from ...core.feed import LoadedFeed, Loader
from ...core.outcomes import FAILED, RunError
from ...core.place import Place
from ...core.queues import in_parts, joined
from ...tasks.image_classification.decoding import is_cut_off
from ...tasks.image_classification.images import DEVIATION, MEAN, Draw, RankImages, crop_of
from ...tasks.image_classification.settings import ImageSettings
from . import last_line


def to_device(settings: ImageSettings, context: Any) -> Callable[[Any], tuple[Any, Any]]:
    """Return what copies images (batch, 3, size, size) and labels to the device; bytes are normalised there.

    On a GPU it happens in the engine.
    """
    mean, deviation = (
        mx.nd.array(values, ctx=context).reshape((1, 3, 1, 1)) * 255 for values in (MEAN, DEVIATION)
    )

    def ready(batch: tuple[Any, Any]) -> tuple[Any, Any]:
        images, labels = (array.as_in_context(context) for array in batch)
        if images.dtype == np.uint8:
            images = (images.astype("float32") - mean) / deviation
        return (images.transpose((0, 2, 3, 1)) if settings.layout == "nhwc" else images), labels

    return ready


MAGIC = 0xCED7230A
SAMPLE = 1000  # records that are checked, evenly spread; of a file with fewer, all
TAIL_BYTES = 4096  # bytes at the end of a picture in which the end marker is searched

_HEAD = struct.Struct("<IIIf")
_PART_HEAD = struct.Struct("<II")
_BEFORE_PICTURE = struct.calcsize("<IIIfQQ")
_LABEL = struct.calcsize("<f")


def check_framing(records: Path, index: Path, classes: int) -> int:
    """Return the number of records; raise ``RunError`` (failed), which names the file, for a damaged one.

    MXNet's reader ends the whole process for an unexpected record, so the file is checked first. A record is the number
    0xced7230a, a word of 3 bits (its part) and 29 bits length, the data, and zeros up to a multiple of 4, all
    little-endian (dmlc-core, include/dmlc/recordio.h). The data start with a flag, a label (float32) and two numbers of
    64 bits; if the flag is not 0, as many labels follow (mxnet/recordio.py). Then comes the picture. The index has a
    line ``number<TAB>offset`` a record.

    The index and the file's length are checked in full, the records in a sample. This finds a file that is cut off, the
    index of another file, and pictures that were cut off before they were packed. A single damaged record is found only
    by ``trainmark data verify``, or by MXNet when it aborts; MXNet fills a JPEG that is cut off with grey.
    """
    try:
        offsets = _read_index(index)
        size = records.stat().st_size
        if not offsets:
            raise RunError(FAILED, f"{index} names no records")
        if offsets[0] != 0 or any(offsets[i] - offsets[i - 1] < _HEAD.size for i in range(1, len(offsets))):
            raise RunError(FAILED, f"{index} is no index of {records.name}: its offsets do not fit")
        if offsets[-1] + _HEAD.size > size:
            raise RunError(FAILED, f"{records} is cut off: {index.name} goes on behind its {size} bytes")
        ends, step = [*offsets[1:], size], max(len(offsets) // SAMPLE, 1)
        with records.open("rb") as file:
            for number in {*range(0, len(offsets), step), len(offsets) - 1}:
                _check_record(file, records, offsets[number], ends[number], classes)
    except OSError as error:
        raise RunError(FAILED, f"cannot read {error.filename}: {error.strerror}") from error
    return len(offsets)


def _read_index(index: Path) -> list[int]:
    offsets = []
    with index.open(encoding="ascii", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if len(words) != 2 or not words[1].isdecimal():
                raise RunError(FAILED, f"{index}, line {number}: expected 'number offset', got {line[:80]!r}")
            offsets.append(int(words[1]))
    return sorted(offsets)


def _check_record(file: BinaryIO, records: Path, begin: int, end: int, classes: int) -> None:
    file.seek(begin)
    head = file.read(_HEAD.size)
    magic, word, flag, label = _HEAD.unpack(head)
    position = end_of_data = begin
    while magic == MAGIC and position < end:
        end_of_data = position + _PART_HEAD.size + (word & 0x1FFFFFFF)
        position = end_of_data + -end_of_data % 4
        if word >> 29 in (0, 3):
            break
        file.seek(position)
        magic, word = _PART_HEAD.unpack(file.read(_PART_HEAD.size).ljust(_PART_HEAD.size))
    if magic != MAGIC:
        raise RunError(FAILED, f"{records} is damaged: no record begins at byte {position}")
    if position > os.fstat(file.fileno()).st_size:
        raise RunError(FAILED, f"{records} is cut off: the record at byte {begin} ends behind it")
    if position != end:
        raise RunError(FAILED, f"{records} is damaged: the record at byte {begin} does not end at byte {end}")
    where = f"{records}: the record at byte {begin}"
    if flag == 0 and not 0 <= label < classes:
        reason = f"{where} has label {label:g}, but the network has {classes} classes (--classes)"
        raise RunError(FAILED, reason)
    # Of the picture only its two ends are read.
    picture = begin + _BEFORE_PICTURE + _LABEL * flag
    file.seek(picture)
    start = file.read(2)
    file.seek(max(picture, end_of_data - TAIL_BYTES))
    if is_cut_off(start + file.read(max(min(TAIL_BYTES, end_of_data - picture), 0))):
        reason = f"{records}: the JPEG in the record at byte {begin} is cut off: it has no end marker"
        raise RunError(FAILED, reason)


# What the pool raises when a loader process ends while it hands a batch over.
BROKEN = (ConnectionError, EOFError, FileNotFoundError)
EXIT_S = 5.0  # the longest wait for the exit of a loader process whose connection broke, in seconds
PREFETCH_BATCHES = 3
AHEAD = PREFETCH_BATCHES + 1  # with the batch that is being made; MXNet has no count of the made ones
RECORDS_DECODER = "opencv (ImageRecordIter)"


def open_records(settings: ImageSettings, place: Place, context: Any) -> LoadedFeed:
    """Open the rank's part of the file: the ranks' parts are fixed, next to each other and of one length.

    Each epoch shuffles a part anew. The last batch of an epoch is filled from the next one, whose images it takes
    away (``round_batch``), so that each image is used once an epoch.
    """
    records, index = find_records(settings.data)
    images = check_framing(records, index, settings.classes)
    if images < place.world_size:
        raise RunError(FAILED, f"{records} has {images} images, fewer than there are ranks")
    threads = max(settings.loader_workers, 1)
    made, options = mx.io.ImageRecordUInt8Iter, {}
    if context.device_type != "gpu":
        made = mx.io.ImageRecordIter
        for colour, mean, deviation in zip("rgb", MEAN, DEVIATION):
            options.update({f"mean_{colour}": mean * 255, f"std_{colour}": deviation * 255})
    try:
        iterator = made(
            path_imgrec=str(records),
            path_imgidx=str(index),
            data_shape=(3, settings.image_size, settings.image_size),
            batch_size=settings.batch_per_device,
            num_parts=place.world_size,
            part_index=place.rank,
            shuffle=True,
            seed=settings.seed,
            # Not ``seed_aug``: it seeds the crops anew for each image, which then gets the same one in most epochs.
            random_resized_crop=True,
            min_random_area=0.08,
            max_random_area=1.0,
            min_aspect_ratio=3 / 4,
            max_aspect_ratio=4 / 3,
            rand_mirror=True,
            round_batch=True,
            preprocess_threads=threads,
            prefetch_buffer=PREFETCH_BATCHES,
            verbose=False,
            **options,
        )
    except MXNetError as error:
        raise _unreadable(records, error) from error

    loader = Loader(images, RECORDS_DECODER, AHEAD, None, threads)
    return LoadedFeed(_batches(iterator, records), to_device(settings, context), loader)


def _batches(iterator: Any, records: Path) -> Iterator[Any]:
    try:
        while True:
            for batch in iterator:
                yield batch.data[0], batch.label[0]
            iterator.reset()
    except MXNetError as error:
        raise _unreadable(records, error) from error


def find_records(source: str) -> tuple[Path, Path]:
    """Return the ``.rec`` file and its ``.idx``: of a folder ``train.rec``; raise ``RunError`` if one is missing."""
    path = Path(source)
    if not path.exists():
        raise RunError(FAILED, f"the data set {source} does not exist")
    records = path / "train.rec" if path.is_dir() else path
    index = records.with_suffix(".idx")
    for file in (records, index):
        if not file.is_file():
            wanted = "the loader 'native' reads RecordIO: train.rec with train.idx"
            raise RunError(FAILED, f"{file} does not exist; {wanted}")
    return records, index


def _unreadable(records: Path, error: MXNetError) -> RunError:
    return RunError(FAILED, f"{records}: a record cannot be read or decoded: {last_line(error)}")


class LoaderPool(Pool):
    """A pool that fails its pending results when a process ends, instead of forking a replacement.

    The results of that process would never come. A replacement is forked by a thread of the pool: before a fork MXNet
    waits for its operators while that thread has the interpreter's lock, which an operator's callback may need. Then
    the training hangs, and no signal but SIGKILL ends it.
    """

    _cache: dict[int, Any]
    _state: str
    _terminate: Any

    def __init__(self, processes: int, **given: Any) -> None:
        """Start ``processes`` loader processes."""
        self._planned = processes
        self._loaders: list[Any] = []
        self._failure: RunError | None = None
        super().__init__(processes, **given)

    def Process(self, context: Any, *words: Any, **given: Any) -> Any:  # type: ignore[override]  # noqa: N802
        """Return a new process at the start; later, as a replacement, end the calling thread of the pool."""
        if len(self._loaders) == self._planned:
            self._fail()
            raise SystemExit
        self._loaders.append(context.Process(*words, **given))
        return self._loaders[-1]

    def apply_async(self, *words: Any, **given: Any) -> Any:
        """Order a batch, or raise the ``RunError`` of a process that has ended."""
        if self._failure is not None:
            raise self._failure
        return super().apply_async(*words, **given)

    def batches(self, fetched: Iterator[Any]) -> Iterator[Any]:
        """Yield what is fetched from the processes; raise the ``RunError`` of one that ended with its batch."""
        try:
            yield from fetched
        except BROKEN:
            if self._failure is None:
                raise
            raise self._failure from None

    def terminate(self) -> None:
        """End the processes; Gluon's loader does so before it raises an error."""
        # The connection of a process that was killed breaks a moment before its exit is known.
        patience = EXIT_S if isinstance(sys.exc_info()[1], BROKEN) else 0.0
        if self._state == RUN and wait([loader.sentinel for loader in self._loaders], patience):
            self._fail()
        if self._failure is None:
            super().terminate()
            return
        # An ended process may hold the lock of the queue of orders, for which Pool.terminate would wait.
        self._terminate.cancel()
        for loader in self._loaders:
            loader.kill()

    def _fail(self) -> None:
        ended = wait([loader.sentinel for loader in self._loaders], 0.0)
        for loader in self._loaders:
            if loader.sentinel in ended:
                loader.join(EXIT_S)
        codes = [loader.exitcode for loader in self._loaders if loader.exitcode is not None]
        code = codes[0] if codes else 0
        reason = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._failure = RunError(FAILED, f"a loader process ended: {reason}")
        for result in list(self._cache.values()):
            result._set(0, (False, self._failure))


class Images(RankImages):
    """Makes one image of a draw, in a loader process."""

    decoder_name = "opencv (mx.image)"

    def __init__(self, settings: ImageSettings, place: Place) -> None:
        super().__init__(settings, place)
        self._normalise = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)])

    def __getitem__(self, draw: Draw) -> Any:
        """Return an image (3, size, size) and its label, or the ``RunError`` that tells what went wrong."""
        path = self.images.paths[draw.image]
        try:
            data = Path(path).read_bytes()
            # OpenCV fills a truncated image up with grey.
            if is_cut_off(data):
                return RunError(FAILED, f"{path} cannot be decoded: it has no end-of-image marker")
            image = mx.image.imdecode(data)
            height, width, _ = image.shape
            box, mirrored = crop_of(self._seed, draw, width, height)
            image = mx.image.fixed_crop(image, *box, (self.size, self.size))
            if mirrored:
                image = image.flip(axis=1)
            pixels = self._normalise(image)
            pixels.wait_to_read()
        except (OSError, MXNetError) as error:
            return RunError(FAILED, f"{path} cannot be read or decoded: {last_line(error)}")
        self.produced.add(1, [crc32(path.encode())])
        return pixels, np.float32(self.images.labels[draw.image])


def open_folder(settings: ImageSettings, place: Place, context: Any) -> LoadedFeed:
    """Start the loader processes of this rank; images and crops depend on the seed alone."""
    data, share = Images(settings, place), in_parts(settings.batch_per_device, settings.loader_workers)
    loader = DataLoader(
        data,
        batch_sampler=data.parts(share.in_batch),
        batchify_fn=partial(_stack, stack=default_mp_batchify_fn) if share.workers else _stack,
        prefetch=share.workers * share.tasks,
    )
    if share.workers:
        given = (data, mx.util.is_np_shape(), mx.util.is_np_array())
        pool = LoaderPool(share.workers, initializer=_worker_initializer, initargs=given)
        loader._num_workers, loader._worker_pool = share.workers, pool
        fetched = pool.batches(iter(loader))
    else:
        fetched = iter(loader)
    ready = to_device(settings, context)
    return LoadedFeed(joined(fetched, share.in_batch, _join), ready, data.loader(share))


def _join(parts: list[Any]) -> Any:
    pixels, labels = zip(*parts)
    return mx.nd.concat(*pixels, dim=0), mx.nd.concat(*labels, dim=0)


def _stack(samples: list[Any], stack: Callable[[list[Any]], Any] = default_batchify_fn) -> Any:
    stopped = next((sample for sample in samples if isinstance(sample, RunError)), None)
    return stack(samples) if stopped is None else stopped


LOADERS: dict[str, Callable[[ImageSettings, Place, Any], LoadedFeed]] = {
    "native": open_records,
    "native-folder": open_folder,
}


def open_images(settings: ImageSettings, place: Place, context: Any) -> LoadedFeed:
    """Return the feed of the requested loader; its first images are already being read."""
    one_of("MXNet", "loader", settings.loader, LOADERS)
    return LOADERS[settings.loader](settings, place, context)
