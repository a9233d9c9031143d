"""The base of every framework's training of an image network."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.facts import type_name
from ...core.feed import Feed
from ...core.folders import import_backend
from ...core.place import Place
from ...core.task import Verified
from ...core.training import Training
from . import TASK, known_picture
from .known_picture import LEAST_BATCHES, LEAST_PICTURES, Part
from .settings import ImageSettings


class ImageTraining(Training):
    """One rank that trains an image network.

    Its batch is made of images (batch, 3, size, size) in float32 and labels (batch,) in int64. ``observed_config``
    returns the ``ObservedConfig`` of ``observing.py``. Names and shapes of weights
    are those of ``Architecture.shapes``.
    """

    task = TASK
    settings: ImageSettings

    # Type and shape of the first output of the second convolution, whose input has been through the stem.
    second: tuple[str, tuple[int, ...]] | None = None

    forms: Mapping[str, str] = {}  # the form of a loader's data set, where it is no folder of images
    destination: tuple[Any, ...] = ()  # what ``open_images`` takes besides: where its batches go

    def open_loader(self, settings: Any, place: Place) -> Feed | None:
        loading = import_backend(settings.framework, "loading")
        feed: Feed = loading.open_images(settings, place, *self.destination)
        return feed

    def note_second(self, _layer: Any, _inputs: Any, output: Any) -> None:
        """Note ``second``: a forward hook of the second convolution."""
        self.second = self.second or (type_name(output.dtype), tuple(output.shape))

    def network_input(self, _batch: Any) -> Any:
        """Return what the network gets of the images of a batch: numpy, (batch, 3, size, size), normalised."""
        raise NotImplementedError

    def loader_path(self) -> Verified | None:
        """Read the known picture by the run's own loader, in this process, and verify what the network would get."""
        own = self.settings
        if own.synthetic:
            return None
        with tempfile.TemporaryDirectory(prefix="known-picture-") as folder:
            form = self.forms.get(own.loader, known_picture.FOLDER)
            count = max(LEAST_PICTURES, 2 * own.batch_per_device)
            source = known_picture.write_known(form, Path(folder), count, own.classes)
            feed = self.open_loader(replace(own, data=str(source), loader_workers=0), self.ranks.place)
            if feed is None:
                return None
            batches: list[list[Part]] = []
            sizes: list[tuple[int, ...]] = []
            labels: list[float] = []
            try:
                for _ in range(max(LEAST_BATCHES, -(-LEAST_PICTURES // own.batch_per_device))):
                    batch = feed.next()
                    images = self.network_input(batch)
                    labels += self._labels_in(batch)
                    sizes.append(tuple(images.shape[2:]))
                    batches.append([known_picture.part_of(image) for image in images])
            finally:
                feed.close()
        found = known_picture.check_crops(batches, sizes, own.image_size)
        found.add(known_picture.check_labels([part for batch in batches for part in batch], labels))
        return found

    def _labels_in(self, batch: Any) -> list[float]:
        """Return the labels of a batch that is not trained on."""
        own, self.batch = self.batch, batch
        try:
            _, labels = self.read_batch()  # type: ignore[misc]  # images and labels
        finally:
            self.batch = own
        return [float(label) for label in labels.reshape(-1)]
