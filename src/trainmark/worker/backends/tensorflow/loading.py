"""The loaders of TensorFlow: tf.data reads text and clicks by numbers, and images from TFRecord shards or folders."""

import contextlib
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ...core.choices import one_of
from ...core.feed import Feed, IndexedReader, LoadedFeed, Loader, Numbered, shard_batches
from ...core.outcomes import FAILED, RunError, first_sentence
from ...core.place import Place
from ...core.queues import AHEAD, Loading
from ...core.settings import Settings
from ...tasks.image_classification.images import read_images
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.recommendation.records import COLUMNS, FLOATS, READERS, Batch, fitting, record_files, used_rows
from . import plain_sentence
from .collectives import Device


def open_numbers(data: Numbered, settings: Settings, place: Place) -> LoadedFeed:
    """Start the pipeline of this rank and return the feed that it fills.

    ``loader_workers`` threads read at most ``AHEAD`` batches ahead; without any a batch is read when it is needed.
    """
    samples, batch_of, ready = data
    counted = IndexedReader(batch_of)
    refusals: list[RunError] = []
    workers = min(settings.loader_workers, AHEAD)

    def numbers() -> Iterator[Any]:
        return shard_batches(samples, settings.batch_per_device, place, settings.seed)

    def read(given: Any) -> tuple[Any, ...]:
        batch = counted(given)
        if isinstance(batch, RunError):
            refusals.append(batch)
            raise batch
        return batch

    kinds = [tf.as_dtype(array.dtype) for array in batch_of(next(numbers()))]
    signature = tf.TensorSpec((settings.batch_per_device,), tf.int64)
    batches = tf.data.Dataset.from_generator(numbers, output_signature=signature).map(
        lambda given: tf.numpy_function(read, [given], kinds), num_parallel_calls=workers or None
    )
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = max(workers, 1)
    batches = batches.with_options(options)
    if 0 < workers < AHEAD:
        # As many as there are threads are made or wait in the map.
        batches = batches.prefetch(AHEAD - workers)

    def taken() -> Iterator[Any]:
        try:
            yield from batches.as_numpy_iterator()
        except tf.errors.OpError:
            if not refusals:
                raise
            yield refusals[0]

    loader = Loader(samples, None, AHEAD if workers else 0, counted.produced, workers)
    return LoadedFeed(taken(), ready, loader)


PREFETCH_BATCHES = 2  # batches that wait to be taken in host memory, the one being put together among them

DECODER = "tf.io.decode_and_crop_jpeg"

WRONG_LABEL = "the label does not fit"


def open_pipeline(source: "Source", settings: ImageSettings, place: Place, device: Device) -> Feed:
    """Start the pipeline of this rank and return the feed that it fills.

    The randomness of an image depends on the seed and on its place in the row of all ranks' images alone: neither
    threads nor their number change anything in it.
    """
    # As many images as a batch has can be made at once.
    workers = min(settings.loader_workers, settings.batch_per_device)
    numbered = _numbered(source, place)
    with tf.device("/CPU:0"):
        made = tf.Variable(0, dtype=tf.int64, trainable=False)

    def make(number: Any, example: Any) -> Any:
        image, label = prepare(source, settings, number, example)
        with tf.control_dependencies([image, label]), tf.control_dependencies([made.assign_add(1)]):
            return tf.identity(image), label

    images = numbered.map(make, num_parallel_calls=workers or None)
    batches = images.batch(settings.batch_per_device, drop_remainder=True)
    options = tf.data.Options()
    # In order, so that ranks can share out one row of images and a failure can be found again.
    options.deterministic = True
    options.autotune.enabled = False
    # Made one of map and batch, the two run batches ahead that no option bounds: 17 of them were measured.
    options.experimental_optimization.map_and_batch_fusion = False
    threads = options.threading.private_threadpool_size = max(workers, 1)
    options.threading.max_intra_op_parallelism = 1
    batches = batches.with_options(options)
    # As many images as there are workers wait between map and batch.
    ahead = workers / settings.batch_per_device
    if workers:
        batches = batches.prefetch(PREFETCH_BATCHES)
        ahead += PREFETCH_BATCHES
    if device.gpu is not None:
        batches = batches.apply(tf.data.experimental.prefetch_to_device(device.path, 1))
        ahead += 1

    def made_batches() -> Iterator[Any]:
        """Yield the batches; turn an error into one that names a file."""
        taken = 0
        try:
            for batch in batches:
                yield batch
                taken += 1
        except tf.errors.ResourceExhaustedError:
            raise
        except tf.errors.OpError as error:
            raise _explained(error, source, settings, place, taken) from error

    feed = PipelineFeed(made_batches(), tuple, Loader(source.images, DECODER, ahead, None, threads))
    feed.made = made
    return feed


