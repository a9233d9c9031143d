"""``native``: MindSpore's data engine reads, decodes, crops, flips and normalises images in threads of its own."""

import os
from collections import deque
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from zlib import crc32

import mindspore.dataset as ds
import numpy as np
from mindspore.dataset import vision
from mindspore.dataset.vision import Inter

from ...core.choices import one_of
from ...core.feed import LoadedFeed, Loader
from ...core.outcomes import FAILED, RunError
from ...core.place import Place
from ...tasks.image_classification.decoding import is_cut_off
from ...tasks.image_classification.images import DEVIATION, MEAN, RankImages
from ...tasks.image_classification.settings import ImageSettings

PREFETCH = 1  # rows (images, and after the batching whole batches) that each queue of the pipeline stores
# Images between the file and a batch, in the short queues of the threads that read and decode (measured).
UNCOUNTED = 24

STORED_PATHS = 100_000


class Files:
    """The source of the pipeline: the bytes of each image of a rank and its label."""

    def __init__(self, own: RankImages) -> None:
        self._own = own
        self.read: deque[str] = deque(maxlen=STORED_PATHS)
        self.stopped: RunError | None = None

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Yield images without end; store the error, since the pipeline passes on nothing but a text."""
        for draws in self._own.dealer:
            for draw in draws:
                path = self._own.images.paths[draw.image]
                self.read.append(path)
                try:
                    data = _read(path)
                except RunError as stopped:
                    self.stopped = stopped
                    raise
                self._own.produced.add(0, [crc32(path.encode())])
                yield data, np.int32(self._own.images.labels[draw.image])


def open_images(settings: ImageSettings, place: Place) -> LoadedFeed:
    """Start the pipeline of this rank and return its feed; raise ``RunError`` if MindSpore has no such loader.

    One thread of Python reads files, ``loader_workers`` of the engine's do the rest.
    """
    one_of("MindSpore", "loader", settings.loader, ("native",))
    own, batch = RankImages(settings, place), settings.batch_per_device
    files = Files(own)
    # As many images as a batch has can be made at once, and the engine takes no more threads than there are cores.
    workers = max(1, min(settings.loader_workers, batch, os.cpu_count() or 1))
    ds.config.set_seed(settings.seed + place.rank)
    ds.config.set_prefetch_size(PREFETCH)
    pipeline = ds.GeneratorDataset(files, ["image", "label"], shuffle=False)
    operations = [
        vision.RandomCropDecodeResize(
            settings.image_size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), interpolation=Inter.LINEAR
        ),
        vision.RandomHorizontalFlip(0.5),
        vision.Normalize([255 * mean for mean in MEAN], [255 * deviation for deviation in DEVIATION]),
        vision.HWC2CHW(),
    ]
    pipeline = pipeline.map(operations, input_columns=["image"], num_parallel_workers=workers)

    def count(labels: Any, _info: Any) -> tuple[Any]:
        """Count the images of a batch; its labels stay as they are."""
        own.produced.add(len(labels))
        return (labels,)

    counting = {"per_batch_map": count, "input_columns": ["label"]}
    pipeline = pipeline.batch(batch, drop_remainder=True, num_parallel_workers=1, **counting)
    iterator = pipeline.create_tuple_iterator(num_epochs=1, do_copy=False)

    def batches() -> Iterator[Any]:
        """Yield the pipeline's; raise ``RunError``, naming the file, for an image that cannot be used."""
        try:
            yield from iterator
        except RuntimeError as error:
            raise files.stopped or _undecodable(files.read) or error from error

    # With the shortest queues that it offers (measured).
    loader = Loader(len(own), "mindspore.dataset", 5, own.produced, workers, UNCOUNTED)
    made = batches()
    # With the first batch its threads start, so that they are known before those that compute are bound.
    return LoadedFeed(chain([next(made)], made), tuple, loader, iterator.stop)


def _read(path: str) -> Any:
    """Return a file's bytes; a JPEG without its end marker would be decoded with its rest in grey."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise RunError(FAILED, f"cannot read {path}: {error.strerror}") from error
    if is_cut_off(data):
        raise RunError(FAILED, f"{path} cannot be decoded: it has no end-of-image marker")
    return np.frombuffer(data, np.uint8)


def _undecodable(paths: deque[str]) -> RunError | None:
    """Return the error of the first file that cannot be decoded: the pipeline's own names no file."""
    decode = vision.Decode()
    for path in dict.fromkeys(paths):
        try:
            decode(np.fromfile(path, np.uint8))
        except (RuntimeError, ValueError, TypeError):
            return RunError(FAILED, f"{path} cannot be decoded: it is no image that MindSpore can read")
    return None
