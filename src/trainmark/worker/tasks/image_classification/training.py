"""The base of every framework's training of an image network, and the verification of its loader.

The colours of the known picture tell where in it one is. So the part that a loader took, and whether it mirrored it, is
solved from what came out; all of that part, rendered anew from the picture's formula, is then compared with it. That
works for every loader, whatever random numbers it draws.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ...core.feed import Feed
from ...core.task import Verified
from ...core.training import Training
from . import TASK
from .known_picture import ACROSS, ALONG, BLUE, DETAIL, FOLDER, HEIGHT, LOW, RISE, WIDTH, write_known
from .settings import ImageSettings

# Said here again: a reference that asks where the loaders ask would agree with what is wrong there.
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)

PICTURES, BATCHES = 32, 2
"""At least so many are looked at: that as many random crops look like no random ones has a chance below 1e-8."""

OFF_LEVELS = 5.0
"""How far (of 255 levels, root of the mean square) what came out may be from what it should be: JPEG's loss is 1.1."""

MOST = 0.75
"""Of the pictures are so near: a loader may have two ways, of which each makes a quarter of them at least."""

AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
"""Of the crops that are asked for; a few pixels wide, they are rounded by some percent."""

ROUNDING, OUTSIDE = 0.15, 0.1
"""By what share of its bound a crop may be over it, and which share of the crops may be over it by more."""


LEAST_PERIOD = 4.0
"""Stripes are looked at whose period in the image is at least so many pixels: no scaling may have lost them."""

LEAST_DETAIL, FEWEST = 0.5, 3
"""The share of the stripes that must be left, in the median of the pictures that show it, and their least number."""


class Part(NamedTuple):
    """The part of the known picture in one image, in shares of its sides, and how far the image is off, in levels.

    ``detail`` is the share of the stripes that is left of those that must not be lost; None if the scale loses all.
    """

    left: float
    top: float
    width: float
    height: float
    mirrored: bool
    off: float
    detail: float | None = None
    turned_over: bool = False
    """Whether it is of the second picture, whose top and bottom are exchanged."""

    @property
    def area(self) -> float:
        """Return its share of the picture's area."""
        return self.width * self.height

    @property
    def aspect(self) -> float:
        """Return its width over its height, in pixels."""
        return self.width * WIDTH / (self.height * HEIGHT) if self.height else 0.0

    @property
    def allowed(self) -> bool:
        """Return whether it is of an area and an aspect that are asked for, and inside of the picture."""
        more, less = 1 + ROUNDING, 1 - ROUNDING
        return (
            AREA[0] * less <= self.area <= AREA[1] * more
            and ASPECT[0] * less <= self.aspect <= ASPECT[1] * more
            and min(self.left, self.top) >= -0.05
            and max(self.left + self.width, self.top + self.height) <= 1.05
        )


