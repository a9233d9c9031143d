"""The spec of a created image folder: numbers, sizes, seed and names of its pictures."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import Field, ValidationError, model_validator

from trainmark.errors import InputError, nearest, plain_message
from trainmark.schema.frozen import Frozen


class Sizes(StrEnum):
    """The choice between mixed sizes and one size of pictures."""

    MIXED = "mixed"
    """Mostly ``width x height``, the rest upright, flatter, square, larger and smaller (see ``_MIX``)."""
    FIXED = "fixed"
    """Every picture is ``width x height``."""


class Split(StrEnum):
    """The part of a data set that a picture belongs to; also the name of its folder."""

    TRAIN = "train"
    VAL = "val"


class ImageFolderSpec(Frozen):
    """The full description of a created image folder: equal specs give equal pixels on every machine."""

    images: int = Field(default=1000, ge=1, le=100_000_000, description="training pictures")
    val_images: int = Field(default=0, ge=0, le=100_000_000, description="validation pictures")
    classes: int = Field(default=10, ge=1, le=1_000_000)
    seed: int = Field(default=0, ge=0, lt=2**63)
    width: int = Field(default=500, ge=32, le=8192, description="pixels, of the usual picture")
    height: int = Field(default=375, ge=32, le=8192, description="pixels, of the usual picture")
    sizes: Sizes = Sizes.MIXED
    quality: int = Field(default=95, ge=1, le=100, description="JPEG quality, 4:2:0")

    @model_validator(mode="after")
    def _every_class_has_a_picture(self) -> "ImageFolderSpec":
        for key, count in (("images", self.images), ("val_images", self.val_images)):
            if 0 < count < self.classes:
                raise ValueError(f"{key} ({count}) is less than classes ({self.classes})")
        return self


_VALIDATION = "validation"
"""The key for ``val_images`` in suites and options; manifests use ``val_images``."""


def default_validation(images: int, classes: int) -> int:
    """Return the default number of validation pictures: a twentieth of the training pictures, at least one per class.

    ImageNet has a twenty-fifth. Programs that read ``val`` expect the class folders of ``train`` in it.
    """
    return max(classes, images // 20)


def spec_from(values: Mapping[str, Any], where: str) -> ImageFolderSpec:
    """Return the spec described by ``values`` (parsed YAML or options).

    The key ``validation`` is the number of validation pictures; the default is ``default_validation``. Invalid values
    raise ``InputError`` that begins with ``where``, the name of the document.
    """
    rest = {key: value for key, value in values.items() if key != _VALIDATION}
    try:
        spec = ImageFolderSpec.model_validate(rest)
        requested = values.get(_VALIDATION)
        count = default_validation(spec.images, spec.classes) if requested is None else requested
        return ImageFolderSpec.model_validate({**spec.model_dump(), "val_images": count})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]).replace("val_images", _VALIDATION)
        message = plain_message(first["msg"]).replace("val_images", _VALIDATION)
        if first["type"] == "extra_forbidden":
            message = (
                f"is not a key of a made data set{nearest(key, (*ImageFolderSpec.model_fields, _VALIDATION))}"
            )
        raise InputError(f"{where}: {key}: {message}" if key else f"{where}: {message}") from None


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture to create: ``path`` is relative to the folder, with ``/``; ``label`` counts classes from 0."""

    split: Split
    index: int
    label: int
    path: str


def pictures(spec: ImageFolderSpec) -> Iterator[Picture]:
    """Yield the pictures of ``spec`` in the order of its list files: by split, then class, then index.

    Names follow ImageNet: ``train/n00000003/n00000003_13.JPEG``. Pictures are assigned to classes round-robin, so class
    sizes differ by at most one, and a larger folder of the same seed contains the same first pictures.
    """
    for split, count in counts(spec).items():
        for label in range(spec.classes):
            folder = class_folder(label)
            for index in range(label, count, spec.classes):
                name = f"{folder}_{index}" if split is Split.TRAIN else f"val_{index:08d}"
                yield Picture(split, index, label, f"{split}/{folder}/{name}.JPEG")


def class_folder(label: int) -> str:
    """Return the name of a class's folder, in the style of ImageNet's: ``n00000003``."""
    return f"n{label:08d}"


def counts(spec: ImageFolderSpec) -> dict[Split, int]:
    """Return the number of pictures of each nonempty split."""
    return {s: n for s, n in ((Split.TRAIN, spec.images), (Split.VAL, spec.val_images)) if n}


_MIX = (
    # (share of 1000, width, height, swap), sizes in thousandths of the usual ones; `True` swaps width and height.
    (600, 1000, 1000, False),
    (150, 1000, 1000, True),
    (120, 1000, 888, False),
    (50, 1000, 888, True),
    (30, 750, 1000, False),
    (30, 1280, 1280, False),
    (20, 640, 640, False),
)
"""The mixed sizes: for 500x375 these are 500x375, 375x500, 500x333, 333x500, 375x375, 640x480 and 320x240.

The shares are a choice (mostly 500x375 landscape, some upright, a few others), not measured on ImageNet.
"""


def picture_size(spec: ImageFolderSpec, draw: int) -> tuple[int, int]:
    """Return ``(width, height)`` in pixels; ``draw`` (0 to 999) chooses among the mixed sizes."""
    if spec.sizes is Sizes.FIXED:
        return spec.width, spec.height
    below = 0
    for share, across, down, swapped in _MIX:
        below += share
        if draw < below:
            size = (spec.width * across // 1000, spec.height * down // 1000)
            return size[::-1] if swapped else size
    raise ValueError(f"draw is {draw}, not 0 to 999")
