"""The axes of image classification."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from trainmark.schema.task_catalogue import TaskAxes


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
