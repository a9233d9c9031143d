"""A made picture whose colours tell where in it one is, so that what a loader made of it tells the crop, and the rest.

``WIDTH`` x ``HEIGHT``: red rises from ``LOW`` by ``RISE`` from left to right, green from top to bottom. Blue is
``BLUE`` with stripes of ``DETAIL`` levels: upright ones with a period of ``ACROSS`` pixels, level ones of ``ALONG``.
A decoder that decodes at a reduced size loses them. As a JPEG (quality 92, no subsampling of the colours) it is off by
less than 4 levels anywhere, and by 1 on average.

``docs/explanation/verification.md`` describes how the crop is solved from it, and what is compared.
"""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.task import Verified

WIDTH, HEIGHT = 160, 120
LOW, RISE, BLUE = 16.0, 224.0, 64.0
DETAIL, ACROSS, ALONG = 24.0, 8, 4

JPEG = Path(__file__).with_suffix(".jpg").read_bytes()
# The picture as a baseline JPEG, and the same with top and bottom exchanged: green falls from top to bottom.
TURNED_OVER = Path(__file__).with_name("known_picture_turned_over.jpg").read_bytes()
# The picture of a class: the first one of classes with an even number, the second one of the others.
PICTURES = (JPEG, TURNED_OVER)

CLASSES = 8  # the most classes of the samples; with several, each but the last has a neighbour with the other picture
# A sample of each class as a record of TFRecord, all of one size; ImageNet's keys, which count classes from 1.
RECORDS = Path(__file__).with_suffix(".tfrecord").read_bytes()


def class_of(number: int, classes: int) -> int:
    """Return the class of a sample, from 0, of a network with so many ``classes``."""
    return number % min(classes, CLASSES)


FOLDER, TFRECORD, RECORDIO = "folder", "tfrecord", "recordio"


def write_known(form: str, folder: Path, count: int, classes: int = 1) -> Path:
    """Write ``count`` samples of the first of ``classes`` into an empty folder; return what ``--data`` would name."""
    _WRITERS[form](folder, [class_of(number, classes) for number in range(count)])
    return folder


def _images(folder: Path, labels: Sequence[int]) -> None:
    for label in set(labels):
        (folder / f"class{label}").mkdir()
    for number, label in enumerate(labels):
        (folder / f"class{label}" / f"{number:06d}.jpg").write_bytes(PICTURES[label % 2])


def _tfrecord(folder: Path, labels: Sequence[int]) -> None:
    """Write one shard of the records of ``RECORDS``, and the index that DALI wants."""
    size = len(RECORDS) // CLASSES
    shard = b"".join(RECORDS[label * size : (label + 1) * size] for label in labels)
    (folder / "train-00000-of-00001").write_bytes(shard)
    (folder / "idx").mkdir()
    index = "".join(f"{number * size} {size}\n" for number in range(len(labels)))
    (folder / "idx" / "train-00000-of-00001.idx").write_text(index, encoding="ascii")


def _recordio(folder: Path, labels: Sequence[int]) -> None:
    """Write ``train.rec`` and its index: dmlc-core's include/dmlc/recordio.h, mxnet/recordio.py."""
    records, index = bytearray(), []
    for number, label in enumerate(labels):
        index.append(f"{number}\t{len(records)}\n")
        data = struct.pack("<IfQQ", 0, float(label), number, 0) + PICTURES[label % 2]
        records += struct.pack("<II", 0xCED7230A, len(data)) + data + bytes(-len(data) % 4)
    (folder / "train.rec").write_bytes(records)
    (folder / "train.idx").write_text("".join(index), encoding="ascii")


_WRITERS: dict[str, Callable[[Path, Sequence[int]], None]] = {
    FOLDER: _images, TFRECORD: _tfrecord, RECORDIO: _recordio
}  # fmt: skip

# Said here again: a reference that asks where the loaders ask would agree with what is wrong there.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# At least so many are looked at: that as many random crops look like no random ones has a chance below 1e-8.
LEAST_PICTURES, LEAST_BATCHES = 32, 2
# How far (of 255 levels, root of the mean square) that share of the pictures may be off: JPEG's loss is 1.1. A loader
# may have two ways, of which each makes a quarter of the pictures at least.
OFF_LEVELS, MOST = 5.0, 0.75
# Of the crops that are asked for; a few pixels wide, they are rounded by some percent.
AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
# By what share of its bound a crop may be over it, and which share of the crops may be over it by more.
ROUNDING, OUTSIDE = 0.15, 0.1
# Stripes whose period in the image is at least so many pixels must be left: no scaling may have lost them. The share of
# them is that in the median of the pictures that show it, of which there must be at least ``FEWEST``.
LEAST_PERIOD, LEAST_DETAIL, FEWEST = 4.0, 0.5, 3


