"""The axes of image classification, and the data sets of pictures that a suite can create."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from trainmark.schema.frozen import Count, Frozen
from trainmark.tasks.declaration import TaskAxes


class Layout(StrEnum):
    """The order of an image batch in memory."""

    NCHW = "nchw"
    NHWC = "nhwc"


class ImageAxes(TaskAxes):
    """The axes; ``image_size`` is the side of a square image in pixels."""

    layout: Layout | Literal["best"] = Layout.NCHW
    image_size: Annotated[int, Field(strict=True, ge=1, le=65536)] = 224

    def id_words(self, compiler: str) -> tuple[str, ...]:
        """Return ``nchw``, the compiler and ``224px``."""
        return (str(self.layout), compiler, f"{self.image_size}px")


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
