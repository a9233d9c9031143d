"""From examples to batches with tf.data: decode, crop, scale and mirror in parallel, a few batches ahead."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional

import tensorflow as tf

from ....core.feed import Feed, LoadedFeed
from ....core.outcomes import FAILED, RunError
from ....core.place import Place
from ....core.queues import Loading
from ....tasks.image_classification.settings import ImageSettings
from ...device import Device
from ...failures import plain_sentence
from ..feed import Batch

PREFETCH_BATCHES = 2
"""Batches that wait to be taken in host memory, the one being put together among them."""

DECODER = "tf.io.decode_and_crop_jpeg"

WRONG_LABEL = "the label does not fit"


class Source:
    """A data set on disk, in some form."""

    images: int
    """Images in an epoch."""

    def examples(self, place: Place) -> Any:
        """Return a new tf.data.Dataset of this rank's examples (anything), without end, always in the same order."""
        raise NotImplementedError

    def read(self, *example: Any) -> Any:
        """Return an example's encoded image (string), and its label from 0; runs in the graph."""
        raise NotImplementedError

    def name(self, *example: Any) -> str:
        """Return what a person calls an example."""
        raise NotImplementedError

    def explain(self, error: BaseException) -> RunError:
        """Return the ``RunError`` for examples that cannot be had at all."""
        raise NotImplementedError


def open_loader(source: Source, settings: ImageSettings, place: Place, device: Device) -> Feed:
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

    batches = numbered.map(make, num_parallel_calls=workers or None).batch(
        settings.batch_per_device, drop_remainder=True
    )
    options = tf.data.Options()
    # In order, so that ranks can share out one row of images and a failure can be found again.
    options.deterministic = True
    options.autotune.enabled = False
    # Made one of map and batch, the two run batches ahead that no option bounds: 17 of them were seen.
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

    def explain(error: BaseException, batch: int) -> RunError:
        return _culprit(source, settings, place, batch) or source.explain(error)

    return PipelineFeed(_explained(batches, explain), source.images, threads, made, ahead)


class PipelineFeed(LoadedFeed):
    """The batches of a pipeline, in which a variable counts the images."""

    def __init__(self, batches: Iterator[Batch], images: int, threads: int, made: Any, ahead: float) -> None:
        """Take over the batches."""
        super().__init__(batches, _as_it_is, images, DECODER, ahead)
        self.workers, self._made = threads, made

    def loading(self) -> Loading:
        """Return what the pipeline has made so far, and what was taken."""
        return Loading(int(self._made.numpy()), self.taken)


def _explained(batches: Any, explain: Callable[[BaseException, int], RunError]) -> Iterator[Batch]:
    """Yield the batches; ``explain`` turns an error at the n-th of them (from 0) into one that names a file."""
    taken = 0
    try:
        for batch in batches:
            yield batch
            taken += 1
    except tf.errors.ResourceExhaustedError:
        raise
    except tf.errors.OpError as error:
        raise explain(error, taken) from error


def _as_it_is(batch: Batch) -> Batch:
    return batch


def prepare(source: Source, settings: ImageSettings, number: Any, example: Any) -> Any:
    """Return a training image, bytes (size, size, 3), and its label (int32) from 0."""
    data, label = source.read(*example)
    label = tf.cast(label, tf.int32)
    fits = [
        tf.debugging.assert_non_negative(label, WRONG_LABEL),
        tf.debugging.assert_less(label, settings.classes, WRONG_LABEL),
    ]
    with tf.control_dependencies(fits):
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


def _numbered(source: Source, place: Place) -> Any:
    """Return (number in the row of all ranks' examples, example)."""
    numbers = tf.data.Dataset.counter(place.rank, place.world_size)
    return tf.data.Dataset.zip((numbers, source.examples(place)))


def _culprit(source: Source, settings: ImageSettings, place: Place, batch: int) -> Optional[RunError]:
    """Return the ``RunError`` that names the example which cannot be used, or None if it is not an example's fault.

    tf.data does not say which one it was. The same row of examples is made once more, this time not decoded, up to
    the batch that failed; its examples are then prepared one by one.
    """
    size = settings.batch_per_device
    try:
        for number, example in _numbered(source, place).skip(batch * size).take(size):
            try:
                prepare(source, settings, number, example)
            except tf.errors.OpError as error:
                return RunError(FAILED, f"{source.name(*example)} cannot be used: {_reason(error, settings)}")
    except tf.errors.OpError:
        return None
    return None


def _reason(error: BaseException, settings: ImageSettings) -> str:
    if WRONG_LABEL in str(error):
        return f"its label does not fit the network's {settings.classes} classes (--classes)"
    if isinstance(error, tf.errors.NotFoundError):
        return "it does not exist"
    return plain_sentence(error)
