"""A container's image: the other kind of environment in which a card's program can run."""

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

    ``folder`` (in the program's folder) holds the ``dockerfile`` and is what the build sees; ``arguments`` are its
    ``ARG``s, in which ``{reference}`` is the image that it starts from. The commit becomes the tag of ``name``.
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
    """An image and how a container of it is started.

    ``reference`` is what is pulled, or what ``build`` starts from. ``python`` is the interpreter inside. ``ipc``
    and ``shm_size`` concern the shared memory in which loaders hand over batches; ``ulimits`` are given to the
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