class Part(NamedTuple):
    """The part of the known picture in one image, in shares of its sides, and how far the image is off, in levels.

    ``detail`` is the share of the stripes that is left of those that must not be lost; None if the scale loses all.
    ``turned_over``: it is of the second picture, whose top and bottom are exchanged.
    """

    left: float
    top: float
    width: float
    height: float
    mirrored: bool
    off: float
    detail: float | None = None
    turned_over: bool = False

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
    mean, deviation = (np.array(values).reshape(3, 1, 1) for values in (MEAN, DEVIATION))
    levels = (np.asarray(image, np.float64) * deviation + mean) * 255
    _, height, width = levels.shape
    # What is scaled up repeats the pixels at its border.
    down, right = max(height // 16, 1), max(width // 16, 1)
    inner = levels[:, down : height - down, right : width - right]
    across = (np.arange(right, width - right) + 0.5) / width
    along = (np.arange(down, height - down) + 0.5) / height
    rise_across, red = np.polyfit(across, inner[0].mean(0), 1)
    rise_along, green = np.polyfit(along, inner[1].mean(1), 1)
    levels_across, levels_along = red + rise_across * across, green + rise_along * along
    upright, left_across = _stripes(inner[2].mean(0) - BLUE, (levels_across - LOW) / RISE * WIDTH / ACROSS)
    level, left_along = _stripes(inner[2].mean(1) - BLUE, (levels_along - LOW) / RISE * HEIGHT / ALONG)
    blue = BLUE + upright[None, :] + level[:, None]
    expected = np.stack(np.broadcast_arrays(levels_across[None, :], levels_along[:, None], blue))
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
    angles = 2 * np.pi * periods
    waves = np.stack([np.cos(angles), np.sin(angles), np.ones_like(angles)], axis=1)
    factors, *_ = np.linalg.lstsq(waves, profile, rcond=None)
    count = abs(float(periods[-1] - periods[0]))
    shown = count >= 2 and len(periods) >= LEAST_PERIOD * count
    return waves @ factors, float(np.hypot(*factors[:2]) / DETAIL) if shown else None


def check_crops(batches: Sequence[Sequence[Part]], sizes: Sequence[tuple[int, ...]], side: int) -> Verified:
    """Check the parts of the known picture in some batches of images of ``sizes`` (height, width)."""
    parts = [part for batch in batches for part in batch]
    off = float(np.quantile([part.off for part in parts], MOST))
    boxes = [{tuple(round(value, 2) for value in part[:4]) for part in batch} for batch in batches]
    different, mirrored = sum(map(len, boxes)), sum(part.mirrored for part in parts)
    details = [part.detail for part in parts if part.detail is not None]
    detail = float(np.median(details)) if len(details) >= FEWEST else None
    areas = [min(part.area for part in parts), max(part.area for part in parts)]
    shapes = [list(size) for size in dict.fromkeys(sizes)]
    found = Verified({"pictures": len(parts), "image_sizes": shapes, "off_levels": off})
    found.data.update(different_crops=different, areas=areas, mirrored=mirrored, detail=detail)
    other = next((size for size in sizes if tuple(size) != (side, side)), None)
    if other is not None:
        scaled = f"{other[0]} x {other[1]} pixels, not {side} x {side}"
        found.doubt("image-size-differs", f"The loader scales a known picture to {scaled}.")
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
    wrong, reason = sum(not part.allowed for part in parts), None
    if different >= len(parts) / 2 and any(map(_alike, batches, batches[1:])):
        found.doubt("batch-reused", "The loader gives the same crops of a known picture in two batches.")
    elif different < len(parts) / 2 or areas[1] < 2 * areas[0]:
        reason = (
            f"The loader crops {different} different parts from {len(parts)} copies of a known picture, of "
            f"{areas[0]:.0%} to {areas[1]:.0%} of its area, but random crops were requested."
        )
    elif wrong > OUTSIDE * len(parts):
        bounds = "8 to 100 % of its area and an aspect of 3/4 to 4/3"
        reason = f"{wrong} of {len(parts)} crops of a known picture are outside of {bounds}."
    elif not 0 < mirrored < len(parts):
        reason = f"The loader mirrors {mirrored} of {len(parts)} known pictures; about half were requested."
    if reason is not None:
        found.doubt("crop-not-random", reason)
    return found


def check_labels(parts: Sequence[Part], labels: Sequence[float]) -> Verified:
    """Check that no image of ``parts`` has the label of the other picture.

    An image that is not the known picture tells nothing of its label.
    """
    known = [(part, label) for part, label in zip(parts, labels) if part.off <= OFF_LEVELS]
    wrong = sum(part.turned_over != bool(label % 2) for part, label in known)
    found = Verified({"labels": len(known), "wrong_labels": wrong})
    if wrong:
        pictures = f"{wrong} of {len(known)} known pictures"
        found.doubt("labels-differ", f"{pictures} come from the loader with the label of another picture.")
    return found


def _alike(one: Sequence[Part], other: Sequence[Part]) -> bool:
    return len(one) == len(other) and all(
        max(abs(a - b) for a, b in zip(left[:4], right[:4])) < 1e-3 for left, right in zip(one, other)
    )
