"""Data sets of pictures that a suite can create."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from trainmark.schema.case import Count
from trainmark.schema.frozen import Frozen


class Form(StrEnum):
    """The forms of images on disk; the others are made from the first: see ``trainmark data convert``.

    OneFlow's ``ofrecord`` must already exist; it is neither created nor checked.
    """

    IMAGE_FOLDER = "image-folder"
    TFRECORD = "tfrecord"
    RECORDIO = "recordio"
    OFRECORD = "ofrecord"


class MakeImages(Frozen):
    """A data set that trainmark creates if it is missing; see ``trainmark data make``.

    ``validation`` is the number of validation pictures (0: none; default: the usual number for ``images``).
    """

    images: Count
    classes: Count = 10
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    width: Count = 500
    height: Count = 375
    validation: Annotated[int, Field(strict=True, ge=0)] | None = None