class PipelineFeed(LoadedFeed):
    """The batches of a pipeline, in which the variable ``made`` counts the images."""

    made: Any

    def loading(self) -> Loading:
        return Loading(int(self.made.numpy()), self.taken)


def prepare(source: "Source", settings: ImageSettings, number: Any, example: Any) -> Any:
    """Return a training image, bytes (size, size, 3), and its label (int32) from 0."""
    data, label = source.read(*example)
    label = tf.cast(label, tf.int32)
    positive = tf.debugging.assert_non_negative(label, WRONG_LABEL)
    below = tf.debugging.assert_less(label, settings.classes, WRONG_LABEL)
    with tf.control_dependencies([positive, below]):
        label = tf.identity(label)
    image = _cropped(data, (settings.seed, number))
    image = tf.image.resize(image, (settings.image_size, settings.image_size))
    image = tf.image.stateless_random_flip_left_right(image, (settings.seed + 1, number))
    return tf.cast(tf.round(image), tf.uint8), label


def _cropped(data: Any, seed: Any) -> Any:
    """Return a random part of an image: 8 to 100 % of its area, of aspect 3/4 to 4/3.

    TensorFlow's own "Inception" crop: the aspect is uniform (torchvision's in its logarithm), and an image in which
    ten attempts find no such part is taken whole. Of a JPEG only that part is decoded. The few files that are no
    JPEG (ImageNet has a PNG) are decoded whole.
    """

    def box(shape: Any) -> Any:
        begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
            shape,
            tf.zeros((1, 0, 4)),
            seed,
            min_object_covered=0.0,
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        return begin, size

    def jpeg() -> Any:
        begin, size = box(tf.io.extract_jpeg_shape(data))
        window = tf.concat([begin[:2], size[:2]], 0)
        return tf.io.decode_and_crop_jpeg(data, window, channels=3, dct_method="INTEGER_ACCURATE")

    def other() -> Any:
        whole = tf.io.decode_image(data, channels=3, expand_animations=False)
        begin, size = box(tf.shape(whole))
        return tf.slice(whole, begin, size)

    image = tf.cond(tf.io.is_jpeg(data), jpeg, other)
    return tf.ensure_shape(image, (None, None, 3))


def _numbered(source: "Source", place: Place) -> Any:
    """Return (number in the row of all ranks' examples, example)."""
    numbers = tf.data.Dataset.counter(place.rank, place.world_size)
    return tf.data.Dataset.zip((numbers, source.examples(place)))


def _explained(
    failure: BaseException, source: "Source", settings: ImageSettings, place: Place, batch: int
) -> RunError:
    """Return the ``RunError`` that names the example which cannot be used, or the shard that cannot be read to its end.

    tf.data names neither. The same row of examples is made once more, this time not decoded, up to
    the batch that failed; its examples are then prepared one by one.
    """
    size = settings.batch_per_device
    with contextlib.suppress(tf.errors.OpError):
        for number, example in _numbered(source, place).skip(batch * size).take(size):
            try:
                prepare(source, settings, number, example)
            except tf.errors.OpError as error:
                reason = plain_sentence(error)
                if WRONG_LABEL in str(error):
                    reason = f"its label does not fit the network's {settings.classes} classes (--classes)"
                elif isinstance(error, tf.errors.NotFoundError):
                    reason = "it does not exist"
                return RunError(FAILED, f"{source.name(*example)} cannot be used: {reason}")
    for shard in source.shards:
        try:
            tf.data.TFRecordDataset(str(shard)).reduce(0, lambda count, _: count + 1)
        except tf.errors.OpError as broken:
            return RunError(FAILED, f"{shard} cannot be read: {plain_sentence(broken)}")
    return RunError(FAILED, f"the {source.what} loader failed: {plain_sentence(failure)}")


SHARD = re.compile(r"train-\d{5,}-of-(?P<count>\d{5,})")
FIRST_LABEL = 1  # the label of the first class: ImageNet's files keep 0 for "background"
OPEN_SHARDS = 16  # shards that are read in turns

