"""``native-folder``: an image folder, or a file of ``path label`` lines."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ....core.outcomes import FAILED, RunError
from ....core.place import Place
from ....tasks.image_classification.images import ImageList, read_images
from ....tasks.image_classification.settings import ImageSettings
from ...failures import plain_sentence
from .pipeline import Source


def find_folder(settings: ImageSettings) -> Source:
    """Return the images of ``settings.data``; raise ``RunError`` if there are none."""
    return FolderSource(read_images(settings.data, settings.classes), settings.seed)


class FolderSource(Source):
    """Paths and labels; an example is a path and its label."""

    def __init__(self, images: ImageList, seed: int) -> None:
        """Take the list."""
        self.images = len(images.paths)
        self._list = images
        self._seed = seed

    def examples(self, place: Place) -> Any:
        """Return this rank's part of a row in which each image comes once an epoch, in a new order each time."""
        paths, labels = tf.constant(self._list.paths), tf.constant(self._list.labels)
        order = tf.data.Dataset.range(self.images).shuffle(self.images, self._seed).repeat()
        return order.shard(place.world_size, place.rank).map(lambda i: (paths[i], labels[i]))

    def read(self, *example: Any) -> Any:
        """Return the file's bytes, and the label."""
        path, label = example
        return tf.io.read_file(path), label

    def name(self, *example: Any) -> str:
        """Return the path."""
        return str(example[0].numpy().decode())

    def explain(self, error: BaseException) -> RunError:
        """Return the failure; the list of files itself cannot fail."""
        return RunError(FAILED, f"the image loader failed: {plain_sentence(error)}")
