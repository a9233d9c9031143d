"""What an image folder is, in a few words: for run manifests, and as the check before a run."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from trainmark.dataset.images.layout import class_of, files_in, find_lists, is_picture, read_list
from trainmark.dataset.images.manifest import WORK_NAME, DatasetManifest, read_begun, read_manifest
from trainmark.dataset.images.spec import ImageFolderSpec
from trainmark.dataset.manifest import MANIFEST_NAME, SUMS_NAME, sha256
from trainmark.errors import InputError


@dataclass(frozen=True, slots=True)
class ImageFolder:
    """An image folder. ``spec`` is what it was made from, None for one that trainmark did not make.

    ``classes`` counts class folders by name or, in a flat layout, the labels of the lists; None where
    there is neither. ``lists`` are the names of the list files in it.

    ``digest`` (SHA-256, hexadecimal) identifies the data: of a made folder, that of ``dataset.json`` as it is without
    validation pictures, which covers every byte that is trained on; else of the names and sizes of the pictures and
    of the list files, which covers no pixels.
    """

    directory: Path
    images: int
    classes: int | None
    mean_bytes: float
    digest: str
    lists: tuple[str, ...]
    spec: ImageFolderSpec | None


def describe(directory: Path) -> ImageFolder:
    """Return what ``directory`` holds, from names and sizes alone; no picture is opened.

    Raises ``InputError`` if it is missing, is no folder, holds no pictures, has an empty list, is a data set
    whose making was not finished, or a made one that has lost pictures.
    """
    require_folder(directory)
    manifest = read_manifest(directory)
    pictures = sorted(path for path in files_in(directory) if is_picture(path))
    lists = tuple(path.name for path in find_lists(directory))
    if manifest:
        return _describe_made(directory, manifest, len(pictures), lists)
    if not pictures:
        raise InputError(f"{directory}: holds no pictures; 'trainmark data make {directory}' makes some")

    digest = hashlib.sha256()
    total = 0
    for path in pictures:
        try:
            size = (directory / path).stat().st_size
        except OSError as error:
            raise InputError(f"{directory / path}: cannot be read ({error.strerror})") from None
        total += size
        digest.update(f"{path}\0{size}\n".encode(errors="surrogateescape"))
    labels: set[int] = set()
    for name in lists:
        read = read_list(directory, directory / name)
        if not read.entries:
            raise InputError(f"{directory / name}: has no line 'path label'")
        labels.update(entry.label for entry in read.entries)
        digest.update(f"{name}\0{sha256((directory / name).read_bytes())}\n".encode())
    classes = len({class_of(path) for path in pictures} - {None}) or len(labels) or None
    return ImageFolder(
        directory, len(pictures), classes, total / len(pictures), digest.hexdigest(), lists, None
    )


def require_folder(directory: Path) -> None:
    """Raise ``InputError`` unless ``directory`` is a folder that is not half a data set."""
    if not directory.exists():
        raise InputError(
            f"{directory}: no such folder; 'trainmark data make {directory}' makes a data set there"
        )
    if not directory.is_dir():
        raise InputError(f"{directory}: is a file, not a folder of pictures")
    if _interrupted(directory):
        raise InputError(
            f"{directory}: its making was interrupted; run 'trainmark data make' again with the same options"
        )


def _interrupted(directory: Path) -> bool:
    """Return whether a making has begun and not ended; its validation pictures come after the manifest."""
    if not (directory / WORK_NAME).exists():
        return False
    manifest, begun = read_manifest(directory), read_begun(directory)
    return manifest is None or (begun is not None and begun.spec != manifest.recipe.spec)


def _describe_made(
    directory: Path, manifest: DatasetManifest, found: int, lists: tuple[str, ...]
) -> ImageFolder:
    if found != manifest.images or not (directory / SUMS_NAME).is_file() or not lists:
        raise InputError(
            f"{directory}: {found} of its {manifest.images} pictures and {len(lists)} list files are there; "
            f"'trainmark data verify {directory}' names what is wrong"
        )
    return ImageFolder(
        directory,
        manifest.images,
        manifest.recipe.spec.classes,
        manifest.bytes / manifest.images,
        manifest.training_sha256 or sha256((directory / MANIFEST_NAME).read_bytes()),
        lists,
        manifest.recipe.spec,
    )
