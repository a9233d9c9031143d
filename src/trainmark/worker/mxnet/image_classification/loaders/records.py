"""``native``: MXNet's ImageRecordIter on a RecordIO file; C++ threads read, decode, crop and mirror.

They normalise too for a CPU. For a GPU they leave bytes (``ImageRecordUInt8Iter``), a quarter of what there is to copy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, Tuple

import mxnet as mx
from mxnet.base import MXNetError

from ....core.feed import LoadedFeed
from ....core.outcomes import FAILED, RunError
from ....core.place import Place
from ....tasks.image_classification.normalisation import DEVIATION, MEAN
from ....tasks.image_classification.settings import ImageSettings
from ...failures import last_line
from ..feed import Batch, ToDevice
from .framing import check_framing

PREFETCH_BATCHES = 3
AHEAD = PREFETCH_BATCHES + 1
"""With the batch that is being made. MXNet does not say how many it has made."""
DECODER = "opencv (ImageRecordIter)"


def open_records(settings: ImageSettings, place: Place, ready: ToDevice) -> LoadedFeed:
    """Open the rank's part of the file: the ranks' parts are fixed, next to each other and of one length.

    Each epoch shuffles a part anew. The last batch of an epoch is filled from the next one, whose images it takes
    away (``round_batch``), so that each image is used once an epoch.
    """
    records, index = find_records(settings.data)
    images = check_framing(records, index, settings.classes)
    if images < place.world_size:
        raise RunError(FAILED, f"{records} has {images} images, fewer than there are ranks")
    threads = max(settings.loader_workers, 1)
    made = mx.io.ImageRecordUInt8Iter
    options: Dict[str, float] = {}
    if not ready.on_gpu:
        made = mx.io.ImageRecordIter
        options = {f"mean_{colour}": value * 255 for colour, value in zip("rgb", MEAN)}
        options.update({f"std_{colour}": value * 255 for colour, value in zip("rgb", DEVIATION)})
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

    feed = LoadedFeed(_batches(iterator, records), ready.loaded, images, DECODER, AHEAD)
    feed.workers = threads
    return feed


def _batches(iterator: Any, records: Path) -> Iterator[Batch]:
    while True:
        try:
            try:
                batch = iterator.next()
            except StopIteration:
                iterator.reset()
                batch = iterator.next()
        except MXNetError as error:
            raise _unreadable(records, error) from error
        yield batch.data[0], batch.label[0]


def find_records(source: str) -> Tuple[Path, Path]:
    """Return the ``.rec`` file and its ``.idx``: of a folder ``train.rec``; raise ``RunError`` if one is missing."""
    path = Path(source)
    if not path.exists():
        raise RunError(FAILED, f"the data set {source} does not exist")
    records = path / "train.rec" if path.is_dir() else path
    index = records.with_suffix(".idx")
    for file in (records, index):
        if not file.is_file():
            raise RunError(
                FAILED, f"{file} does not exist; the loader 'native' reads RecordIO: train.rec with train.idx"
            )
    return records, index


def _unreadable(records: Path, error: MXNetError) -> RunError:
    return RunError(FAILED, f"{records}: a record cannot be read or decoded: {last_line(error)}")
