"""Data sets of pictures, as a suite can have them made."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from trainmark.schema.case import Count
from trainmark.schema.frozen import Frozen


class Form(StrEnum):
    """The forms of images on disk; the others are made from the first: see ``trainmark data convert``.

    OneFlow's ``ofrecord`` can only be given: it is neither made nor checked.
    """

    IMAGE_FOLDER = "image-folder"
    TFRECORD = "tfrecord"
    RECORDIO = "recordio"
    OFRECORD = "ofrecord"


class MakeImages(Frozen):
    """A data set that trainmark makes itself when it is not there: see ``trainmark data make``.

    ``validation`` is the number of validation pictures, 0 for none; None is the number that goes with ``images``.
    """

    images: Count
    classes: Count = 10
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    width: Count = 500
    height: Count = 375
    validation: Annotated[int, Field(strict=True, ge=0)] | None = None