def part_of(image: Any) -> Part:
    """Return the part in a normalised image (3, height, width)."""
    import numpy as np

    mean, deviation = (np.array(values).reshape(3, 1, 1) for values in (MEAN, DEVIATION))
    levels = (np.asarray(image, np.float64) * deviation + mean) * 255
    _, height, width = levels.shape
    # What is scaled up repeats the pixels at its border.
    down, right = max(height // 16, 1), max(width // 16, 1)
    inner = levels[:, down : height - down, right : width - right]
    across, along = ((np.arange(size) + 0.5) / size for size in (width, height))
    across, along = across[right : width - right], along[down : height - down]
    rise_across, red = np.polyfit(across, inner[0].mean(0), 1)
    rise_along, green = np.polyfit(along, inner[1].mean(1), 1)
    levels_across, levels_along = red + rise_across * across, green + rise_along * along
    upright, left_across = _stripes(inner[2].mean(0) - BLUE, (levels_across - LOW) / RISE * WIDTH / ACROSS)
    level, left_along = _stripes(inner[2].mean(1) - BLUE, (levels_along - LOW) / RISE * HEIGHT / ALONG)
    expected = np.stack(
        np.broadcast_arrays(
            levels_across[None, :],
            levels_along[:, None],
            BLUE + upright[None, :] + level[:, None],
        )
    )
    details = [share for share in (left_across, left_along) if share is not None]
    return Part(
        left=float((red + min(rise_across, 0) - LOW) / RISE),
        top=float((green + min(rise_along, 0) - LOW) / RISE),
        width=float(abs(rise_across) / RISE),
        height=float(abs(rise_along) / RISE),
        mirrored=bool(rise_across < 0),
        off=float(np.sqrt(np.mean((inner - expected) ** 2))),
        detail=min(details, default=None),
        turned_over=bool(rise_along < 0),
    )


def _stripes(profile: Any, periods: Any) -> tuple[Any, float | None]:
    """Return the stripes in a row of levels, and the share of them that is left; ``periods`` is where in them each is.

    None if a period is of too few pixels, or if there are too few periods to tell.
    """
    import numpy as np

    angles = 2 * np.pi * periods
    waves = np.stack([np.cos(angles), np.sin(angles), np.ones_like(angles)], axis=1)
    factors, *_ = np.linalg.lstsq(waves, profile, rcond=None)
    count = abs(float(periods[-1] - periods[0]))
    shown = count >= 2 and len(periods) >= LEAST_PERIOD * count
    return waves @ factors, float(np.hypot(*factors[:2]) / DETAIL) if shown else None


def check_crops(batches: Sequence[Sequence[Part]], sizes: Sequence[tuple[int, ...]], side: int) -> Verified:
    """Check the parts of the known picture in some batches of images of ``sizes`` (height, width)."""
    import numpy as np

    parts = [part for batch in batches for part in batch]
    off = float(np.quantile([part.off for part in parts], MOST))
    boxes = [{tuple(round(value, 2) for value in part[:4]) for part in batch} for batch in batches]
    different = sum(map(len, boxes))
    mirrored = sum(part.mirrored for part in parts)
    details = [part.detail for part in parts if part.detail is not None]
    detail = float(np.median(details)) if len(details) >= FEWEST else None
    areas = [min(part.area for part in parts), max(part.area for part in parts)]
    found = Verified(
        {
            "pictures": len(parts),
            "image_sizes": [list(size) for size in dict.fromkeys(sizes)],
            "off_levels": off,
            "different_crops": different,
            "areas": areas,
            "mirrored": mirrored,
            "detail": detail,
        }
    )
    other = next((size for size in sizes if tuple(size) != (side, side)), None)
    if other is not None:
        found.doubt(
            "image-size-differs",
            f"The loader scales a known picture to {other[0]} x {other[1]} pixels, not {side} x {side}.",
        )
    if not off <= OFF_LEVELS:
        found.doubt(
            "known-picture-differs",
            f"The loader's output for a known picture is off by {off:.3g} of 255 levels: it is decoded, normalised or "
            "scaled differently than requested.",
        )
        return found
    if detail is not None and detail < LEAST_DETAIL:
        found.doubt(
            "known-picture-blurred",
            f"The loader loses the fine detail of a known picture ({detail:.0%} of it is left): JPEGs are decoded at a "
            "reduced size, or blurred.",
        )
    wrong = sum(not part.allowed for part in parts)
    if different >= len(parts) / 2 and any(map(_alike, batches, batches[1:])):
        found.doubt("batch-reused", "The loader gives the same crops of a known picture in two batches.")
    elif different < len(parts) / 2 or areas[1] < 2 * areas[0]:
        found.doubt(
            "crop-not-random",
            f"The loader crops {different} different parts from {len(parts)} copies of a known picture, of "
            f"{areas[0]:.0%} to {areas[1]:.0%} of its area, but random crops were requested.",
        )
    elif wrong > OUTSIDE * len(parts):
        found.doubt(
            "crop-not-random",
            f"{wrong} of {len(parts)} crops of a known picture are outside of 8 to 100 % of its area and an aspect of "
            "3/4 to 4/3.",
        )
    elif not 0 < mirrored < len(parts):
        found.doubt(
            "crop-not-random",
            f"The loader mirrors {mirrored} of {len(parts)} known pictures; about half were requested.",
        )
    return found


def check_labels(parts: Sequence[Part], labels: Sequence[float]) -> Verified:
    """Check that no image of ``parts`` has the label of the other picture.

    An image that is not the known picture tells nothing of its label.
    """
    known = [(part, label) for part, label in zip(parts, labels) if part.off <= OFF_LEVELS]
    wrong = sum(part.turned_over != bool(label % 2) for part, label in known)
    found = Verified({"labels": len(known), "wrong_labels": wrong})
    if wrong:
        found.doubt(
            "labels-differ",
            f"{wrong} of {len(known)} known pictures come from the loader with the label of another picture.",
        )
    return found


def _alike(one: Sequence[Part], other: Sequence[Part]) -> bool:
    return len(one) == len(other) and all(
        max(abs(a - b) for a, b in zip(left[:4], right[:4])) < 1e-3 for left, right in zip(one, other)
    )


class ImageTraining(Training):
    """One rank that trains an image network.

    Its batch is made of images (batch, 3, size, size) in float32 and labels (batch,) in int64. ``observed_config``
    returns the ``ObservedConfig`` and ``observe`` the ``Observation`` of ``observing.py``. Names and shapes of weights
    are those of ``Architecture.shapes``.
    """

    task = TASK
    settings: ImageSettings

    forms: Mapping[str, str] = {}
    """The form of a data set that a loader takes, where it is no folder of images."""

    def open_feed(self, settings: ImageSettings) -> Feed | None:
        """Return a new feed of the run's loader, on the data set of ``settings``; None without loaders."""
        return self.open_loader(settings, self.ranks.place)

    def network_input(self, _batch: Any) -> Any:
        """Return what the network gets of the images of a batch: numpy, (batch, 3, size, size), normalised."""
        raise NotImplementedError

    def loader_path(self) -> Verified | None:
        """Read the known picture by the run's own loader, in this process, and verify what the network would get."""
        own = self.settings
        if own.synthetic:
            return None
        with tempfile.TemporaryDirectory(prefix="known-picture-") as folder:
            form = self.forms.get(own.loader, FOLDER)
            count = max(PICTURES, 2 * own.batch_per_device)
            source = write_known(form, Path(folder), count, own.classes)
            feed = self.open_feed(replace(own, data=str(source), loader_workers=0))
            if feed is None:
                return None
            batches: list[list[Part]] = []
            sizes: list[tuple[int, ...]] = []
            labels: list[float] = []
            try:
                for _ in range(max(BATCHES, -(-PICTURES // own.batch_per_device))):
                    batch = feed.next()
                    images = self.network_input(batch)
                    labels += self._labels_in(batch)
                    sizes.append(tuple(images.shape[2:]))
                    batches.append([part_of(image) for image in images])
            finally:
                feed.close()
        found = check_crops(batches, sizes, own.image_size)
        found.add(check_labels([part for batch in batches for part in batch], labels))
        return found

    def _labels_in(self, batch: Any) -> list[float]:
        """Return the labels of a batch that is not trained on."""
        own, self.batch = self.batch, batch
        try:
            _, labels = self.read_batch()  # type: ignore[misc]  # images and labels
        finally:
            self.batch = own
        return [float(label) for label in labels.reshape(-1)]