READ_AHEAD_BYTES = 1 << 20
# Records among which the next one is drawn; the order of the shards is drawn for each epoch besides.
SHUFFLED_RECORDS = 4096

INDEX_FOLDER = "idx"  # where ``trainmark data index`` puts DALI's index files: a line a record


def find_records(settings: ImageSettings) -> "RecordSource":
    """Return the training shards in the folder ``settings.data``, or that one file; raise ``RunError`` if unusable."""
    path = Path(settings.data)
    if path.is_file():
        return RecordSource([path], settings)
    if not path.is_dir():
        raise RunError(FAILED, f"the data set {path} does not exist")
    matches = [match for entry in sorted(path.iterdir()) if (match := SHARD.fullmatch(entry.name))]
    if not matches:
        raise RunError(FAILED, f"the data set {path} has no TFRecord shards like train-00000-of-01024 in it")
    requested = int(matches[0]["count"])
    if len(matches) != requested:
        raise RunError(FAILED, f"the data set {path} has {len(matches)} training shards of {requested}")
    return RecordSource([path / match.string for match in matches], settings)


class RecordSource:
    """Shards; an example is the shard's path and a serialized tf.train.Example."""

    what = "TFRecord"

    def __init__(self, shards: list[Path], settings: ImageSettings) -> None:
        """Count the records: of the indexes where there are any, else by going from record to record."""
        self.shards, self._seed, self._reads_ahead = shards, settings.seed, settings.loader_workers > 0
        self.images = sum(_count_records(shard) for shard in shards)
        if not self.images:
            raise RunError(FAILED, f"{shards[0].parent} has no records in its TFRecord shards")

    def examples(self, place: Place) -> Any:
        """Return this rank's part of the records, without end, always in the same order.

        Each epoch deals the shards out anew where their number is a multiple of the ranks'; else every rank reads all
        of them and keeps each so-many-th record.
        """
        by_shards = len(self.shards) % place.world_size == 0
        shards = tf.data.Dataset.from_tensor_slices([str(shard) for shard in self.shards])
        shards = shards.shuffle(len(self.shards), self._seed).repeat()
        turns = min(OPEN_SHARDS, len(self.shards))
        mine = shards.shard(place.world_size, place.rank) if by_shards else shards

        def read_shard(path: Any) -> Any:
            records = tf.data.TFRecordDataset(path, buffer_size=READ_AHEAD_BYTES)
            return records.map(lambda record: (path, record))

        ahead = {"num_parallel_calls": turns, "deterministic": True} if self._reads_ahead else {}
        records = mine.interleave(read_shard, cycle_length=turns, **ahead)
        if not by_shards:
            records = records.shard(place.world_size, place.rank)
        return records.shuffle(min(SHUFFLED_RECORDS, self.images), self._seed)

    def read(self, *example: Any) -> Any:
        """Return an example's encoded image (string), and its label from 0; runs in the graph."""
        _, serialized = example
        features = {
            "image/encoded": tf.io.FixedLenFeature((), tf.string),
            "image/class/label": tf.io.FixedLenFeature((), tf.int64),
        }
        parsed = tf.io.parse_single_example(serialized, features)
        return parsed["image/encoded"], parsed["image/class/label"] - FIRST_LABEL

    def name(self, *example: Any) -> str:
        """Return the shard, and the image's own name if the record has it."""
        shard, serialized = example
        try:
            features = {"image/filename": tf.io.FixedLenFeature((), tf.string, "")}
            own = tf.io.parse_single_example(serialized, features)["image/filename"].numpy().decode()
        except (tf.errors.OpError, UnicodeDecodeError):
            own = ""
        return f"{shard.numpy().decode()}, record of {own}" if own else f"{shard.numpy().decode()}, a record"


def _count_records(shard: Path) -> int:
    """Return the number of records: lines of the shard's index, or lengths that lead from one record to the next.

    A record is a length (8 bytes, little-endian), its CRC (4), the data, and its CRC (4).
    """
    index = shard.parent / INDEX_FOLDER / (shard.name + ".idx")
    try:
        if index.is_file():
            return sum(1 for line in index.read_text(encoding="ascii").splitlines() if line.strip())
        size, offset, count = shard.stat().st_size, 0, 0
        with shard.open("rb", buffering=0) as file:
            while offset < size:
                file.seek(offset)
                head = file.read(8)
                length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
                offset += 12 + length + 4
                if offset > size:
                    reason = "it ends within a record, or a length is damaged"
                    raise RunError(FAILED, f"{shard} cannot be read: {reason}")
                count += 1
        return count
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(FAILED, f"cannot read {shard}: {error}") from error


