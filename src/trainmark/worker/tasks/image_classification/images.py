"""Real images without a framework: their list, the order of each rank, the crops, and their normalisation."""

import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.feed import Epochs, Loader, shard_positions
from ...core.outcomes import FAILED, RunError
from ...core.place import Place
from ...core.queues import Cut, Parts, SampleCounter
from .settings import ImageSettings

# Mean and standard deviation of ImageNet's red, green and blue, for values from 0 to 1.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

SUFFIXES = (".jpg", ".jpeg")


class ImageList(NamedTuple):
    """The images of a data set: paths, and the label of each from 0."""

    paths: list[str]
    labels: list[int]


class Draw(NamedTuple):
    """One use of one image."""

    epoch: int
    image: int


class Box(NamedTuple):
    """A part of an image, in pixels."""

    left: int
    top: int
    width: int
    height: int


def read_images(source: str, classes: int) -> ImageList:
    """Return the images of ``source``: a folder with a folder for each class, or a file of ``path label`` lines.

    Classes of folders are numbered in the order of their names, without the hidden ones. Paths in a list file are
    relative to its folder.
    Raises ``RunError`` (failed) if there is nothing to read or a label does not fit ``classes``.
    """
    path, images = Path(source), ImageList([], [])
    if path.is_dir():
        _add_folders(path, images)
    elif path.is_file():
        _add_listed(path, images)
    else:
        raise RunError(FAILED, f"the data set {source} does not exist")
    if not images.paths:
        raise RunError(FAILED, f"the data set {source} has no JPEG images in it")
    highest = max(images.labels)
    if highest >= classes:
        name = images.paths[images.labels.index(highest)]
        reason = f"{name} has label {highest}, but the network has {classes} classes (--classes)"
        raise RunError(FAILED, reason)
    return images


def _add_folders(root: Path, images: ImageList) -> None:
    folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    for label, folder in enumerate(folders):
        with os.scandir(folder) as entries:
            names = sorted(entry.path for entry in entries if entry.name.lower().endswith(SUFFIXES))
        images.paths.extend(names)
        images.labels.extend([label] * len(names))


def _add_listed(file: Path, images: ImageList) -> None:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(FAILED, f"cannot read the image list {file}: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, _, label = line.strip().rpartition(" ")
        if not name or not label.isdecimal():
            raise RunError(FAILED, f"{file}, line {number}: expected 'path label', got {line[:80]!r}")
        images.paths.append(str(file.parent / name.strip()))
        images.labels.append(int(label))


class ImageSampler(Epochs):
    """Deals batches of draws to one rank, without end.

    Step k of all ranks together uses the images k * global batch and following of the endless row of epochs, and each
    rank the part that its number gives it: no two ranks share a draw, none is left out, and an image comes again only
    in the next epoch.
    """

    def __init__(self, images: int, batch: int, rank: int, world_size: int, seed: int) -> None:
        super().__init__(images, seed)
        self._share = batch, rank, world_size

    def order(self, epoch: int) -> Any:
        order = list(range(self._samples))
        random.Random(f"{self._seed}/{epoch}").shuffle(order)  # noqa: S311 (no secret)
        return np.array(order)

    def __iter__(self) -> Iterator[list[Draw]]:
        """Yield one list of draws a step."""
        for row in shard_positions(*self._share):
            numbers = self.numbers(row).tolist()
            yield [Draw(position // self._samples, number) for position, number in zip(row, numbers)]


class RankImages:
    """The images of a run, and the draws of one rank; ``produced`` counts those that its loader has made.

    ``dealer`` has the rank's batches, each a list of draws, without end. It can be pickled.
    """

    decoder_name: str

    def __init__(self, settings: ImageSettings, place: Place) -> None:
        """Find the images; raise ``RunError`` (failed) if there are none."""
        self.images = read_images(settings.data, settings.classes)
        self.size, self._seed = settings.image_size, settings.seed
        ranks = place.rank, place.world_size
        self.dealer = ImageSampler(len(self), settings.batch_per_device, *ranks, settings.seed)
        self.produced = SampleCounter()

    def __len__(self) -> int:
        """Return the images of an epoch."""
        return len(self.images.paths)

    def parts(self, count: int) -> Cut:
        """Return the draws of this rank in parts, ``count`` a batch."""
        return Cut(self.dealer, count)

    def loader(self, share: Parts) -> Loader:
        """Return the facts of a loader whose processes ``share`` the batches."""
        return Loader(len(self), self.decoder_name, share.ahead, self.produced, share.workers)


def randomness(seed: int, draw: Draw) -> random.Random:
    """Return the random numbers of one draw: the same for any number of loader processes."""
    return random.Random(f"{seed}/{draw.epoch}/{draw.image}")  # noqa: S311 (no secret)


def crop_of(seed: int, draw: Draw, width: int, height: int) -> tuple[Box, bool]:
    """Return the part of an image of this size that a draw trains on, and whether it is mirrored."""
    rng = randomness(seed, draw)
    return random_resized_crop(width, height, rng), rng.random() < 0.5


def random_resized_crop(width: int, height: int, rng: random.Random) -> Box:
    """Return the part of an image to train on: 8 to 100 % of its area, of aspect 3/4 to 4/3.

    The "Inception" crop (Szegedy et al., https://arxiv.org/abs/1409.4842), as torchvision's RandomResizedCrop draws
    it: ten attempts, the aspect uniform in its logarithm; then the largest part in the middle that has an aspect
    allowed.
    """
    least, most = 3 / 4, 4 / 3
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1.0)
        aspect = math.exp(rng.uniform(math.log(least), math.log(most)))
        crop_width, crop_height = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            left, top = rng.randint(0, width - crop_width), rng.randint(0, height - crop_height)
            return Box(left, top, crop_width, crop_height)
    crop_width = min(width, max(1, round(height * most)))
    crop_height = min(height, max(1, round(width / least)))
    return Box((width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height)
