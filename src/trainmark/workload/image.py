"""The container image of a card, in which its program can run instead of an environment."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from trainmark.schema.frozen import Frozen

_PART = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
Reference = Annotated[
    str,
    StringConstraints(
        pattern=rf"^[A-Za-z0-9.-]+(?::\d+)?(?:/{_PART})*(?::[\w][\w.-]*)?(?:@sha256:[0-9a-f]{{64}})?$",
        max_length=300,
    ),
]
"""An image as Docker names it: ``registry/path/name:tag``, or pinned as ``name@sha256:…``."""

ImageName = Annotated[str, StringConstraints(pattern=rf"^{_PART}(?:/{_PART})*$", max_length=100)]


class Sharing(StrEnum):
    """The namespace of a container: private, or the host's."""

    HOST = "host"
    PRIVATE = "private"


class ImageBuild(Frozen):
    """The build of an image from the program's repository.

    ``folder`` (in the program's folder) has the ``dockerfile`` and is the build context; ``arguments`` are its
    ``ARG``s, in which ``{reference}`` is the base image. The commit becomes the tag of ``name``.
    """

    name: ImageName
    folder: str = "."
    dockerfile: str = "Dockerfile"
    arguments: Mapping[str, str] = Field(default_factory=dict)


class Mount(Frozen):
    """A folder of the host that the program needs besides its run's folder, its source and its data."""

    source: str
    target: str
    read_only: bool = True


class Image(Frozen):
    """An image, and the settings of its containers.

    ``reference`` is the image to pull, or the base image of ``build``. ``python`` is the container's interpreter.
    ``ipc`` and ``shm_size`` configure the shared memory that loaders use for batches; ``ulimits`` are passed to the
    engine as ``name=soft[:hard]``.
    """

    reference: Reference
    build: ImageBuild | None = None
    python: str = "python"
    ipc: Sharing = Sharing.PRIVATE
    network: Sharing = Sharing.HOST
    shm_size: Annotated[str, StringConstraints(pattern=r"^\d+[bkmg]?$")] | None = None
    ulimits: Mapping[str, str] = Field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