class FolderSource:
    """The paths and labels of ``settings.data``; an example is a path and its label."""

    what = "image"
    shards: Sequence[Path] = ()

    def __init__(self, settings: ImageSettings) -> None:
        """Find the images; raise ``RunError`` if there are none."""
        self._list, self._seed = read_images(settings.data, settings.classes), settings.seed
        self.images = len(self._list.paths)

    def examples(self, place: Place) -> Any:
        """Return this rank's part of a row in which each image comes once an epoch, in a new order each time."""
        paths, labels = tf.constant(self._list.paths), tf.constant(self._list.labels)
        order = tf.data.Dataset.range(self.images).shuffle(self.images, self._seed).repeat()
        return order.shard(place.world_size, place.rank).map(lambda i: (paths[i], labels[i]))

    def read(self, *example: Any) -> Any:
        """Return an example's encoded image (string), and its label from 0; runs in the graph."""
        path, label = example
        return tf.io.read_file(path), label

    def name(self, *example: Any) -> str:
        """Return the path."""
        return str(example[0].numpy().decode())


Source = RecordSource | FolderSource  # a data set on disk, of ``images`` in an epoch

LOADERS: dict[str, Callable[[ImageSettings], Source]] = {
    "native": find_records,
    "native-folder": FolderSource,
}


def find_source(settings: ImageSettings) -> Source:
    """Return where the images are; raise ``RunError`` if there is no such loader or nothing to read."""
    one_of("TensorFlow", "loader", settings.loader, LOADERS)
    return LOADERS[settings.loader](settings)


SHUFFLED = 1 << 16  # samples among which the next one is drawn

SPECIFICATION = {
    name: tf.io.FixedLenFeature((), tf.float32 if name in FLOATS else tf.int64) for name in COLUMNS
}


class Examples:
    """A folder of TFRecord files; an Example has each column as one value."""

    def __init__(self, source: str, vocabulary: int) -> None:
        """Find the files; raises ``RunError`` where there are none."""
        self._paths, made = record_files(source, "tfrecord")
        self._source, self._vocabulary = Path(source), vocabulary
        self._sizes = fitting(self._source, made.get("column_sizes"), vocabulary)
        samples = made.get("spec", {}).get("samples")
        self.samples = samples or sum(1 for _ in tf.data.TFRecordDataset(list(map(str, self._paths))))

    def batches(self, size: int, place: Place, seed: int) -> Iterator[Batch]:
        """Yield a rank's batches without end; files come in a new order each epoch, samples from a shuffled buffer.

        Raises ``RunError`` for a file that is cut or damaged, and for an Example without a column.
        """
        files = tf.data.Dataset.from_tensor_slices(list(map(str, self._paths)))
        files = files.shuffle(len(self._paths), seed=seed).interleave(tf.data.TFRecordDataset, cycle_length=4)
        records = files.shard(place.world_size, place.rank).shuffle(min(SHUFFLED, self.samples), seed=seed)
        batches = records.repeat().batch(size, drop_remainder=True)
        parsed = batches.map(lambda rows: tf.io.parse_example(rows, SPECIFICATION))
        try:
            for columns in parsed.as_numpy_iterator():
                yield self._batch(columns)
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            missing = re.search(r"Feature: (\w+) .* could not be found", str(error))
            if missing:
                raise RunError(FAILED, f"an Example of {self._source} has no column {missing[1]}") from error
            raise RunError(FAILED, f"{self._source} cannot be read: {first_sentence(error)}") from error

    def _batch(self, columns: Any) -> Batch:
        words = np.empty((len(columns[COLUMNS[0]]), len(COLUMNS)), "<u4")
        for place, name in enumerate(COLUMNS):
            column = columns[name]
            if name in FLOATS:
                words[:, place] = column.view("<u4")
            else:
                # What has no room in a word is the largest number that has: no field has so many categories.
                words[:, place] = np.where((column < 0) | (column >= 2**32), 2**32 - 1, column)
        return used_rows(words, self._source, self._sizes, self._vocabulary)


CLICK_READERS = {**READERS, "tfrecord": Examples}  # what all frameworks read, and TensorFlow's own
